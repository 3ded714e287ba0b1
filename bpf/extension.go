package bpf

import "fmt"

// The bases of negative packet offsets as an unsigned K (linux/filter.h, SKF_*).
const (
	ADOff  uint32 = 0xfffff000 // -0x1000: ancillary loads
	NetOff uint32 = 0xfff00000 // -0x100000: from the network header
	LLOff  uint32 = 0xffe00000 // -0x200000: from the link-layer (MAC) header
)

// Extension is an ancillary load: the n of K = SKF_AD_OFF + n.
type Extension uint32

const (
	ExtProtocol  Extension = 0  // skb->protocol, host order
	ExtPktType   Extension = 4  // skb->pkt_type, 3 bits
	ExtIfindex   Extension = 8  // skb->dev->ifindex
	ExtNlattr    Extension = 12 // offset of netlink attribute X, searched from offset A
	ExtNlattrN   Extension = 16 // the same inside the attribute at offset A
	ExtMark      Extension = 20 // skb->mark
	ExtQueue     Extension = 24 // skb->queue_mapping
	ExtHatype    Extension = 28 // skb->dev->type
	ExtRxhash    Extension = 32 // skb->rxhash, later skb->hash
	ExtCPU       Extension = 36 // the current processor
	ExtXorX      Extension = 40 // A ^= X; not a load at all
	ExtVlanTCI   Extension = 44 // the VLAN tag
	ExtVlanPr    Extension = 48 // 1 if there is a VLAN tag, else 0
	ExtPayOffset Extension = 52 // where the flow dissector finds the payload
	ExtRandom    Extension = 56 // a random word
	ExtVlanTPID  Extension = 60 // skb->vlan_proto, host order

	// NumExtensions counts them; they are 0, 4, ..., 4*(NumExtensions-1).
	NumExtensions = 16
)

// extensionNames holds, by n/4, the names in kernel bpf_asm source and in
// libpcap's -d text where the two differ.
var extensionNames = [NumExtensions]struct{ asm, pcap string }{
	{"proto", "proto"}, {"type", "type"}, {"ifidx", "ifidx"}, {"nla", "nla"},
	{"nlan", "nlan"}, {"mark", "mark"}, {"queue", "queue"}, {"hatype", "hatype"},
	{"rxhash", "rxhash"}, {"cpu", "cpu"}, {"xor_x", "xor_x"}, {"vlan_tci", "vlan_tci"},
	{"vlan_pr", "vlanp"}, {"poff", "poff"}, {"rand", "random"}, {"vlan_tpid", "vlan_tpid"},
}

// Known reports whether today's Linux knows the extension.
func (e Extension) Known() bool { return e%4 == 0 && e/4 < NumExtensions }

// K returns the load offset that selects the extension.
func (e Extension) K() uint32 { return ADOff + uint32(e) }

// String returns the bpf_asm name ("vlan_pr", "rand").
func (e Extension) String() string {
	if !e.Known() {
		return fmt.Sprintf("ext(%d)", uint32(e))
	}
	return extensionNames[e/4].asm
}

// PcapName returns the name in libpcap's -d text ("vlanp", "random").
func (e Extension) PcapName() string {
	if !e.Known() {
		return e.String()
	}
	return extensionNames[e/4].pcap
}
