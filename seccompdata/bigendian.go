package seccompdata

import (
	"encoding/binary"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// BigEndian is the same system call on a big-endian machine, for programs: of a
// 64-bit field the upper half is at the lower address. Converting a *Data costs
// nothing.
type BigEndian Data

// Append appends the Size bytes of the struct in the memory of a big-endian
// machine.
func (d *BigEndian) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, d.Nr)
	b = binary.BigEndian.AppendUint32(b, d.Arch)
	b = binary.BigEndian.AppendUint64(b, d.IP)
	for _, arg := range d.Args {
		b = binary.BigEndian.AppendUint64(b, arg)
	}
	return b
}

// Len returns Size.
func (d *BigEndian) Len() uint32 { return Size }

// Linear returns nil; see [Data.Linear].
func (d *BigEndian) Linear() []byte { return nil }

// Load returns the word at off, in host order: the halves of 64-bit fields are
// the other way round than [Data.Load] has them.
func (d *BigEndian) Load(off uint32, size int) (uint32, bool) {
	if off >= OffIP {
		off ^= 4
	}
	return (*Data)(d).Load(off, size)
}

// Extension gives nothing: seccomp filters have no ancillary loads.
func (d *BigEndian) Extension(bpf.Extension, uint32, uint32) (uint32, bool) { return 0, false }

// ParseData reads the Size bytes of a struct seccomp_data out of memory.
func ParseData(b []byte, order binary.ByteOrder) (*Data, error) {
	if len(b) != Size {
		return nil, fmt.Errorf("struct seccomp_data of %d bytes: it has %d", len(b), Size)
	}
	d := &Data{Nr: order.Uint32(b[OffNr:]), Arch: order.Uint32(b[OffArch:]), IP: order.Uint64(b[OffIP:])}
	for i := range d.Args {
		d.Args[i] = order.Uint64(b[OffArgs+8*i:])
	}
	return d, nil
}

// ArgOffsets returns where the halves of argument n are on a machine of the byte
// order: the low word's offset first.
func ArgOffsets(n int, order binary.ByteOrder) (low, high uint32) {
	at := uint32(OffArgs + 8*n)
	if order == binary.BigEndian {
		return at + 4, at
	}
	return at, at + 4
}
