package kernelabi

// The IP protocol numbers that the payload offset depends on.
const (
	ipprotoICMP    = 1
	ipprotoIGMP    = 2
	ipprotoIPIP    = 4
	ipprotoTCP     = 6
	ipprotoUDP     = 17
	ipprotoDCCP    = 33
	ipprotoGRE     = 47
	ipprotoICMPv6  = 58
	ipprotoSCTP    = 132
	ipprotoUDPLite = 136
)

// transportHeader is the length of a transport header where it does not depend
// on the packet. Other protocols count as having none.
var transportHeader = map[uint8]int{
	ipprotoICMP: 8, ipprotoIGMP: 8, ipprotoUDP: 8, ipprotoDCCP: 12,
	ipprotoICMPv6: 8, ipprotoSCTP: 12, ipprotoUDPLite: 8,
}

// PayOffset is skb_get_poff of Linux 3.10: the offset from skb->data of what
// follows the transport header, or 0 for a packet that the flow dissector does
// not understand. Options and extensions of the transport protocol count as
// payload, those of TCP excepted.
func (s *Skb) PayOffset() uint32 {
	at, protocol, ok := s.dissect()
	if !ok {
		return 0
	}
	at = int(uint16(at)) // the kernel keeps it in 16 bits
	if protocol == ipprotoTCP {
		const minimum, doffAt = 20, 12
		if !s.inside(at, minimum, len(s.Packet)) {
			return uint32(at)
		}
		return uint32(at + max(minimum, int(s.at(at+doffAt)>>4)*4))
	}
	return uint32(at + transportHeader[protocol])
}

// dissect finds the innermost transport header, as skb_flow_dissect of Linux
// 3.10 does: it starts at the network header with skb->protocol and follows
// VLAN tags, PPPoE sessions, GRE and IP-in-IP. It returns the offset of that
// header and its protocol, 0 in an IPv4 fragment.
//
// That release has two oddities, kept here: 802.1ad tags are unknown, and what
// is inside IP-in-IP is taken for the protocol of the last link layer, so that
// it is not found inside PPPoE and taken for IPv6 inside IPv6.
func (s *Skb) dissect() (at int, protocol uint8, ok bool) {
	at, link := s.NetworkHeader, s.Protocol
	for {
		network := link
		switch link {
		case EthP8021Q:
			if link, ok = s.be16(at, 4, 2); !ok {
				return 0, 0, false
			}
			at += 4
			continue
		case EthPPPPSes:
			if link, ok = s.be16(at, 8, 6); !ok {
				return 0, 0, false
			}
			at += 8
			network = pppNetwork[link]
		}

		at, protocol, ok = s.dissectIP(at, network)
		if !ok {
			return 0, 0, false
		}
		switch protocol {
		case ipprotoIPIP:
			continue
		case ipprotoGRE:
			inner, next, found, ok := s.dissectGRE(at)
			if !ok {
				return 0, 0, false
			}
			if found {
				at, link = inner, next
				continue
			}
		}
		return at, protocol, true
	}
}

// pppNetwork has the Ethernet protocol number for a PPP one.
var pppNetwork = map[uint16]uint16{0x0021: EthPIP, 0x0057: EthPIPv6}

// dissectIP passes one IP header; ok is false for other protocols.
func (s *Skb) dissectIP(at int, network uint16) (next int, protocol uint8, ok bool) {
	switch network {
	case EthPIP:
		const header, fragmentMask = 20, 0x3fff // more fragments, offset
		if !s.inside(at, header, len(s.Packet)) {
			return 0, 0, false
		}
		words := int(s.at(at) & 15)
		if words < 5 {
			return 0, 0, false // an endless loop in early 3.x
		}
		protocol = s.at(at + 9)
		if fragment, _ := s.be16(at, header, 6); fragment&fragmentMask != 0 {
			protocol = 0
		}
		return at + 4*words, protocol, true
	case EthPIPv6:
		const header = 40
		if !s.inside(at, header, len(s.Packet)) {
			return 0, 0, false
		}
		return at + header, s.at(at + 6), true
	}
	return 0, 0, false
}

// dissectGRE passes a GRE header, and the Ethernet header behind it if there is
// one. found is false when the kernel does not look inside: another version
// than 0, or source routes.
func (s *Skb) dissectGRE(at int) (next int, link uint16, found, ok bool) {
	const checksum, routing, key, sequence, version = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
	flags, ok := s.be16(at, 4, 0)
	if !ok {
		return 0, 0, false, false
	}
	if flags&(routing|version) != 0 {
		return 0, 0, false, true
	}
	link, _ = s.be16(at, 4, 2)
	at += 4
	for _, flag := range []uint16{checksum, key, sequence} {
		if flags&flag != 0 {
			at += 4
		}
	}
	if link == EthPTEB {
		if link, ok = s.be16(at, ethHlen, 12); !ok {
			return 0, 0, false, false
		}
		at += ethHlen
	}
	return at, link, true, true
}

// be16 returns 16 bits in the header of the given size at offset at; ok is
// false when the packet does not hold the whole header.
func (s *Skb) be16(at, size, field int) (value uint16, ok bool) {
	if !s.inside(at, size, len(s.Packet)) {
		return 0, false
	}
	return uint16(s.at(at+field))<<8 | uint16(s.at(at+field+1)), true
}
