package emulator

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kjit-project/kjit/internal/x86"
)

// perCPUSymbol is the one symbol of the x86_64 profiles that is no address in
// the kernel's text: the offset of the processor number behind gs.
const perCPUSymbol = "cpu_number"

// stub is a jump that a site needs near to it, because it has room only for a
// jump with an 8-bit displacement.
type stub struct {
	at     uint64 // address of the displacement byte
	target uint64
}

// text is the kernel's text under construction: whole pages around symbols.
type text struct {
	routines *routines
	pages    textPages
	used     map[uint64]bool // bytes taken
	stubs    []stub
}

// placeSymbols puts what a profile's symbols stand for at their addresses: the
// fast path itself where it fits in before the next symbol, otherwise a jump.
// Symbols without a routine get a breakpoint. The result maps page addresses
// to contents.
func placeSymbols(symbols map[string]uint64, r *routines) (map[uint64][]byte, []site, error) {
	t := &text{routines: r, pages: textPages{}, used: map[uint64]bool{}}
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

// findSites finds out what is to be at each symbol.
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
	symbols = maps.Clone(symbols)
	delete(symbols, perCPUSymbol)
	return newSites(symbols, &x86Plan, r, func(name string) string {
		switch _, isPiece := pieces[name]; {
		case isPiece, r.labels[name] != 0 && pieces[name+plain].code == nil:
			return name
		case pieces[name+plain].code != nil:
			return name + plain
		}
		return ""
	})
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
	t.pages.put(addr, code, x86Plan.filling)
	for i := range code {
		t.used[addr+uint64(i)] = true
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
