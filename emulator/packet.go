package emulator

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/kjit-project/kjit/kernelabi"
)

// Packets in guest memory. The linear part ends where its last page ends, and
// so does every fragment, with a guard page behind: one byte too many faults.
// In front of skb->head there are poison bytes up to the start of the page and
// a guard page before that; an access a few bytes in front is not noticed
// unless the part fills its pages. Neither are accesses to what surrounds a
// struct sk_buff or net_device: several lie on one page, read-only like the
// packets, in poison at first and beside those of earlier windows later.
//
// So the alignment of skb->data follows from the length of the linear part.
// Kernels have it 2 mod 4 most of the time (NET_IP_ALIGN), but promise nothing:
// code for processors without unaligned accesses has to load byte by byte
// wherever the packet is, and here it meets all alignments.

// poisonByte fills what no packet and no field occupies.
const poisonByte = 0xee

const (
	maxLinear  = kernelabi.MaxPacket + kernelabi.MaxHeader + 1 + pageSize // bytes of headroom, linear part and tailroom
	maxParts   = kernelabi.MaxFrags + 1
	smallParts = 256                                       // parts of up to a page
	largeParts = maxParts                                  // larger ones
	largePages = (maxLinear + pageSize - 1) / pageSize     // size of a larger one
	fragEntry  = 16                                        // address and length
	fragTable  = (kernelabi.MaxFrags*fragEntry + 63) &^ 63 // of one packet
	// fragPayOffset is where a fragment table has what skb_get_poff returns.
	fragPayOffset = fragTable - 8
	fragRandom    = fragTable - 4 // and what a random load gives
	windowSlots   = 64            // packets in guest memory at a time
)

// extent is a run of pages that one part of a packet ends in, between guard
// pages.
type extent struct {
	va   uint64
	mem  []byte
	low  int // bytes in front of this are poison
	slot int // who uses it in this window
	part int // 0 linear part, n fragment n-1
}

// place makes the part's bytes the last n of the extent and returns where they
// start.
func (e *extent) place(n int) (va uint64, mem []byte) {
	start := len(e.mem) - n
	switch {
	case start > e.low:
		fill(e.mem[e.low:start], poisonByte)
	case start < e.low:
		fill(e.mem[start&^pageMask:start], poisonByte) // may have never been written
	}
	e.low = start
	return e.va + uint64(start), e.mem[start:]
}

// slot is the place of one packet's structs.
type slot struct {
	skb    uint64 // address of struct sk_buff
	input  uint64 // what the code is called with: skb, or the address of a system call
	dev    uint64
	mem    []byte // private words, sk_buff, net_device
	frags  uint64 // address of the fragment table
	fragsM []byte

	geometry geometry // of the packet before
	extent   *extent  // where it is, if it is linear and small
	mark     uint32   // its Mark, and
	marks    marks    // what follows in Skb up to DevType
}

// marks are what is known of a packet from Rxhash to DevType as they are in its
// memory. Few packets differ there.
type marks [3]uint64

func marksOf(s *kernelabi.Skb) *marks { return (*marks)(unsafe.Pointer(&s.Rxhash)) }

// A packet's memory is as marksOf expects it.
var _ [unsafe.Offsetof(kernelabi.Skb{}.CPU)]byte = [unsafe.Offsetof(kernelabi.Skb{}.Rxhash) + unsafe.Sizeof(marks{})]byte{}

// A slot's memory is the private words of the guest's routines, struct sk_buff
// and struct net_device. The last of the words is not used: fields that a layout
// does not have are written there.
const (
	skbStart = hdrSize
	waste    = hdrSize - 8
)

// fields are offsets in a slot's memory; waste if the layout has no such field.
type fields struct {
	skbLen, dataLen, data, head, tail, end int
	protocol, pktType, mark, rxhash, queue int
	vlanTCI, vlanProto, vlanPresent        int
	device, mac, network, ifindex, devType int

	wideHeaders bool // mac_header and network_header are 32 bits
	pointer     int  // bytes of an address
	dev         int  // where net_device starts
	size        int  // of a slot
}

