package emulator

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kjit-project/kjit/internal/x86"
)

// perCPUSymbol is the one symbol of the x86_64 profiles that is no address in
// the kernel's text: the offset of the processor number behind gs.
const perCPUSymbol = "cpu_number"

// fillByte is int3: what surrounds code, so that running off it is noticed.
const fillByte = 0xcc

// site is a symbol's place in the kernel's text.
type site struct {
	name    string
	addr    uint64
	room    uint64 // bytes up to the next symbol
	routine string // key in pieces, or in routines.labels
}

// stub is a jump that a site needs near to it, because it has room only for a
// jump with an 8-bit displacement.
type stub struct {
	at     uint64 // address of the displacement byte
	target uint64
}

// text is the kernel's text under construction: whole pages around symbols.
type text struct {
	routines *routines
	pages    map[uint64][]byte // by address
	used     map[uint64]bool   // bytes taken
	stubs    []stub
}

// maxSite is the room behind the last symbol of a neighbourhood.
const maxSite = 64

// placeSymbols puts what a profile's symbols stand for at their addresses: the
// fast path itself where it fits in before the next symbol, otherwise a jump.
// Symbols without a routine get a breakpoint. The result maps page addresses
// to contents.
func placeSymbols(symbols map[string]uint64, r *routines) (map[uint64][]byte, []site, error) {
	t := &text{routines: r, pages: map[uint64][]byte{}, used: map[uint64]bool{}}
	sites, err := findSites(symbols, r)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range sites {
		if err := t.place(s, sites); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range t.stubs {
		if err := t.placeStub(s, sites); err != nil {
			return nil, nil, err
		}
	}
	return t.pages, sites, nil
}

// findSites sorts the symbols and finds out how much room each has.
func findSites(symbols map[string]uint64, r *routines) ([]site, error) {
	plain := "/3.4"
	if _, ok := symbols["sk_load_word_positive_offset"]; !ok {
		// The entry points of 3.4 come all together; published images that show
		// part of them may still name one of another size.
		plain = "/3.0"
		for _, s := range loadSizes {
			for _, suffix := range []string{"_positive_offset", "_negative_offset"} {
				if _, ok := symbols["sk_load_"+s.name+suffix]; ok {
					plain = "/3.4"
				}
			}
		}
	}
	var sites []site
	for name, addr := range symbols {
		if name == perCPUSymbol {
			continue
		}
		if !canonical(addr) || !canonical(addr+maxSite) || addr+maxSite < addr || addr < pageSize {
			return nil, fmt.Errorf("symbol %s: %#x is not an address that code can have", name, addr)
		}
		s := site{name: name, addr: addr, room: maxSite}
		switch _, isPiece := pieces[name]; {
		case isPiece:
			s.routine = name
		case pieces[name+plain].code != nil:
			s.routine = name + plain
		case r.labels[name] != 0:
			s.routine = name
		}
		sites = append(sites, s)
	}
	slices.SortFunc(sites, func(a, b site) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.name, b.name))
	})
	for i := range sites[:max(len(sites)-1, 0)] {
		s, next := &sites[i], &sites[i+1]
		s.room = min(s.room, next.addr-s.addr)
		if s.room == 0 {
			if r.labels[s.routine] != r.labels[next.routine] {
				return nil, fmt.Errorf("symbols %s and %s are both at %#x", s.name, next.name, s.addr)
			}
			// Two names of one routine: the second stands for both.
			s.routine = ""
		}
	}
	return sites, nil
}

func (t *text) place(s site, sites []site) error {
	if s.room == 0 {
		return nil
	}
	if s.routine == "" {
		t.put(s.addr, []byte{fillByte})
		return nil
	}
	if p, ok := pieces[s.routine]; ok {
		for _, near := range []bool{true, false} {
			for _, runOn := range []bool{true, false} {
				if code, stubs, ok := t.inline(s, p, near, runOn, sites); ok {
					t.put(s.addr, code)
					t.stubs = append(t.stubs, stubs...)
					return nil
				}
			}
		}
	}
	target := t.routines.labels[s.routine]
	var b x86.Buf
	switch disp, ok := displacement(s.addr+5, target); {
	case ok && s.room >= 5:
		b.JmpNear(disp)
	case s.room >= 14:
		b.JmpRM(x86.RIP(0))
		b.Imm64(target)
	case s.room >= 2:
		b.JmpShort(0)
		t.stubs = append(t.stubs, stub{at: s.addr + 1, target: target})
	default:
		return fmt.Errorf("symbol %s at %#x is too near to the next one: there is no room for a jump", s.name, s.addr)
	}
	t.put(s.addr, b)
	return nil
}

// inline assembles a piece in place, if it fits: with a near or short
// conditional jump, running on into the next symbol or carrying a copy of it.
func (t *text) inline(s site, p piece, near, runOn bool, sites []site) (code []byte, stubs []stub, ok bool) {
	var b x86.Buf
	for {
		b.Raw(p.code...)
		target := t.routines.labels[p.to]
		if near {
			disp, ok := displacement(s.addr+uint64(len(b))+6, target)
			if !ok {
				return nil, nil, false
			}
			b.JccNear(p.cond, disp)
		} else {
			b.JccShort(p.cond, 0)
			stubs = append(stubs, stub{at: s.addr + uint64(len(b)) - 1, target: target})
		}
		if p.next == "" {
			b.Raw(p.rest...)
			break
		}
		if runOn {
			ok := slices.ContainsFunc(sites, func(o site) bool {
				return o.addr == s.addr+uint64(len(b)) && o.routine == p.next
			})
			if !ok {
				return nil, nil, false
			}
			break
		}
		p = pieces[p.next]
	}
	return b, stubs, uint64(len(b)) <= s.room
}

// displacement is that of a jump whose end is at from.
func displacement(from, to uint64) (int32, bool) {
	d := int64(to - from)
	return int32(d), d >= math.MinInt32 && d <= math.MaxInt32
}

// put writes code and takes its bytes.
func (t *text) put(addr uint64, code []byte) {
	for i, c := range code {
		a := addr + uint64(i)
		page := a &^ uint64(pageMask)
		if t.pages[page] == nil {
			t.pages[page] = make([]byte, pageSize)
			fill(t.pages[page], fillByte)
		}
		t.pages[page][a&pageMask] = c
		t.used[a] = true
	}
}

// placeStub finds the nearest free bytes for a stub and links it.
func (t *text) placeStub(s stub, sites []site) error {
	const size = 14
	for distance := 1; distance <= 127; distance++ {
		for _, addr := range []uint64{s.at + 1 + uint64(distance), s.at + 1 - uint64(distance)} {
			n := uint64(5)
			disp, near := displacement(addr+5, s.target)
			if !near {
				n = size
			}
			if !t.free(addr, n, sites) {
				continue
			}
			var b x86.Buf
			if near {
				b.JmpNear(disp)
			} else {
				b.JmpRM(x86.RIP(0))
				b.Imm64(s.target)
			}
			t.put(addr, b)
			t.put(s.at, []byte{byte(addr - s.at - 1)})
			return nil
		}
	}
	return fmt.Errorf("the symbols around %#x are too near to each other: there is no room for a jump", s.at)
}

// free reports whether n bytes at addr are unused and in a page of the text.
func (t *text) free(addr, n uint64, sites []site) bool {
	for a := addr; a < addr+n; a++ {
		if t.used[a] || t.pages[a&^uint64(pageMask)] == nil {
			return false
		}
	}
	return !slices.ContainsFunc(sites, func(s site) bool { return s.addr >= addr && s.addr < addr+n })
}
