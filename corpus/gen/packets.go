package main

import (
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// The hosts. inside is in 192.168.2.0/24, the network of the filter that the
// x86_64 JIT was announced with; nearby is just outside.
var (
	inside  = net.IPv4(192, 168, 2, 7).To4()
	gateway = net.IPv4(192, 168, 2, 1).To4()
	nearby  = net.IPv4(192, 168, 3, 7).To4()
	remote  = net.IPv4(10, 0, 0, 1).To4()
	group   = net.IPv4(224, 0, 0, 251).To4()

	inside6 = net.ParseIP("2001:db8::7")
	nearby6 = net.ParseIP("2001:db8::1")
	remote6 = net.ParseIP("2001:db8:53::1")
	group6  = net.ParseIP("ff02::1")

	hostMAC      = net.HardwareAddr{0x02, 0, 0, 0, 0, 0x07}
	gatewayMAC   = net.HardwareAddr{0x02, 0, 0, 0, 0, 0x01}
	broadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	groupMAC     = net.HardwareAddr{0x01, 0, 0x5e, 0, 0, 0xfb}
	group6MAC    = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 0x01}
	bridgeMAC    = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0}
)

// experimental is an EtherType for local experiments (IEEE 802, 88b5).
const experimental = layers.EthernetType(0x88b5)

