package emulator

import (
	"encoding/binary"
	"errors"
)

// Short descriptors in the format of ARMv6 and later (ARM Architecture
// Reference Manual, B3.5): a table of 4096 words, one for each MiB, which refer
// to tables of 256 small pages each.
//
// An ARM926 has an older format, in which no page forbids execution. The engine
// takes this one all the same, if the control register asks for it (XP). So
// code that jumps into data is found on ARMv5 as well, and stores are 60 ns
// faster each: those to executable pages take the engine's slow path.
const (
	armTable    = 0x1 // first level: a table, domain 0
	armPage     = 0x2 // second level: a small page
	armXN       = 0x1
	armKernel   = 0x10 // for the kernel alone
	armAll      = 0x20 // with it, for everybody
	armReadOnly = 0x200
	armAddr     = ^uint32(pageMask)

	armL1Size = 4 * pageSize
	armL2Size = 1024
)

// armBits are the bits that a page's entry has when its protection agrees with
// a mask.
var armBits = []struct{ mask, prot, bit uint32 }{
	{uint32(writable), 0, armReadOnly},
	{uint32(executable), 0, armXN},
	{uint32(user), uint32(user), armAll},
}

// armTables are page tables.
type armTables struct {
	mem  *memory
	l1   uint64
	l2   []uint64 // all that may be used
	used int
}

func newARMTables(mem *memory, frames int) (*armTables, error) {
	t := &armTables{mem: mem}
	var err error
	if t.l1, err = mem.take(armL1Size / pageSize); err != nil {
		return nil, err
	}
	if t.l1%armL1Size != 0 {
		return nil, errors.New("the page table is not on a multiple of its size")
	}
	for range frames - armL1Size/pageSize {
		pa, err := mem.take(1)
		if err != nil {
			return nil, err
		}
		for at := uint64(0); at < pageSize; at += armL2Size {
			t.l2 = append(t.l2, pa+at)
		}
	}
	return t, nil
}

func (t *armTables) root() uint64 { return t.l1 }

func (t *armTables) reset() {
	clear(t.mem.bytes(t.l1, armL1Size))
	for _, pa := range t.l2[:t.used] {
		clear(t.mem.bytes(pa, armL2Size))
	}
	t.used = 0
}

// entry returns the second-level entry for va, or nil when there is none and
// create is false, or no table left.
func (t *armTables) entry(va uint64, create bool) []byte {
	first := t.mem.bytes(t.l1+va>>20*4, 4)
	e := binary.LittleEndian.Uint32(first)
	if e == 0 {
		if !create || t.used == len(t.l2) {
			return nil
		}
		e = uint32(t.l2[t.used]) | armTable
		t.used++
		put32(first, e)
	}
	return t.mem.bytes(uint64(e&^(armL2Size-1))+va>>12&255*4, 4)
}

func (t *armTables) apply(r *region) error {
	if r.prot&unmapped != 0 {
		return nil
	}
	bits := uint32(armPage | armKernel)
	for _, b := range armBits {
		if uint32(r.prot)&b.mask == b.prot {
			bits |= b.bit
		}
	}
	for off := uint64(0); off < r.size; off += pageSize {
		e := t.entry(r.va+off, true)
		if e == nil {
			return errTablesFull
		}
		put32(e, uint32(r.pa+off)|bits)
	}
	return nil
}

func (t *armTables) remove(r *region) {
	for off := uint64(0); off < r.size; off += pageSize {
		if e := t.entry(r.va+off, false); e != nil {
			put32(e, 0)
		}
	}
}

func (t *armTables) walk(va uint64) (pa uint64, p prot, ok bool) {
	if !is32Bit(va) {
		return 0, 0, false
	}
	e := t.entry(va, false)
	if e == nil {
		return 0, 0, false
	}
	page := binary.LittleEndian.Uint32(e)
	if page == 0 {
		return 0, 0, false
	}
	for _, b := range armBits {
		if page&b.bit != 0 {
			p |= prot(b.prot)
		} else {
			p |= prot(b.mask ^ b.prot)
		}
	}
	return uint64(page&armAddr) + va&pageMask, p, true
}

// is32Bit reports whether an address, with a guard page behind, exists on a
// processor of 32 bits.
func is32Bit(va uint64) bool { return va < 1<<32-pageSize }
