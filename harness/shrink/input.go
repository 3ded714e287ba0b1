package shrink

import (
	"encoding/binary"
	"slices"

	"github.com/kjit-project/kjit/kernelabi"
)

// shrinkInput tries what makes a packet much simpler.
func (s *shrinker) shrinkInput() {
	if _, ok := s.input.(*kernelabi.Skb); ok {
		s.resetMetadata()
		s.joinParts()
		s.shorten()
		s.shortenParts()
	}
}

// clearInput tries to do without what an input holds. A small program needs the
// least of it.
func (s *shrinker) clearInput() {
	switch s.input.(type) {
	case *kernelabi.Skb:
		s.clearBytes()
	case *kernelabi.Syscall:
		s.shrinkSyscall()
	}
}

// packet is the packet so far.
func (s *shrinker) packet() *kernelabi.Skb { return s.input.(*kernelabi.Skb) }

// plain is a packet without metadata: what a record has that says nothing.
func plain(p *kernelabi.Skb) *kernelabi.Skb {
	return &kernelabi.Skb{Packet: p.Packet, Headlen: p.Headlen, Frags: p.Frags, NetworkHeader: 14}
}

// metadata are the fields of a packet that have a default, each as a function
// that sets the default.
var metadata = []func(p, plain *kernelabi.Skb){
	func(p, d *kernelabi.Skb) {
		p.MacHeader, p.NetworkHeader, p.Headroom = d.MacHeader, d.NetworkHeader, d.Headroom
	},
	func(p, d *kernelabi.Skb) { p.MacHeader = d.MacHeader },
	func(p, d *kernelabi.Skb) { p.NetworkHeader = d.NetworkHeader },
	func(p, d *kernelabi.Skb) { p.NetworkHeader = 0 },
	func(p, d *kernelabi.Skb) { p.Headroom = max(0, -p.MacHeader, -p.NetworkHeader) },
	func(p, d *kernelabi.Skb) { p.Protocol = d.Protocol },
	func(p, d *kernelabi.Skb) { p.Protocol = 1 },
	func(p, d *kernelabi.Skb) { p.PktType = d.PktType },
	func(p, d *kernelabi.Skb) { p.PktType = 1 },
	func(p, d *kernelabi.Skb) { p.Mark = d.Mark },
	func(p, d *kernelabi.Skb) { p.Mark = 1 },
	func(p, d *kernelabi.Skb) { p.Rxhash = d.Rxhash },
	func(p, d *kernelabi.Skb) { p.Rxhash = 1 },
	func(p, d *kernelabi.Skb) { p.Queue = d.Queue },
	func(p, d *kernelabi.Skb) { p.Queue = 1 },
	func(p, d *kernelabi.Skb) { p.VlanTCI = d.VlanTCI },
	func(p, d *kernelabi.Skb) { p.VlanTCI = 1 },
	func(p, d *kernelabi.Skb) { p.VlanTCI = 1 << 12 },
	func(p, d *kernelabi.Skb) { p.VlanTCI = 1 << 13 },
	func(p, d *kernelabi.Skb) { p.VlanPresent = d.VlanPresent },
	func(p, d *kernelabi.Skb) { p.VlanProto = d.VlanProto },
	func(p, d *kernelabi.Skb) { p.NoDevice = d.NoDevice },
	func(p, d *kernelabi.Skb) { p.Ifindex = d.Ifindex },
	func(p, d *kernelabi.Skb) { p.Ifindex = 1 },
	func(p, d *kernelabi.Skb) { p.DevType = d.DevType },
	func(p, d *kernelabi.Skb) { p.DevType = 1 },
	func(p, d *kernelabi.Skb) { p.CPU = d.CPU },
	func(p, d *kernelabi.Skb) { p.CPU = 1 },
	func(p, d *kernelabi.Skb) { p.Random = d.Random },
	func(p, d *kernelabi.Skb) { p.Random = 1 },
}

// resetMetadata gives the packet default metadata, as a whole or field by field.
func (s *shrinker) resetMetadata() {
	if s.tryPacket(plain(s.packet())) {
		return
	}
	for _, reset := range metadata {
		p := *s.packet()
		reset(&p, plain(&p))
		s.tryPacket(&p)
	}
}

// tryPacket is tryInput for packets that may not be any.
func (s *shrinker) tryPacket(p *kernelabi.Skb) bool { return p.Check() == nil && s.tryInput(p) }

// joinParts makes the packet linear, or of fewer fragments.
func (s *shrinker) joinParts() {
	p := s.packet()
	if p.IsLinear() || s.tryPacket(p.Split(len(p.Packet))) || s.tryPacket(p.Split(0)) {
		return
	}
	s.tryPacket(p.Split(p.Headlen))
	for headlen := range shorter(uint32(p.Headlen)) {
		s.tryPacket(s.packet().Split(int(headlen), s.packet().Frags...))
	}
	for i := 0; i+1 < len(s.packet().Frags); i++ {
		p := s.packet()
		frags := slices.Clone(p.Frags)
		frags[i] += frags[i+1]
		s.tryPacket(p.Split(p.Headlen, slices.Delete(frags, i+1, i+2)...))
	}
}

// shorten cuts bytes off the packet's end.
func (s *shrinker) shorten() {
	for size := len(s.packet().Packet); size >= 1 && !s.over(); size /= 2 {
		for n := len(s.packet().Packet) - size; n >= 0 && !s.over(); n -= size {
			p := *s.packet()
			p.Packet = p.Packet[:n:n]
			if !s.tryPacket(p.Split(p.Headlen, p.Frags...)) {
				break
			}
		}
	}
}