// packets is the corpus. Every one starts with an Ethernet header.
func packets() []packet {
	return []packet{
		frame("arp-request", "who has 192.168.2.1, asked by 192.168.2.7", broadcast(layers.EthernetTypeARP), arp(layers.ARPRequest, inside, gateway)),
		frame("arp-reply", "192.168.2.1 answers 192.168.2.7", toHost(layers.EthernetTypeARP), arp(layers.ARPReply, gateway, inside)),
		frame("arp-elsewhere", "who has 192.168.3.1, asked by 192.168.3.7", broadcast(layers.EthernetTypeARP), arp(layers.ARPRequest, nearby, net.IPv4(192, 168, 3, 1).To4())),
		frame("rarp", "RARP request of 192.168.2.7", broadcast(layers.EthernetType(0x8035)), rarp(inside)),

		frame("tcp-syn-out", "SYN from 192.168.2.7 to port 80", toGateway(), ip4(inside, remote, layers.IPProtocolTCP), tcp(40000, 80, synFlag)),
		frame("tcp-synack-in", "its answer", toHost4(), ip4(remote, inside, layers.IPProtocolTCP), tcp(80, 40000, synFlag|ackFlag)),
		frame("tcp-data-in", "HTTP response with 100 bytes of body", toHost4(), ip4(remote, inside, layers.IPProtocolTCP), tcp(80, 40000, ackFlag), text("HTTP/1.1 200 OK\r\n\r\n", 100)),
		frame("tcp-fin-out", "FIN without data", toGateway(), ip4(inside, remote, layers.IPProtocolTCP), tcp(40000, 80, finFlag|ackFlag)),
		frame("tcp-options", "SYN with 12 bytes of TCP options", toGateway(), ip4(inside, remote, layers.IPProtocolTCP), tcpOptions(40001, 443)),
		frame("tcp-ssh-nearby", "SYN to port 22 between hosts outside 192.168.2.0/24", toGateway(), ip4(nearby, remote, layers.IPProtocolTCP), tcp(40002, 22, synFlag)),
		frame("tcp-full", "1514 bytes, the largest frame of an Ethernet with MTU 1500", toHost4(), ip4(remote, inside, layers.IPProtocolTCP), tcp(80, 40000, ackFlag), text("", 1460)),

		frame("udp-dns-out", "DNS query from 192.168.2.7", toGateway(), ip4(inside, remote, layers.IPProtocolUDP), udp(53000, 53), text("\x12\x34\x01\x00\x00\x01", 24)),
		frame("udp-dns-in", "its answer", toHost4(), ip4(remote, inside, layers.IPProtocolUDP), udp(53, 53000), text("\x12\x34\x81\x80\x00\x01", 40)),
		frame("udp-nearby", "UDP from 192.168.3.7, just outside 192.168.2.0/24", toGateway(), ip4(nearby, remote, layers.IPProtocolUDP), udp(1000, 2000), text("x", 1)),
		frame("udp-multicast", "mDNS to 224.0.0.251", &layers.Ethernet{SrcMAC: hostMAC, DstMAC: groupMAC, EthernetType: layers.EthernetTypeIPv4}, ip4(inside, group, layers.IPProtocolUDP), udp(5353, 5353), text("", 12)),
		frame("udp-high-ports", "both ports with the top bit set", toGateway(), ip4(inside, remote, layers.IPProtocolUDP), udp(0xfffe, 0x8001), text("\xff\xff\xff\xff", 8)),
		frame("icmp-echo", "ping from 192.168.2.7", toGateway(), ip4(inside, remote, layers.IPProtocolICMPv4), echo(layers.ICMPv4TypeEchoRequest), text("", 56)),
		frame("icmp-unreachable", "port unreachable from 10.0.0.1", toHost4(), ip4(remote, nearby, layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeDestinationUnreachable, layers.ICMPv4CodePort)}, text("", 28)),
		frame("igmp", "IGMP, an IP protocol number and 8 bytes", toGateway(), ip4(inside, group, layers.IPProtocolIGMP), bytesOf(0x16, 0, 0x09, 0x04, 224, 0, 0, 251)),
		frame("sctp", "SCTP with its 12-byte header", toGateway(), ip4(inside, remote, layers.IPProtocolSCTP), bytesOf(0x0b, 0x59, 0x0b, 0x59, 0, 0, 0, 1, 0, 0, 0, 0), text("", 20)),

		frame("fragment-first", "first fragment of a UDP datagram", toGateway(), fragment(layers.IPv4MoreFragments, 0), udp(1000, 53), text("", 32)),
		frame("fragment-later", "a later fragment, which has no UDP header", toGateway(), fragment(0, 5), text("\x00\x35\x00\x35", 32)),
		frame("ip-options", "24 bytes of IP header, then TCP to port 80", toGateway(), withOptions(ip4(inside, remote, layers.IPProtocolTCP), 1), tcp(40000, 80, synFlag)),
		frame("ip-options-full", "60 bytes of IP header, then UDP to port 53", toGateway(), withOptions(ip4(inside, remote, layers.IPProtocolUDP), 10), udp(1000, 53), text("", 4)),

		frame("vlan-100", "UDP to port 53 in VLAN 100", ethernet(gatewayMAC, layers.EthernetTypeDot1Q), vlan(100, layers.EthernetTypeIPv4), ip4(inside, remote, layers.IPProtocolUDP), udp(1000, 53), text("", 8)),
		frame("vlan-200-arp", "ARP in VLAN 200 with priority 5", ethernet(broadcastMAC, layers.EthernetTypeDot1Q), &layers.Dot1Q{Priority: 5, VLANIdentifier: 200, Type: layers.EthernetTypeARP}, arp(layers.ARPRequest, inside, gateway)),
		frame("qinq", "802.1ad VLAN 300 around VLAN 100, TCP inside", ethernet(gatewayMAC, layers.EthernetTypeQinQ), vlan(300, layers.EthernetTypeDot1Q), vlan(100, layers.EthernetTypeIPv4), ip4(inside, remote, layers.IPProtocolTCP), tcp(40000, 80, synFlag)),
		frame("vlan-vlan", "two 802.1Q tags, 300 around 100, UDP inside", ethernet(gatewayMAC, layers.EthernetTypeDot1Q), vlan(300, layers.EthernetTypeDot1Q), vlan(100, layers.EthernetTypeIPv4), ip4(inside, remote, layers.IPProtocolUDP), udp(1000, 53), text("", 8)),

		frame("ip6-tcp", "SYN to port 80 over IPv6", ethernet(gatewayMAC, layers.EthernetTypeIPv6), ip6(remote6, layers.IPProtocolTCP), tcp(40000, 80, synFlag)),
		frame("ip6-local", "SYN to a host of the same /64", ethernet(gatewayMAC, layers.EthernetTypeIPv6), ip6(nearby6, layers.IPProtocolTCP), tcp(40000, 22, synFlag)),
		frame("ip6-udp", "DNS query over IPv6", ethernet(gatewayMAC, layers.EthernetTypeIPv6), ip6(remote6, layers.IPProtocolUDP), udp(53000, 53), text("", 24)),
		frame("ip6-icmp", "ICMPv6 to all nodes", ethernet(group6MAC, layers.EthernetTypeIPv6), ip6(group6, layers.IPProtocolICMPv6), &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoRequest, 0)}, text("", 12)),
		frame("ip6-hop-by-hop", "UDP behind a hop-by-hop header", ethernet(gatewayMAC, layers.EthernetTypeIPv6), ip6(remote6, layers.IPProtocolIPv6HopByHop), bytesOf(17, 0, 1, 4, 0, 0, 0, 0, 0x03, 0xe8, 0, 53, 0, 8, 0, 0)),
		frame("ip6-fragment", "first fragment of UDP over IPv6", ethernet(gatewayMAC, layers.EthernetTypeIPv6), ip6(remote6, layers.IPProtocolIPv6Fragment), bytesOf(17, 0, 0, 1, 0, 0, 0, 42, 0x03, 0xe8, 0, 53, 0, 40, 0, 0), text("", 16)),

		frame("llc-stp", "spanning tree over LLC: a length in place of the EtherType", &layers.Ethernet{SrcMAC: hostMAC, DstMAC: bridgeMAC, EthernetType: layers.EthernetTypeLLC}, bytesOf(0x42, 0x42, 0x03, 0, 0, 0, 0), text("", 32)),
		frame("llc-ipx", "raw IPX: a length, then ffff", &layers.Ethernet{SrcMAC: hostMAC, DstMAC: broadcastMAC, EthernetType: layers.EthernetTypeLLC}, bytesOf(0xff, 0xff, 0, 30, 0, 17), text("", 24)),
		frame("pppoe-ip", "TCP in a PPPoE session", ethernet(gatewayMAC, layers.EthernetTypePPPoESession), &layers.PPPoE{Version: 1, Type: 1, SessionId: 17}, bytesOf(0x00, 0x21), ip4(inside, remote, layers.IPProtocolTCP), tcp(40000, 80, synFlag)),
		frame("gre-ip", "UDP in IPv4 in GRE with a key", toGateway(), ip4(inside, remote, layers.IPProtocolGRE), &layers.GRE{KeyPresent: true, Key: 42, Protocol: layers.EthernetTypeIPv4}, ip4(nearby, remote, layers.IPProtocolUDP), udp(1000, 53), text("", 8)),
		frame("gre-ethernet", "an Ethernet frame with TCP in GRE", toGateway(), ip4(inside, remote, layers.IPProtocolGRE), &layers.GRE{Protocol: layers.EthernetTypeTransparentEthernetBridging}, toHost4(), ip4(remote, nearby, layers.IPProtocolTCP), tcp(80, 40000, ackFlag)),
		frame("ip-in-ip", "TCP in IPv4 in IPv4", toGateway(), ip4(inside, remote, layers.IPProtocolIPv4), ip4(nearby, remote, layers.IPProtocolTCP), tcp(40000, 80, synFlag)),
		frame("mpls", "MPLS label 16, bottom of stack, IPv4 inside", ethernet(gatewayMAC, layers.EthernetTypeMPLSUnicast), &layers.MPLS{Label: 16, StackBottom: true, TTL: 64}, ip4(inside, remote, layers.IPProtocolUDP), udp(1000, 2000), text("", 8)),

		frame("netlink", "netlink attributes from byte 16 on: type 1 with 1 and 5 bytes, 2 nesting 3 and 4, then 5", ethernet(hostMAC, experimental),
			bytesOf(0, 0,
				5, 0, 1, 0, 0xaa, 0, 0, 0, // 16: type 1, one byte and padding
				9, 0, 1, 0, 1, 2, 3, 4, 5, 0, 0, 0, // 24: type 1, five bytes and padding
				20, 0, 2, 0x80, // 36: type 2, nested
				8, 0, 3, 0, 1, 1, 1, 1, // 40: type 3
				8, 0, 4, 0, 2, 2, 2, 2, // 48: type 4
				4, 0, 5, 0)), // 56: type 5, empty
		frame("zeros", "an experimental frame of 46 zero bytes", ethernet(hostMAC, experimental), text("", 46)),
		frame("ones", "the same of ff bytes", ethernet(hostMAC, experimental), ones(46)),

		short("runt-1", "one byte", 1),
		short("runt-12", "both addresses and no EtherType", 12),
		short("runt-13", "half an EtherType", 13),
		short("runt-14", "an Ethernet header alone", 14),
		short("runt-33", "an IP header without its last byte", 33),
		short("runt-34", "an IP header and nothing else", 34),
		short("runt-37", "a UDP header cut in its destination port", 37),

		frame("counting", "a frame to 00:01:02:03:04:05", ethernet(net.HardwareAddr{0, 1, 2, 3, 4, 5}, experimental), text("", 46)),
	}
}

