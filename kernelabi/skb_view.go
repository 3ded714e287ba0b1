package kernelabi

import "github.com/kjit-project/kjit/bpf"

// SkbView is a packet as programs read it on a kernel with the given
// semantics. It has no state: any number of views of one Skb may be in use.
type SkbView struct {
	Skb       *Skb
	Semantics Semantics
}

// Under returns a view of s. It is one small allocation; a loop over many
// packets that cannot afford it has a [SkbView] of its own, see [SkbView.Of].
func (s *Skb) Under(sem Semantics) bpf.Input { return &SkbView{Skb: s, Semantics: sem} }

// Of returns a view of any input under the same semantics: v itself, which is for
// one packet at a time then, or what Under returns for other inputs.
func (v *SkbView) Of(in Input) bpf.Input {
	if skb, ok := in.(*Skb); ok {
		v.Skb = skb
		return v
	}
	return in.Under(v.Semantics)
}

// Len returns skb->len.
func (v *SkbView) Len() uint32 { return uint32(len(v.Skb.Packet)) }

// Linear returns the linear part.
func (v *SkbView) Linear() []byte { return v.Skb.Packet[:v.Skb.Headlen] }

// Load reads size bytes (1, 2 or 4) in network order, from the packet for
// offsets from 0 on, from one of its headers for negative ones.
func (v *SkbView) Load(off uint32, size int) (uint32, bool) {
	pos := int(int32(off))
	if pos >= 0 {
		return v.Skb.be(pos, size, len(v.Skb.Packet))
	}
	pos, ok := v.Skb.headerOffset(int32(off))
	if !ok {
		return 0, false
	}
	end := v.Skb.Headlen
	if v.Semantics.NegativeOffsetsReachFrags {
		end = len(v.Skb.Packet)
	}
	return v.Skb.be(pos, size, end)
}

// Extension performs an ancillary load.
func (v *SkbView) Extension(ext bpf.Extension, a, x uint32) (uint32, bool) {
	s := v.Skb
	switch ext {
	case bpf.ExtProtocol:
		return uint32(s.Protocol), true
	case bpf.ExtPktType:
		return uint32(s.PktType & 7), true
	case bpf.ExtIfindex:
		return v.device(s.Ifindex, a)
	case bpf.ExtHatype:
		return v.device(uint32(s.DevType), a)
	case bpf.ExtNlattr:
		return v.attribute(s.FindNlattr(a, x))
	case bpf.ExtNlattrN:
		return v.attribute(s.FindNlattrNested(a, x))
	case bpf.ExtMark:
		return s.Mark, true
	case bpf.ExtQueue:
		return uint32(s.Queue), true
	case bpf.ExtRxhash:
		return s.Rxhash, true
	case bpf.ExtCPU:
		return s.CPU, true
	case bpf.ExtVlanTCI:
		tag, _ := s.VlanTag(v.Semantics)
		return uint32(tag), true
	case bpf.ExtVlanPr:
		if _, present := s.VlanTag(v.Semantics); present {
			return 1, true
		}
		return 0, true
	case bpf.ExtPayOffset:
		return s.PayOffset(), true
	case bpf.ExtRandom:
		return s.Random, true
	case bpf.ExtVlanTPID:
		return uint32(s.VlanProto), true
	}
	return 0, false
}

// device is the result of a load through skb->dev.
func (v *SkbView) device(value, a uint32) (uint32, bool) {
	switch {
	case !v.Skb.NoDevice:
		return value, true
	case v.Semantics.NoDeviceKeepsA:
		return a, false
	}
	return 0, false
}

// attribute is the result of a netlink attribute search.
func (v *SkbView) attribute(offset uint32, started bool) (uint32, bool) {
	return offset, started || v.Semantics.NlattrFailLoads0
}

// vlanTagPresent is the flag in vlan_tci of kernels that keep it there (Linux,
// VLAN_TAG_PRESENT).
const vlanTagPresent = 0x1000

// VlanTag returns the tag that a program loads and whether it finds one. Where
// the kernel keeps the flag in vlan_tci, bit 12 of the tag is the flag; where
// it does not, tag and protocol of a packet without a VLAN tag are 0, so that
// either being set means that there is one.
func (s *Skb) VlanTag(sem Semantics) (tag uint16, present bool) {
	if sem.VlanPresentInTCI {
		return s.VlanTCI &^ vlanTagPresent, s.VlanPresent || s.VlanTCI&vlanTagPresent != 0
	}
	return s.VlanTCI, s.VlanPresent || s.VlanTCI != 0 || s.VlanProto != 0
}

// VlanField returns the 16 bits that such a kernel has in sk_buff.vlan_tci.
func (s *Skb) VlanField(sem Semantics) uint16 {
	tag, present := s.VlanTag(sem)
	if sem.VlanPresentInTCI && present {
		tag |= vlanTagPresent
	}
	return tag
}
