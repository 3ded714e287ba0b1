package capture

import (
	"encoding/binary"
	"fmt"

	"github.com/gopacket/gopacket/layers"

	"github.com/kjit-project/kjit/kernelabi"
)

// LinkName is a link type as tcpdump's -y knows it, or its number.
func LinkName(lt layers.LinkType) string {
	if l, ok := linkTypes[lt]; ok {
		return l.name
	}
	return fmt.Sprintf("LINKTYPE_%d", int(lt))
}

// link is what a replay needs to know of a link type: where the network header
// starts and which protocol a kernel would note in skb->protocol.
type link struct {
	name     string
	header   int                   // bytes before the network header
	protocol func(b []byte) uint16 // nil: 0
}

// linkTypes covers those a Linux socket filter can meet, and the pcap link
// types of captures taken elsewhere whose network header has a fixed place
// (https://www.tcpdump.org/linktypes.html). For all others the network header
// is taken to be at the packet's start.
var linkTypes = map[layers.LinkType]link{
	0:   {"NULL", 4, nil},
	1:   {"EN10MB", 14, be16At(12)},
	9:   {"PPP", 4, nil},
	12:  {"RAW", 0, ipVersion},
	14:  {"RAW", 0, ipVersion},
	50:  {"PPP_SERIAL", 4, be16At(2)},
	51:  {"PPP_ETHER", 0, nil},
	101: {"RAW", 0, ipVersion},
	104: {"C_HDLC", 4, be16At(2)},
	105: {"IEEE802_11", 0, nil},
	107: {"FRELAY", 0, nil},
	108: {"LOOP", 4, nil},
	113: {"LINUX_SLL", 16, be16At(14)},
	119: {"PRISM_HEADER", 0, nil},
	127: {"IEEE802_11_RADIO", 0, nil},
	182: {"MFR", 0, nil},
	192: {"PPI", 0, nil},
	228: {"IPV4", 0, constant(0x0800)},
	229: {"IPV6", 0, constant(0x86dd)},
	258: {"PKTAP", 0, nil},
	276: {"LINUX_SLL2", 20, be16At(0)},
	284: {"DSA_TAG_DSA", 0, nil},
}

func be16At(off int) func([]byte) uint16 {
	return func(b []byte) uint16 {
		if len(b) < off+2 {
			return 0
		}
		return binary.BigEndian.Uint16(b[off:])
	}
}

func constant(p uint16) func([]byte) uint16 { return func([]byte) uint16 { return p } }

func ipVersion(b []byte) uint16 {
	if len(b) > 0 {
		switch b[0] >> 4 {
		case 4:
			return 0x0800
		case 6:
			return 0x86dd
		}
	}
	return 0
}

// Skb returns the packet as a kernel would hand it to a filter: all linear,
// with the network header and protocol of its link type.
func (p *Packet) Skb() *kernelabi.Skb {
	skb := kernelabi.NewSkb(p.Data)
	l := linkTypes[p.LinkType]
	skb.NetworkHeader = min(l.header, len(p.Data))
	skb.Protocol = 0
	if l.protocol != nil {
		skb.Protocol = l.protocol(p.Data)
	}
	return skb
}