func frame(name, about string, layers ...gopacket.SerializableLayer) packet {
	return packet{name: name, about: about, layers: layers}
}

// short is a DNS query that was cut after n bytes.
func short(name, about string, n int) packet {
	p := frame(name, about, toGateway(), ip4(inside, remote, layers.IPProtocolUDP), udp(53000, 53), text("", 24))
	p.cut = n
	return p
}

func ethernet(to net.HardwareAddr, kind layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: hostMAC, DstMAC: to, EthernetType: kind}
}

func broadcast(kind layers.EthernetType) *layers.Ethernet { return ethernet(broadcastMAC, kind) }

func toHost(kind layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: gatewayMAC, DstMAC: hostMAC, EthernetType: kind}
}

func toHost4() *layers.Ethernet { return toHost(layers.EthernetTypeIPv4) }

func toGateway() *layers.Ethernet { return ethernet(gatewayMAC, layers.EthernetTypeIPv4) }

func arp(operation uint16, sender, target net.IP) *layers.ARP {
	return &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
		HwAddressSize: 6, ProtAddressSize: 4, Operation: operation,
		SourceHwAddress: hostMAC, SourceProtAddress: sender,
		DstHwAddress: make([]byte, 6), DstProtAddress: target,
	}
}

// rarp is a RARP request, which gopacket has no layer for.
func rarp(host net.IP) gopacket.Payload {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 3}
	for range 2 {
		b = append(append(b, hostMAC...), host...)
	}
	return b
}