// shortenParts cuts bytes off the ends of the linear part and of fragments.
func (s *shrinker) shortenParts() {
	for i := -1; i < len(s.packet().Frags) && !s.packet().IsLinear(); i++ {
		size := s.packet().Headlen
		if i >= 0 {
			size = s.packet().Frags[i]
		}
		for left := range shorter(uint32(size)) {
			if s.tryPacket(withPart(s.packet(), i, int(left))) {
				break
			}
		}
	}
}

// withPart returns p with a part, -1 for the linear one, cut to n bytes; of a
// fragment nothing may be left.
func withPart(p *kernelabi.Skb, part, n int) *kernelabi.Skb {
	q := *p
	q.Frags = slices.Clone(p.Frags)
	start, end := 0, p.Headlen
	for _, size := range p.Frags[:part+1] {
		start, end = end, end+size
	}
	switch {
	case part < 0:
		q.Headlen = n
	case n == 0:
		q.Frags = slices.Delete(q.Frags, part, part+1)
	default:
		q.Frags[part] = n
	}
	q.Packet = slices.Concat(p.Packet[:start+n], p.Packet[end:])
	return &q
}

// clearBytes sets bytes of the packet to 0, in runs and one by one, and those
// that have to be something else to 1.
func (s *shrinker) clearBytes() {
	for size := len(s.packet().Packet); size >= 1 && !s.over(); size /= 2 {
		for at := 0; at < len(s.packet().Packet); at += size {
			p := *s.packet()
			part := p.Packet[at:min(at+size, len(p.Packet))]
			if !slices.ContainsFunc(part, func(b byte) bool { return b != 0 }) {
				continue
			}
			p.Packet = slices.Clone(p.Packet)
			clear(p.Packet[at:min(at+size, len(p.Packet))])
			s.tryPacket(&p)
		}
	}
	for at := range s.packet().Packet {
		for _, v := range []byte{1, 2, 0x10, 0x80, 0xff} {
			if old := s.packet().Packet[at]; byteWeight(v) < byteWeight(old) {
				p := *s.packet()
				p.Packet = slices.Clone(p.Packet)
				p.Packet[at] = v
				if s.tryPacket(&p) {
					break
				}
			}
		}
	}
}

// byteWeight is the weight of a byte, 255 being -1.
func byteWeight(b byte) int { return weight(uint32(int32(int8(b)))) }

func packetCost(c *cost, p *kernelabi.Skb) {
	c[costBytes] = len(p.Packet)
	c[costParts] = len(p.Frags)
	if !p.IsLinear() {
		c[costParts]++
		c[costSplit] = p.Headlen
	}
	for _, v := range []int{
		int(p.Protocol), int(p.PktType), int(p.Mark), int(p.Rxhash), int(p.Queue), int(p.VlanTCI), int(p.VlanProto),
		int(p.Ifindex), int(p.DevType), int(p.CPU), int(p.Random), p.MacHeader, p.NetworkHeader - 14, p.Headroom,
	} {
		c[costMeta] += weight(uint32(v))
	}
	for _, b := range []bool{p.VlanPresent, p.NoDevice} {
		if b {
			c[costMeta]++
		}
	}
	for _, b := range p.Packet {
		c[costValues] += byteWeight(b)
	}
}

// packetKey is all of a packet as bytes.
func packetKey(p *kernelabi.Skb) []byte {
	flags := byte(0)
	if p.VlanPresent {
		flags |= 1
	}
	if p.NoDevice {
		flags |= 2
	}
	b := append([]byte{flags, p.PktType}, p.Packet...)
	for _, v := range append([]int{
		len(p.Packet), p.Headlen, int(p.Protocol), int(p.Mark), int(p.Rxhash), int(p.Queue), int(p.VlanTCI), int(p.VlanProto),
		int(p.Ifindex), int(p.DevType), int(p.CPU), int(p.Random), p.MacHeader, p.NetworkHeader, p.Headroom,
	}, p.Frags...) {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// words are the 32-bit halves of a system call.
func words(call *kernelabi.Syscall) []uint32 {
	b := call.Append(nil)
	w := make([]uint32, len(b)/4)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

// syscallOf is the system call of some words.
func syscallOf(w []uint32) *kernelabi.Syscall {
	call := new(kernelabi.Syscall)
	call.Nr, call.Arch, call.IP = w[0], w[1], uint64(w[2])|uint64(w[3])<<32
	for i := range call.Args {
		call.Args[i] = uint64(w[4+2*i]) | uint64(w[5+2*i])<<32
	}
	return call
}

// shrinkSyscall makes the words of a system call 0, or simpler.
func (s *shrinker) shrinkSyscall() {
	all := words(s.input.(*kernelabi.Syscall))
	if s.tryInput(syscallOf(make([]uint32, len(all)))) {
		return
	}
	for i := range all {
		for _, v := range simplerThan(all[i]) {
			w := words(s.input.(*kernelabi.Syscall))
			w[i] = v
			if s.tryInput(syscallOf(w)) {
				break
			}
		}
	}
}

func syscallCost(c *cost, call *kernelabi.Syscall) {
	for _, w := range words(call) {
		c[costValues] += weight(w)
	}
}
