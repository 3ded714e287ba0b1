package guestcode

import (
	"encoding/binary"

	"github.com/kjit-project/kjit/kernelabi"
)

// layout is an image under construction: pieces of code and data one behind the
// other, aligned.
type layout struct {
	*target
	profile *kernelabi.Profile
	bytes   []byte
}

// alignment of the pieces of an image, in bytes.
const alignment = 16

// newLayout returns an image that begins with room for an entry and with the
// code of a C file.
func newLayout(p *kernelabi.Profile, entry string) (*layout, error) {
	t, err := targetFor(p)
	if err != nil {
		return nil, err
	}
	l := &layout{target: t, profile: p, bytes: make([]byte, stubBytes)}
	l.add(t.code(entry))
	return l, nil
}

// next returns the offset of the piece that is added next.
func (l *layout) next() int {
	return (len(l.bytes) + alignment - 1) / alignment * alignment
}

// address is where the byte at an offset will be.
func (l *layout) address(off int) uint64 { return l.profile.Base + uint64(off) }

// add appends a piece and returns its offset.
func (l *layout) add(piece []byte) int {
	off := l.next()
	l.bytes = append(l.bytes, make([]byte, off-len(l.bytes))...)
	l.bytes = append(l.bytes, piece...)
	return off
}

// appendAddress appends an address as the target's pointers are.
func (t *target) appendAddress(b []byte, addr uint64) []byte {
	if t.pointer == 8 {
		return binary.LittleEndian.AppendUint64(b, addr)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(addr))
}

// image finishes the image: its entry passes what stands at the two offsets.
func (l *layout) image(origin string, second, third int) *kernelabi.Image {
	l.enter(l.bytes, l.profile.Base, second, third)
	return &kernelabi.Image{
		Code: l.bytes, Base: l.profile.Base, BaseKnown: true, Profile: l.profile,
		Origin: origin + " as a guest, " + l.name, OtherRegisters: true,
	}
}