func ip4(from, to net.IP, protocol layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, IHL: 5, Id: 1, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: protocol, SrcIP: from, DstIP: to}
}

func fragment(flags layers.IPv4Flag, offset uint16) *layers.IPv4 {
	ip := ip4(inside, remote, layers.IPProtocolUDP)
	ip.Flags, ip.FragOffset = flags, offset
	return ip
}

// withOptions adds words times four no-operation bytes to the IP header.
func withOptions(ip *layers.IPv4, words int) *layers.IPv4 {
	for range 4 * words {
		ip.Options = append(ip.Options, layers.IPv4Option{OptionType: 1})
	}
	return ip
}

func ip6(to net.IP, next layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: next, SrcIP: inside6, DstIP: to}
}

func vlan(id uint16, kind layers.EthernetType) *layers.Dot1Q {
	return &layers.Dot1Q{VLANIdentifier: id, Type: kind}
}

// The TCP flags as bits of the header's byte 13.
const (
	finFlag = 0x01
	synFlag = 0x02
	ackFlag = 0x10
)

func tcp(from, to layers.TCPPort, flags uint8) *layers.TCP {
	return &layers.TCP{
		SrcPort: from, DstPort: to, Seq: 0x01020304, Window: 65535,
		FIN: flags&finFlag != 0, SYN: flags&synFlag != 0, ACK: flags&ackFlag != 0,
	}
}

func tcpOptions(from, to layers.TCPPort) *layers.TCP {
	t := tcp(from, to, synFlag)
	t.Options = []layers.TCPOption{
		{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{0x05, 0xb4}},
		{OptionType: layers.TCPOptionKindNop},
		{OptionType: layers.TCPOptionKindWindowScale, OptionLength: 3, OptionData: []byte{7}},
		{OptionType: layers.TCPOptionKindNop},
		{OptionType: layers.TCPOptionKindNop},
		{OptionType: layers.TCPOptionKindSACKPermitted, OptionLength: 2},
	}
	return t
}

func udp(from, to layers.UDPPort) *layers.UDP { return &layers.UDP{SrcPort: from, DstPort: to} }

func echo(kind uint8) *layers.ICMPv4 {
	return &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 0), Id: 7, Seq: 1}
}

func bytesOf(b ...byte) gopacket.Payload { return b }

// text is a payload of n bytes that begins with s and goes on with zeros.
func text(s string, n int) gopacket.Payload {
	b := make([]byte, n)
	copy(b, s)
	return b
}

func ones(n int) gopacket.Payload {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xff
	}
	return b
}