// Fields that newer layouts have.
const (
	skbVlanProto   = "sk_buff.vlan_proto"
	skbVlanPresent = "sk_buff.vlan_present" // bit 0 of the byte
	maxOffset      = 4000                   // largest offset of a field
)

// field is a field that packets have.
type field struct {
	name string
	size int
	at   *int
}

// newFields computes where everything lies in a slot.
func newFields(layout kernelabi.Layout, pointer int) (*fields, error) {
	f := &fields{pointer: pointer}
	skbSize, err := place(layout, skbStart, []field{
		{kernelabi.SkbLen, 4, &f.skbLen}, {kernelabi.SkbDataLen, 4, &f.dataLen},
		{kernelabi.SkbData, pointer, &f.data}, {kernelabi.SkbHead, pointer, &f.head},
		{kernelabi.SkbTail, 4, &f.tail}, {kernelabi.SkbEnd, 4, &f.end},
		{kernelabi.SkbProtocol, 2, &f.protocol}, {kernelabi.SkbPktType, 1, &f.pktType},
		{kernelabi.SkbMark, 4, &f.mark}, {kernelabi.SkbRxhash, 4, &f.rxhash},
		{kernelabi.SkbQueue, 2, &f.queue}, {kernelabi.SkbVlanTCI, 2, &f.vlanTCI},
		{skbVlanProto, 2, &f.vlanProto}, {skbVlanPresent, 1, &f.vlanPresent},
		{kernelabi.SkbDev, pointer, &f.device}, {kernelabi.SkbMacHeader, 4, &f.mac},
		{kernelabi.SkbNetHeader, 4, &f.network},
	})
	if err != nil {
		return nil, err
	}
	f.wideHeaders = f.mac-f.network != 2 && f.network-f.mac != 2
	skbSize = max(skbSize, min(layout[kernelabi.SkbSize], maxOffset))
	f.dev = skbStart + (skbSize+63)&^63
	devSize, err := place(layout, f.dev, []field{
		{kernelabi.DevIfindex, 4, &f.ifindex}, {kernelabi.DevType, 2, &f.devType},
	})
	if err != nil {
		return nil, err
	}
	f.size = (f.dev + devSize + 63) &^ 63
	return f, nil
}

// place turns a struct's offsets into those in a slot, where the struct is at
// start, and returns the size that the struct has at least.
func place(layout kernelabi.Layout, start int, fields []field) (size int, err error) {
	for _, f := range fields {
		off, ok := layout[f.name]
		if !ok {
			*f.at = waste
			continue
		}
		if off < 0 || off > maxOffset {
			return 0, fmt.Errorf("layout: %s is at %d, want 0..%d", f.name, off, maxOffset)
		}
		*f.at = start + off
		size = max(size, off+f.size)
	}
	return size, nil
}

// packets is the packet memory of a machine.
type packets struct {
	fields       *fields
	sem          kernelabi.Semantics
	slots        []slot
	small, large []extent
	smallUsed    int
	largeUsed    int
	payOffset    bool // packets need fragPayOffset
	tailroom     int  // bytes behind the linear part
}

// reset makes all extents free for the next window.
func (p *packets) reset() { p.smallUsed, p.largeUsed = 0, 0 }

// input is the address that the code is called with for input i, 0 behind the
// last.
func (p *packets) input(i int) uint64 {
	if i < len(p.slots) {
		return p.slots[i].input
	}
	return 0
}

// fits reports whether the extents suffice for one more packet.
func (p *packets) fits(s *kernelabi.Skb) bool {
	if len(s.Frags) == 0 && s.Headroom+s.Headlen+p.tailroom <= pageSize {
		return p.smallUsed < len(p.small)
	}
	small, large := 0, 0
	count := func(n int) {
		if n > pageSize {
			large++
		} else {
			small++
		}
	}
	count(s.Headroom + s.Headlen + p.tailroom)
	for _, n := range s.Frags {
		count(n)
	}
	return p.smallUsed+small <= len(p.small) && p.largeUsed+large <= len(p.large)
}

