package jittest

import (
	"encoding/binary"

	"github.com/kjit-project/kjit/kernelabi"
)

// Structs returns a packet's struct sk_buff and struct net_device as compiled
// code reads them, with the fields that the profile's layout has. They end
// where their last field does, so that reading on is a fault. skb->data and
// skb->dev point to the given addresses.
func Structs(p *kernelabi.Profile, skb *kernelabi.Skb, data, device uint64) (sk, dev []byte) {
	pointer := 4
	if p.Arch == kernelabi.X86_64 {
		pointer = 8
	}
	put := func(to *[]byte, field string, size int, value uint64) {
		off, ok := p.Layout[field]
		if !ok {
			return
		}
		if missing := off + size - len(*to); missing > 0 {
			*to = append(*to, make([]byte, missing)...)
		}
		var bytes [8]byte
		binary.LittleEndian.PutUint64(bytes[:], value)
		copy((*to)[off:off+size], bytes[:])
	}
	if skb.NoDevice {
		device = 0
	}
	protocol := skb.Protocol>>8 | skb.Protocol<<8 // in network order
	put(&sk, kernelabi.SkbLen, 4, uint64(len(skb.Packet)))
	put(&sk, kernelabi.SkbDataLen, 4, uint64(len(skb.Packet)-skb.Headlen))
	put(&sk, kernelabi.SkbData, pointer, data)
	put(&sk, kernelabi.SkbPktType, 1, 0xf8|uint64(skb.PktType))
	put(&sk, kernelabi.SkbProtocol, 2, uint64(protocol))
	put(&sk, kernelabi.SkbMark, 4, uint64(skb.Mark))
	put(&sk, kernelabi.SkbRxhash, 4, uint64(skb.Rxhash))
	put(&sk, kernelabi.SkbQueue, 2, uint64(skb.Queue))
	put(&sk, kernelabi.SkbVlanTCI, 2, uint64(skb.VlanField(p.Semantics)))
	put(&sk, kernelabi.SkbDev, pointer, device)
	put(&dev, kernelabi.DevIfindex, 4, uint64(skb.Ifindex))
	put(&dev, kernelabi.DevType, 2, uint64(skb.DevType))
	return sk, dev
}
