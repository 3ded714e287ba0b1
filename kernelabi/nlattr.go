package kernelabi

import "encoding/binary"

// A netlink attribute starts with its length, header included, and its type,
// two 16-bit numbers in host order (little endian on every profile here); the
// next one starts at a multiple of 4 behind it. Two bits of the type are flags
// (linux/netlink.h).
const (
	nlaHeader   = 4
	nlaAlign    = 4
	nlaTypeMask = 0x3fff
)

// FindNlattr is the search of an nlattr load: the attributes from offset a to
// the end of the packet for one of type x. It returns the offset of the
// attribute, or 0 if there is none; ok is false when the search cannot start:
// the packet has page fragments, or no room for an attribute at a.
func (s *Skb) FindNlattr(a, x uint32) (offset uint32, ok bool) {
	if !s.nlattrAt(a) {
		return 0, false
	}
	return s.findNlattr(int(a), len(s.Packet)-int(a), x), true
}

// FindNlattrNested is the search of an nlattr_nest load: the attributes inside
// the attribute at offset a. It returns what FindNlattr returns; an outer
// attribute that says it is longer than the packet cannot be searched either.
// (3.x kernels before the stable fix of that check did search it.)
func (s *Skb) FindNlattrNested(a, x uint32) (offset uint32, ok bool) {
	if !s.nlattrAt(a) {
		return 0, false
	}
	length, _ := s.nlattr(int(a))
	if length > len(s.Packet)-int(a) {
		return 0, false
	}
	return s.findNlattr(int(a)+nlaHeader, length-nlaHeader, x), true
}

// nlattrAt reports whether the header of an attribute fits at a.
func (s *Skb) nlattrAt(a uint32) bool {
	return s.IsLinear() && len(s.Packet) >= nlaHeader && uint64(a) <= uint64(len(s.Packet)-nlaHeader)
}

// findNlattr walks the attributes in the remaining bytes at offset at.
func (s *Skb) findNlattr(at, remaining int, want uint32) uint32 {
	for remaining >= nlaHeader {
		length, kind := s.nlattr(at)
		if length < nlaHeader || length > remaining {
			break
		}
		if kind == want {
			return uint32(at)
		}
		step := (length + nlaAlign - 1) &^ (nlaAlign - 1)
		at, remaining = at+step, remaining-step
	}
	return 0
}

// nlattr reads the header of the attribute at offset at.
func (s *Skb) nlattr(at int) (length int, kind uint32) {
	header := s.Packet[at : at+nlaHeader]
	return int(binary.LittleEndian.Uint16(header)), uint32(binary.LittleEndian.Uint16(header[2:]) & nlaTypeMask)
}
