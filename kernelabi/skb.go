package kernelabi

import "github.com/kjit-project/kjit/bpf"

// Skb is a packet as a socket filter meets it: a linear part, page fragments,
// and the metadata of struct sk_buff. All numbers are in host order, whatever
// order the struct keeps them in.
type Skb struct {
	Packet  []byte // the whole packet; skb->len is its length
	Headlen int    // bytes in the linear part, skb->len - skb->data_len
	Frags   []int  // lengths of the page fragments behind it; their sum is len(Packet)-Headlen

	MacHeader     int // offset of the link-layer header from skb->data; may be negative
	NetworkHeader int // offset of the network header from skb->data
	Headroom      int // bytes between skb->head and skb->data

	Protocol    uint16
	PktType     uint8 // 3 bits
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

// Input is one thing to run a program on: *Skb, or *seccompdata.Data. Under
// gives it the meaning that kernels with the given semantics give it.
type Input interface {
	Under(Semantics) bpf.Input
}
