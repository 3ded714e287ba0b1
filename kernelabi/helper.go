package kernelabi

import "github.com/kjit-project/kjit/bpf"

// The kernel functions that compiled code reaches, as plain functions of a
// packet. The interpreter's view is built of them, and the machine code that
// an emulated kernel has in their place is tested against them.

// CopyBits is skb_copy_bits: it fills to with the bytes at off, from the linear
// part and page fragments alike. It returns false, and leaves to as it was,
// when any of them lies outside (the kernel: -EFAULT). A negative off reaches
// into the headroom, as it does in the kernel.
func (s *Skb) CopyBits(off int32, to []byte) bool {
	if !s.inside(int(off), len(to), len(s.Packet)) {
		return false
	}
	for i := range to {
		to[i] = s.at(int(off) + i)
	}
	return true
}

// LoadPointerNeg is bpf_internal_load_pointer_neg_helper: it returns where a
// negative offset points, relative to skb->data, or false (the kernel: NULL)
// unless size bytes from there on lie between skb->head and the end of the
// linear part.
func (s *Skb) LoadPointerNeg(off int32, size int) (pos int, ok bool) {
	pos, ok = s.headerOffset(off)
	return pos, ok && s.inside(pos, size, s.Headlen)
}

// headerOffset turns a negative offset into one from skb->data: below
// SKF_NET_OFF it counts from the link-layer header, from there on from the
// network header. Below SKF_LL_OFF there is nothing.
func (s *Skb) headerOffset(off int32) (pos int, ok bool) {
	const netOff, llOff = int32(int64(bpf.NetOff) - 1<<32), int32(int64(bpf.LLOff) - 1<<32)
	switch {
	case off >= netOff:
		return s.NetworkHeader + int(off-netOff), true
	case off >= llOff:
		return s.MacHeader + int(off-llOff), true
	}
	return 0, false
}

// inside reports whether size bytes at pos, relative to skb->data, lie between
// skb->head and end.
func (s *Skb) inside(pos, size, end int) bool {
	return pos >= -s.Headroom && pos <= end-size
}

// at returns the byte at pos, which is inside.
func (s *Skb) at(pos int) byte {
	if pos < 0 {
		return 0 // headroom
	}
	return s.Packet[pos]
}

// be loads size bytes (1 to 4) at pos in network order.
func (s *Skb) be(pos, size, end int) (value uint32, ok bool) {
	if !s.inside(pos, size, end) {
		return 0, false
	}
	for i := range size {
		value = value<<8 | uint32(s.at(pos+i))
	}
	return value, true
}
