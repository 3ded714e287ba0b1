package kernelabi

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// Bounds of a packet that [Skb.Check] enforces.
const (
	MaxPacket = 262144 // bytes; the snapshot length of today's capture tools
	MaxFrags  = 17     // page fragments of one packet (Linux, MAX_SKB_FRAGS with 4 KiB pages)
	MaxHeader = 65535  // largest headroom and header offset (16 bits from Linux 3.11 on)
)

// The classes of a packet's destination (linux/if_packet.h, PACKET_*).
const (
	PacketHost      = 0
	PacketBroadcast = 1
	PacketMulticast = 2
	PacketOtherHost = 3
	PacketOutgoing  = 4
)

// The Ethernet protocol numbers that the kernel's helpers look at
// (linux/if_ether.h). A frame with a length in place of a number is ETH_P_802_3
// when it starts with ffff (raw IPX) and ETH_P_802_2 otherwise.
const (
	EthP8023   = 0x0001
	EthP8022   = 0x0004
	EthPIP     = 0x0800
	EthPTEB    = 0x6558 // an Ethernet frame inside GRE
	EthP8021Q  = 0x8100
	EthPIPv6   = 0x86dd
	EthPPPPSes = 0x8864

	ethPMin = 0x0600 // what is below is a length
	ethHlen = 14
)

// Skb is a packet as a socket filter meets it: a linear part, page fragments,
// and the metadata of struct sk_buff. All numbers are in host order, whatever
// order the struct keeps them in. The methods expect one that passes Check.
type Skb struct {
	Packet  []byte // the whole packet; skb->len is its length
	Headlen int    // bytes in the linear part, skb->len - skb->data_len
	Frags   []int  // lengths of the page fragments behind it; their sum is len(Packet)-Headlen

	MacHeader     int // offset of the link-layer header from skb->data; may be negative
	NetworkHeader int // offset of the network header from skb->data; may be negative
	Headroom      int // bytes between skb->head and skb->data; they are zero

	Protocol    uint16
	PktType     uint8 // 3 bits, Packet*
	Mark        uint32
	Rxhash      uint32
	Queue       uint16
	VlanTCI     uint16
	VlanPresent bool
	VlanProto   uint16
	NoDevice    bool // skb->dev is NULL
	Ifindex     uint32
	DevType     uint16 // ARPHRD_*
	CPU         uint32 // the processor the filter runs on
	Random      uint32 // what a random load gives
}

// Input is one thing to run a program on: *Skb, or *Syscall. Under
// gives it the meaning that kernels with the given semantics give it.
type Input interface {
	Under(Semantics) bpf.Input
}

// NewSkb makes an Skb of an Ethernet frame as a packet socket sees it: all
// linear, skb->data at the link-layer header, the network header behind the
// Ethernet header, protocol and packet type by the addresses and type of the
// frame, on interface 1 of type ARPHRD_ETHER. It keeps packet, not a copy.
func NewSkb(packet []byte) *Skb {
	s := &Skb{
		Packet:        packet,
		Headlen:       len(packet),
		NetworkHeader: ethHlen,
		Ifindex:       1,
		DevType:       1, // ARPHRD_ETHER
	}
	if len(packet) < ethHlen {
		return s
	}
	s.Protocol = binary.BigEndian.Uint16(packet[12:])
	if s.Protocol < ethPMin {
		s.Protocol = EthP8022
		if len(packet) >= ethHlen+2 && packet[14] == 0xff && packet[15] == 0xff {
			s.Protocol = EthP8023
		}
	}
	switch {
	case !slices.ContainsFunc(packet[:6], func(b byte) bool { return b != 0xff }):
		s.PktType = PacketBroadcast
	case packet[0]&1 != 0:
		s.PktType = PacketMulticast
	}
	return s
}

// Split returns a copy of s that shares its bytes and has headlen of them in
// the linear part and the others in page fragments of the given sizes. What
// the sizes leave over is one more fragment; sizes beyond the packet are cut.
func (s *Skb) Split(headlen int, sizes ...int) *Skb {
	c := *s
	c.Headlen = min(max(headlen, 0), len(s.Packet))
	c.Frags = nil
	rest := len(s.Packet) - c.Headlen
	for _, size := range append(slices.Clone(sizes), rest) {
		if size = min(size, rest); size > 0 {
			c.Frags = append(c.Frags, size)
			rest -= size
		}
	}
	return &c
}

// IsLinear reports whether the packet has no page fragments.
func (s *Skb) IsLinear() bool { return s.Headlen == len(s.Packet) }

// SkbError is an Skb, or the text of one, that describes no packet.
type SkbError struct {
	Field  string // as JSON names it: "packet", "headlen", "skb.mark"
	Offset int    // for hex text, which of its characters, from 0; otherwise -1
	Reason string
}

func (e *SkbError) Error() string {
	if e.Offset >= 0 {
		return fmt.Sprintf("%s: character %d: %s", e.Field, e.Offset, e.Reason)
	}
	return e.Field + ": " + e.Reason
}

// Check returns a *SkbError when s is no packet that a kernel could have.
func (s *Skb) Check() error {
	// Nearly all packets are linear and without headroom, and millions of them
	// are checked.
	if s.Headlen == len(s.Packet) && len(s.Packet) <= MaxPacket && len(s.Frags) == 0 && s.Headroom == 0 &&
		uint(s.MacHeader) <= MaxHeader && uint(s.NetworkHeader) <= MaxHeader && s.PktType <= 7 {
		return nil
	}
	return s.check()
}

func (s *Skb) check() error {
	bad := func(field, format string, args ...any) error {
		return &SkbError{Field: field, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(s.Packet) > MaxPacket {
		return bad("packet", "%d bytes, at most %d are allowed", len(s.Packet), MaxPacket)
	}
	if s.Headlen < 0 || s.Headlen > len(s.Packet) {
		return bad("headlen", "%d is not in 0..%d, the length of the packet", s.Headlen, len(s.Packet))
	}
	if len(s.Frags) > MaxFrags {
		return bad("frags", "%d fragments, at most %d are allowed", len(s.Frags), MaxFrags)
	}
	rest := len(s.Packet) - s.Headlen
	for i, size := range s.Frags {
		if size <= 0 || size > rest {
			return bad("frags", "fragment %d has %d bytes, want 1..%d", i, size, rest)
		}
		rest -= size
	}
	if rest != 0 {
		return bad("frags", "%d bytes of the packet are neither linear nor in a fragment", rest)
	}
	if s.Headroom < 0 || s.Headroom > MaxHeader {
		return bad("skb.headroom", "%d is not in 0..%d", s.Headroom, MaxHeader)
	}
	for _, header := range []struct {
		field string
		at    int
	}{{"skb.mac_header", s.MacHeader}, {"skb.network_header", s.NetworkHeader}} {
		if header.at < -s.Headroom || header.at > MaxHeader-s.Headroom {
			return bad(header.field, "%d is not in %d..%d with headroom %d",
				header.at, -s.Headroom, MaxHeader-s.Headroom, s.Headroom)
		}
	}
	if s.PktType > 7 {
		return bad("skb.pkt_type", "%d does not fit in 3 bits", s.PktType)
	}
	return nil
}