// part places n bytes of a packet.
func (p *packets) part(n, slot, part int) (va uint64, mem []byte) {
	var e *extent
	if n > pageSize {
		e = &p.large[p.largeUsed]
		p.largeUsed++
	} else {
		e = &p.small[p.smallUsed]
		p.smallUsed++
	}
	e.slot, e.part = slot, part
	return e.place(n)
}

// geometry is where a packet's parts are.
type geometry struct {
	head                     uint64
	size, headlen, headroom  int
	macHeader, networkHeader int
}

// is compares with that of a packet at head. Making the other geometry first would
// take longer than all else that is done for the packet.
func (g *geometry) is(head uint64, s *kernelabi.Skb) bool {
	return g.head == head && g.size == len(s.Packet) && g.headlen == s.Headlen && g.headroom == s.Headroom &&
		g.macHeader == s.MacHeader && g.networkHeader == s.NetworkHeader
}

// again puts inputs into the slots from i on, as long as they are linear packets on
// processor cpu that lie where the ones before them there did, as most do, and
// returns how many it did.
func (p *packets) again(inputs []kernelabi.Input, i int, cpu uint32) int {
	for n, input := range inputs {
		s, _ := input.(*kernelabi.Skb)
		if s == nil || p.smallUsed == len(p.small) {
			return n
		}
		slot, e := &p.slots[i+n], &p.small[p.smallUsed]
		if slot.extent != e || e.slot != i+n || !slot.geometry.is(slot.geometry.head, s) ||
			len(s.Frags) != 0 || s.PktType > 7 || s.CPU != cpu {
			return n
		}
		p.smallUsed++
		copy(e.mem[e.low+s.Headroom:], s.Packet)
		p.writeMetadata(slot, s)
	}
	return len(inputs)
}

// write puts a packet that passed Check, and that fits, into slot i.
func (p *packets) write(i int, s *kernelabi.Skb) {
	slot := &p.slots[i]
	small := p.smallUsed
	head, mem := p.part(s.Headroom+s.Headlen+p.tailroom, i, 0)
	slot.extent = nil
	if p.smallUsed > small && len(s.Frags) == 0 {
		slot.extent = &p.small[small]
	}
	if s.Headroom > 0 {
		clear(mem[:s.Headroom])
	}
	copy(mem[s.Headroom:], s.Packet[:s.Headlen])
	if p.tailroom > 0 {
		clear(mem[s.Headroom+s.Headlen:])
	}
	rest := s.Packet[s.Headlen:]
	for n, size := range s.Frags {
		va, mem := p.part(size, i, n+1)
		copy(mem, rest[:size])
		rest = rest[size:]
		put64(slot.fragsM[n*fragEntry:], va)
		put64(slot.fragsM[n*fragEntry+8:], uint64(size))
	}

	// One packet after another in a slot is often of the same size.
	if !slot.geometry.is(head, s) {
		slot.geometry = geometry{head, len(s.Packet), s.Headlen, s.Headroom, s.MacHeader, s.NetworkHeader}
		p.writeGeometry(slot)
		p.writeMarks(slot, s)
	}
	p.writeMetadata(slot, s)
}

// writeMetadata writes what does not depend on where the packet is.
func (p *packets) writeMetadata(slot *slot, s *kernelabi.Skb) {
	m, f := slot.at(), p.fields
	// Fields that the layout does not have are written too, to the waste word.
	m.put16(f.protocol, s.Protocol<<8|s.Protocol>>8)
	m.put8(f.pktType, poisonByte&^7|s.PktType&7)
	if w := marksOf(s); w[0] != slot.marks[0] || w[1] != slot.marks[1] || w[2] != slot.marks[2] || s.Mark != slot.mark {
		p.writeMarks(slot, s)
	}
	if p.payOffset {
		put32(slot.fragsM[fragPayOffset:], s.PayOffset())
		put32(slot.fragsM[fragRandom:], s.Random)
	}
}

