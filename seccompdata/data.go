// Package seccompdata describes system calls as seccomp filters see them, and
// what a kernel does with filters: whom it lets attach them and how many, how it
// combines what they say, and which calls it lets pass without asking them.
package seccompdata

import (
	"encoding/binary"

	"github.com/kjit-project/kjit/bpf"
)

// Size is sizeof(struct seccomp_data), and so what LD LEN gives (linux/seccomp.h).
const Size = 64

// Offsets of the fields of struct seccomp_data (linux/seccomp.h); they are the
// same on all architectures. Argument n is at OffArgs + 8*n.
const (
	OffNr   = 0
	OffArch = 4
	OffIP   = 8
	OffArgs = 16
)

// Data is struct seccomp_data: one system call. It is a [bpf.Input], with the
// byte order of a little-endian machine.
type Data struct {
	Nr   uint32 // number of the call; -1 is what a tracer sets to skip it
	Arch uint32 // AUDIT_ARCH_*
	IP   uint64 // address of the instruction that made the call
	Args [6]uint64
}

// Append appends the Size bytes of the struct in memory.
func (d *Data) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.Nr)
	b = binary.LittleEndian.AppendUint32(b, d.Arch)
	b = binary.LittleEndian.AppendUint64(b, d.IP)
	for _, arg := range d.Args {
		b = binary.LittleEndian.AppendUint64(b, arg)
	}
	return b
}

// Len returns Size.
func (d *Data) Len() uint32 { return Size }

// Linear returns nil: filters load words in host order, not in network order.
func (d *Data) Linear() []byte { return nil }

// Load returns the word at off, in host order. Linux's checker lets nothing
// else through than aligned words that are inside.
func (d *Data) Load(off uint32, size int) (uint32, bool) {
	if size != 4 || off%4 != 0 || off >= Size {
		return 0, false
	}
	word := func(value uint64, at uint32) uint32 {
		if at%8 != 0 {
			value >>= 32
		}
		return uint32(value)
	}
	switch {
	case off == OffNr:
		return d.Nr, true
	case off == OffArch:
		return d.Arch, true
	case off < OffArgs:
		return word(d.IP, off-OffIP), true
	}
	return word(d.Args[(off-OffArgs)/8], off-OffArgs), true
}

// Extension gives nothing: seccomp filters have no ancillary loads.
func (d *Data) Extension(bpf.Extension, uint32, uint32) (uint32, bool) { return 0, false }
