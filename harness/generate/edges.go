package generate

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// edges puts the ends of packets, linear parts and fragments around loads.
func (s *Solver) edges() {
	if s.kind == bpf.Seccomp || s.n >= s.max {
		return
	}
	s.special()
	if s.packetLoads == 0 {
		return
	}
	most := min(s.n+s.max*3/8, s.max)
	each := min(max((most-s.n)/s.packetLoads, 1), 4)
	for q := 0; q < s.n && s.n < most; q++ {
		s.run(s.slots[q], &s.parent)
		if q > 0 && s.parent.failed && len(s.parent.events) < 3 {
			continue
		}
		for i := range s.parent.events {
			e := &s.parent.events[i]
			if e.what != loads || e.size == 0 || s.bounded[e.pc] {
				continue
			}
			s.bounded[e.pc] = true
			if e.side == 1 && int32(e.pos) >= 0 && len(s.spots) < 32 {
				s.spots = append(s.spots, spot{e.pos, e.size})
			}
			for range each {
				if s.n < most {
					s.around(q, e)
				}
			}
		}
	}
}

// loff and noff are bpf.LLOff and bpf.NetOff as what they mean.
const loff, noff = -0x200000, -0x100000

// around makes one input with an end close to the bytes of a load.
func (s *Solver) around(q int, e *event) {
	pos, size := int(int32(e.pos)), int(e.size)
	if e.xn != 0 && s.rng.n(8) < 3 {
		skb := &s.slots[q].skb
		ends := [...]int{
			skb.Headlen - size, skb.Headlen - size + 1, len(skb.Packet) - size, len(skb.Packet) - size + 1,
			0, -1, loff + s.rng.n(16), noff + s.rng.n(16),
		}
		s.aim(q, e, uint32(ends[s.rng.n(len(ends))]))
		return
	}
	sl := s.next(q)
	skb := &sl.skb
	length := len(skb.Packet)
	if pos < 0 {
		s.aroundHeader(sl, e)
		return
	}
	end := pos + size
	if end > maxPacket {
		return
	}
	within := pos + s.rng.n(size) // the load straddles what ends here, or starts there
	switch s.rng.n(16) {
	case 0, 1, 2, 3: // the linear part ends within
		sl.resize(max(length, end), &s.rng)
		sl.split(within)
	case 4, 5: // and a fragment does, too
		sl.resize(max(length, end+1), &s.rng)
		if within == pos {
			sl.split(pos, 1, size)
		} else {
			sl.split(within, end-within, 1)
		}
	case 6: // only fragments
		sl.resize(max(length, end), &s.rng)
		sl.split(0, within, size)
	case 7, 8: // the linear part just holds it
		sl.resize(max(length, end+1), &s.rng)
		sl.split(end)
	case 9, 10, 11: // the packet just holds it
		sl.resize(end, &s.rng)
	case 12: // the linear part ends within, the packet behind
		sl.resize(end, &s.rng)
		sl.split(within)
	case 13: // and one byte short
		sl.resize(end-1, &s.rng)
		sl.split(min(within, end-1))
	default: // the packet is a few bytes short
		sl.resize(within, &s.rng)
	}
	s.keep(useful)
}

// aroundHeader moves the headers so that a load from a negative offset is at
// the end of the linear part, or just beyond it.
func (s *Solver) aroundHeader(sl *slot, e *event) {
	skb := &sl.skb
	off := int(e.pos & 0xfffff)
	over := s.rng.n(2)
	at := skb.Headlen - int(e.size) - off + over
	if s.rng.in(4) { // into the headroom
		at = -min(off+1, 32)
	}
	if at < 0 {
		skb.Headroom = max(skb.Headroom, -at)
	}
	switch {
	case at < -kernelabi.MaxHeader || at+skb.Headroom > kernelabi.MaxHeader:
		return
	case e.pos >= bpf.NetOff:
		skb.NetworkHeader = at
	case e.pos >= bpf.LLOff:
		skb.MacHeader = at
	default:
		return
	}
	if skb.MacHeader < -skb.Headroom {
		skb.MacHeader = 0
	}
	if skb.NetworkHeader < -skb.Headroom {
		skb.NetworkHeader = 14
	}
	s.keep(useful)
}

// special makes the packets that some faults need, wherever the loads are.
func (s *Solver) special() {
	one := func(change func(sl *slot)) {
		if s.n < s.max {
			change(s.next(s.rng.n(s.n)))
			s.keep(nil)
		}
	}
	if s.packetLoads > 0 {
		one(func(sl *slot) { sl.split(0) })
		one(func(sl *slot) { sl.resize(s.rng.n(4), &s.rng) })
	}
	if s.device {
		one(func(sl *slot) { sl.skb.NoDevice = true })
	}
	if s.vlan {
		one(func(sl *slot) { sl.skb.VlanPresent, sl.skb.VlanTCI, sl.skb.VlanProto = false, 0, 0 })
		one(func(sl *slot) { sl.skb.VlanPresent, sl.skb.VlanTCI = true, 0xffff })
	}
}