// writeMarks writes what slot.marks and slot.mark are about.
func (p *packets) writeMarks(slot *slot, s *kernelabi.Skb) {
	m, f := slot.at(), p.fields
	slot.mark, slot.marks = s.Mark, *marksOf(s)
	m.put32(f.mark, s.Mark)
	m.put32(f.rxhash, s.Rxhash)
	m.put16(f.queue, s.Queue)
	m.put16(f.vlanTCI, s.VlanField(p.sem))
	if f.vlanProto != waste {
		m.put16(f.vlanProto, s.VlanProto<<8|s.VlanProto>>8)
	}
	if f.vlanPresent != waste {
		bits := byte(poisonByte &^ 1)
		if _, present := s.VlanTag(p.sem); present {
			bits |= 1
		}
		m.put8(f.vlanPresent, bits)
	}
	dev := slot.dev
	if s.NoDevice {
		dev = 0
	}
	m.putAddress(f.device, dev, f.pointer)
	m.put32(f.ifindex, s.Ifindex)
	m.put16(f.devType, s.DevType)
}

// writeGeometry writes what depends on where the packet is.
func (p *packets) writeGeometry(slot *slot) {
	m, g, f := slot.at(), &slot.geometry, p.fields
	data := g.head + uint64(g.headroom)
	tail := data + uint64(g.headlen)
	m.put64(hdrSize+hdrFrags, slot.frags)
	m.put64(hdrSize+hdrLen, uint64(g.size))
	m.put64(hdrSize+hdrData, data)
	m.put64(hdrSize+hdrTail, tail)
	m.put64(hdrSize+hdrHead, g.head)
	m.put64(hdrSize+hdrMac, data+uint64(g.macHeader))
	m.put64(hdrSize+hdrNetwork, data+uint64(g.networkHeader))

	m.put32(f.skbLen, uint32(g.size))
	m.put32(f.dataLen, uint32(g.size-g.headlen))
	m.putAddress(f.data, data, f.pointer)
	m.putAddress(f.head, g.head, f.pointer)
	// Kernels of 64 bits have offsets from head here, those of 32 bits addresses.
	origin := 0
	if f.pointer == 4 {
		origin = int(g.head)
	}
	m.put32(f.tail, uint32(origin+g.headroom+g.headlen))
	m.put32(f.end, uint32(origin+g.headroom+g.headlen))
	mac, network := g.headroom+g.macHeader, g.headroom+g.networkHeader
	if f.wideHeaders {
		m.put32(f.mac, uint32(origin+mac))
		m.put32(f.network, uint32(origin+network))
	} else {
		m.put16(f.mac, uint16(mac))
		m.put16(f.network, uint16(network))
	}
}

// forget makes every packet be written anew: code may have changed memory.
func (p *packets) forget() {
	for i := range p.slots {
		p.slots[i].geometry, p.slots[i].extent = geometry{}, nil
	}
}

// slotMem is a slot's memory for stores at the offsets of fields, all of which
// newFields has seen to be inside. Every packet takes some 25 of them, and the
// bounds checks of a slice would double their cost.
type slotMem struct{ p unsafe.Pointer }

func (s *slot) at() slotMem { return slotMem{unsafe.Pointer(unsafe.SliceData(s.mem))} }

func (m slotMem) put8(off int, v uint8)   { *(*uint8)(unsafe.Add(m.p, off)) = v }
func (m slotMem) put16(off int, v uint16) { put16((*[2]byte)(unsafe.Add(m.p, off))[:], v) }
func (m slotMem) put32(off int, v uint32) { put32((*[4]byte)(unsafe.Add(m.p, off))[:], v) }
func (m slotMem) putAddress(off int, v uint64, size int) {
	if size == 4 {
		m.put32(off, uint32(v))
	} else {
		m.put64(off, v)
	}
}

func (m slotMem) put64(off int, v uint64) { put64((*[8]byte)(unsafe.Add(m.p, off))[:], v) }

// put16, put32 and put64 store into guest memory.
func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }
func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }

// name says what an address in packet memory is to the packet in slot i.
func (e *extent) name(i int) string {
	switch {
	case e.slot != i:
		return "another packet"
	case e.part == 0:
		return "the packet's linear part"
	case e.part == partSyscall:
		return "the system call"
	}
	return fmt.Sprintf("fragment %d of the packet", e.part-1)
}
