package emulator

import (
	"fmt"

	"github.com/kjit-project/kjit/internal/arm"
)

// placeARMSymbols puts a jump to the routine at each symbol, a breakpoint at
// those without a routine.
func placeARMSymbols(symbols map[string]uint64, p *plan, r *routines) (map[uint64][]byte, []site, error) {
	sites, err := newSites(symbols, p, r, func(name string) string {
		if r.labels[name] == 0 {
			return ""
		}
		return name
	})
	if err != nil {
		return nil, nil, err
	}
	pages := textPages{}
	for _, s := range sites {
		var b arm.Buf
		switch target := uint32(r.labels[s.routine]); {
		case s.room == 0:
			continue
		case target == 0:
			b.Bare(arm.Bkpt)
		default:
			b.Ldr(arm.AL, arm.PC, arm.At(arm.PC, -4))
			b.Word(target)
		}
		if s.room < uint64(len(b)) {
			return nil, nil, fmt.Errorf("symbol %s at %#x is too near to the next one: there is no room for a jump", s.name, s.addr)
		}
		pages.put(s.addr, b, p.filling)
	}
	return pages, sites, nil
}
