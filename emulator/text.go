package emulator

import (
	"cmp"
	"fmt"
	"slices"
)

// The routines for which packets carry the result: skb_get_poff, and what calls
// it in later kernels; there, random numbers too. (The kernel's function for
// those has no argument, but converted programs give it the packet.)
const (
	payOffsetSymbol      = "skb_get_poff"
	laterPayOffsetSymbol = "bpf_skb_get_pay_offset"
	laterRandomSymbol    = "bpf_user_rnd_u32"
)

// routines is the assembled code of the kernel's routines at one address.
type routines struct {
	code   []byte
	labels map[string]uint64 // addresses of the entry points
}

// site is a symbol's place in the kernel's text.
type site struct {
	name    string
	addr    uint64
	room    uint64 // bytes up to the next symbol
	routine string // key in pieces, or in routines.labels
}

// maxSite is the room behind the last symbol of a neighbourhood.
const maxSite = 64

// newSites sorts symbols by address and finds out how much room each has.
// routine names what is to be there, "" for nothing.
func newSites(symbols map[string]uint64, p *plan, r *routines, routine func(name string) string) ([]site, error) {
	var sites []site
	for name, addr := range symbols {
		if !p.valid(addr) || !p.valid(addr+maxSite) || addr+maxSite < addr || addr < pageSize || addr%p.align != 0 {
			return nil, fmt.Errorf("symbol %s: %#x is not an address that code can have", name, addr)
		}
		sites = append(sites, site{name: name, addr: addr, room: maxSite, routine: routine(name)})
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

// Missing returns those of the profile's symbols that stand for no routine, in
// order of address: code that goes there stops with a breakpoint.
func (m *Machine) Missing() []string {
	var names []string
	for _, s := range m.sites {
		if s.routine == "" && s.room > 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// textPages is the kernel's text under construction: whole pages around
// symbols, by address.
type textPages map[uint64][]byte

// put writes code, which may cross pages.
func (t textPages) put(addr uint64, code, filling []byte) {
	for i, c := range code {
		a := addr + uint64(i)
		page := a &^ uint64(pageMask)
		if t[page] == nil {
			t[page] = make([]byte, pageSize)
			fillCode(t[page], 0, filling)
		}
		t[page][a&pageMask] = c
	}
}
