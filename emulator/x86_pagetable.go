package emulator

import (
	"encoding/binary"
	"errors"
)

// Bits of an x86_64 page table entry (Intel SDM volume 3, 4.5). Accessed and
// dirty are always set, so that the processor need not.
const (
	ptePresent = 1 << 0
	pteWrite   = 1 << 1
	pteUser    = 1 << 2
	pteAD      = 1<<5 | 1<<6
	pteNX      = 1 << 63
	pteAddr    = 0x000ffffffffff000
)

// pageTable is a four-level page table in guest memory.
type pageTable struct {
	mem    *memory
	tables []uint64 // all frames it may use; tables[0] is the root
	used   int
}

// errTablesFull means that the page tables need more frames than they have;
// rebuild frees those that hold nothing any more.
var errTablesFull = errors.New("the page tables of the emulated kernel are full")

func newPageTable(mem *memory, frames int) (*pageTable, error) {
	t := &pageTable{mem: mem}
	for range frames {
		pa, err := mem.take(1)
		if err != nil {
			return nil, err
		}
		t.tables = append(t.tables, pa)
	}
	t.used = 1
	return t, nil
}

// root is CR3.
func (t *pageTable) root() uint64 { return t.tables[0] }

// reset empties the table.
func (t *pageTable) reset() {
	for _, pa := range t.tables[:t.used] {
		clear(t.mem.bytes(pa, pageSize))
	}
	t.used = 1
}

// entry returns the last-level entry for va, or nil when a table is missing
// and make is false, or when there is no frame for one.
func (t *pageTable) entry(va uint64, create bool) []byte {
	table := t.root()
	for shift := 39; ; shift -= 9 {
		slot := t.mem.bytes(table+(va>>shift&511)*8, 8)
		if shift == 12 {
			return slot
		}
		e := binary.LittleEndian.Uint64(slot)
		if e&ptePresent == 0 {
			if !create || t.used == len(t.tables) {
				return nil
			}
			e = t.tables[t.used] | ptePresent | pteWrite | pteUser | pteAD
			t.used++
			binary.LittleEndian.PutUint64(slot, e)
		}
		table = e & pteAddr
	}
}

// apply maps the region's pages.
func (t *pageTable) apply(r *region) error {
	if r.prot&unmapped != 0 {
		return nil
	}
	bits := uint64(ptePresent | pteAD | pteNX)
	if r.prot&writable != 0 {
		bits |= pteWrite
	}
	if r.prot&executable != 0 {
		bits &^= pteNX
	}
	if r.prot&user != 0 {
		bits |= pteUser
	}
	for off := uint64(0); off < r.size; off += pageSize {
		e := t.entry(r.va+off, true)
		if e == nil {
			return errTablesFull
		}
		binary.LittleEndian.PutUint64(e, r.pa+off|bits)
	}
	return nil
}

// remove unmaps the region's pages.
func (t *pageTable) remove(r *region) {
	for off := uint64(0); off < r.size; off += pageSize {
		if e := t.entry(r.va+off, false); e != nil {
			binary.LittleEndian.PutUint64(e, 0)
		}
	}
}

// walk looks an address up.
func (t *pageTable) walk(va uint64) (pa uint64, p prot, ok bool) {
	if !canonical(va) {
		return 0, 0, false
	}
	e := t.entry(va, false)
	if e == nil {
		return 0, 0, false
	}
	pte := binary.LittleEndian.Uint64(e)
	for _, b := range []struct {
		bit, want uint64
		prot      prot
	}{{pteWrite, pteWrite, writable}, {pteNX, 0, executable}, {pteUser, pteUser, user}} {
		if pte&b.bit == b.want {
			p |= b.prot
		}
	}
	return pte&pteAddr + va&pageMask, p, pte&ptePresent != 0
}

// canonical reports whether bits 63 to 47 are equal.
func canonical(va uint64) bool { return int64(va<<16)>>16 == int64(va) }
