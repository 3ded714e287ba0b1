package emulator

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	pageSize = 4096
	pageMask = pageSize - 1
)

// memory is the physical memory of a machine: one anonymous mapping of the
// host, so that the host writes packets and code straight into it.
type memory struct {
	ram  []byte
	next int // first frame that was not given out
}

func newMemory(frames int) (*memory, error) {
	ram, err := syscall.Mmap(-1, 0, frames*pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB for the emulated kernel: %w", frames*pageSize>>20, err)
	}
	return &memory{ram: ram}, nil
}

func (m *memory) close() error {
	if m.ram == nil {
		return nil
	}
	ram := m.ram
	m.ram = nil
	return syscall.Munmap(ram)
}

var errNoFrames = errors.New("the emulated kernel is out of memory")

// take gives out n adjoining frames and returns the physical address.
func (m *memory) take(n int) (uint64, error) {
	if (m.next+n)*pageSize > len(m.ram) {
		return 0, errNoFrames
	}
	pa := uint64(m.next) * pageSize
	m.next += n
	return pa, nil
}

// bytes returns size bytes at a physical address.
func (m *memory) bytes(pa, size uint64) []byte { return m.ram[pa : pa+size : pa+size] }

// region is a named range of virtual addresses, page-aligned, with the frames
// behind it. What lies between regions is not mapped.
type region struct {
	name string
	va   uint64
	size uint64
	pa   uint64
	prot prot
}

// prot is what the guest may do with a page. What is mapped is readable.
type prot uint8

const (
	readOnly   prot = 0
	writable   prot = 1 << 0
	executable prot = 1 << 1
	user       prot = 1 << 2 // a page of user space, for the self-test
	unmapped   prot = 1 << 7 // has a name, and every access faults
)

// span is a range of offsets, without its end.
type span struct{ lo, hi uint64 }

func (r *region) end() uint64 { return r.va + r.size }

// contains reports whether addr is in the region.
func (r *region) contains(addr uint64) bool { return addr-r.va < r.size }

// overlaps reports whether the region, with a guard page on both sides, and
// [va, va+size) have an address in common.
func (r *region) overlaps(va, size uint64) bool {
	lo := r.va - pageSize
	return va-lo < r.size+2*pageSize || lo-va < size
}

// fillCode repeats a pattern of code; the first byte is the one that the pattern
// has at the offset at.
func fillCode(b []byte, at int, pattern []byte) {
	for i := range min(len(b), len(pattern)) {
		b[i] = pattern[(at+i)%len(pattern)]
	}
	for n := len(pattern); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// fill sets every byte.
func fill(b []byte, v byte) {
	if v == 0 {
		clear(b)
		return
	}
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
