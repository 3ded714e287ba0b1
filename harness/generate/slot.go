package generate

import (
	"encoding/binary"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// slot is an input that is being made, in buffers that serve one program after
// another: a packet or a system call.
type slot struct {
	skb   kernelabi.Skb
	frags [3]int
	sys   kernelabi.Syscall

	value  uint32 // what the program returned for it
	failed bool   // because a load or division failed
}

// maxPacket is the longest packet that is made to get a load to succeed. Longer
// ones would cost more to copy than they show.
const maxPacket = 4400

// copyFrom makes sl the same as from.
func (sl *slot) copyFrom(from *slot, kind bpf.Kind) {
	if kind == bpf.Seccomp {
		sl.sys = from.sys
		return
	}
	packet := append(sl.skb.Packet[:0], from.skb.Packet...)
	sl.skb = from.skb
	sl.skb.Packet = packet
	sl.frags = from.frags
	sl.skb.Frags = sl.frags[:len(from.skb.Frags)]
}

// resize makes the packet n bytes long; new bytes are random. A linear packet
// stays linear.
func (sl *slot) resize(n int, r *rng) {
	skb := &sl.skb
	linear := skb.IsLinear()
	if old := len(skb.Packet); n > old {
		for len(skb.Packet) < n {
			skb.Packet = binary.LittleEndian.AppendUint64(skb.Packet, r.next())
		}
	}
	skb.Packet = skb.Packet[:n]
	if linear {
		sl.split(n)
	} else {
		sl.split(min(skb.Headlen, n))
	}
}

// split puts the bytes from headlen on into page fragments: one, or a few if
// sizes are given. What is left is one more fragment.
func (sl *slot) split(headlen int, sizes ...int) {
	skb := &sl.skb
	skb.Headlen = headlen
	rest, n := len(skb.Packet)-headlen, 0
	for _, size := range sizes {
		if size > 0 && size < rest && n < len(sl.frags)-1 {
			sl.frags[n] = size
			n, rest = n+1, rest-size
		}
	}
	if rest > 0 {
		sl.frags[n] = rest
		n++
	}
	skb.Frags = sl.frags[:n]
}

// put stores the low bytes of v in network order at pos; false if they do not
// hold v.
func (sl *slot) put(pos, size int, v uint32) bool {
	p := sl.skb.Packet
	if pos+size > len(p) {
		return false
	}
	switch size {
	case 4:
		binary.BigEndian.PutUint32(p[pos:], v)
	case 2:
		binary.BigEndian.PutUint16(p[pos:], uint16(v))
		return v>>16 == 0
	default:
		p[pos] = byte(v)
		return v>>8 == 0
	}
	return true
}

// putWord stores v at an offset of struct seccomp_data.
func (sl *slot) putWord(off, v uint32) {
	d := &sl.sys.Data
	half := func(field *uint64) {
		if off%8 == 0 {
			*field = *field>>32<<32 | uint64(v)
		} else {
			*field = *field<<32>>32 | uint64(v)<<32
		}
	}
	switch {
	case off == seccompdata.OffNr:
		d.Nr = v
	case off == seccompdata.OffArch:
		d.Arch = v
	case off < seccompdata.OffArgs:
		half(&d.IP)
	default:
		half(&d.Args[(off-seccompdata.OffArgs)/8])
	}
}

// putExt makes an ancillary load give v; false if it cannot.
func (sl *slot) putExt(ext bpf.Extension, v uint32, sem kernelabi.Semantics) bool {
	skb := &sl.skb
	fits := func(bits uint) bool { return v>>bits == 0 }
	switch ext {
	case bpf.ExtProtocol:
		skb.Protocol = uint16(v)
		return fits(16)
	case bpf.ExtPktType:
		skb.PktType = uint8(v & 7)
		return fits(3)
	case bpf.ExtIfindex:
		skb.Ifindex = v
	case bpf.ExtMark:
		skb.Mark = v
	case bpf.ExtQueue:
		skb.Queue = uint16(v)
		return fits(16)
	case bpf.ExtHatype:
		skb.DevType = uint16(v)
		return fits(16)
	case bpf.ExtRxhash:
		skb.Rxhash = v
	case bpf.ExtCPU:
		skb.CPU = v & 0xff
		return fits(8)
	case bpf.ExtVlanTCI:
		skb.VlanTCI = uint16(v)
		tag, _ := skb.VlanTag(sem)
		return uint32(tag) == v
	case bpf.ExtVlanPr:
		skb.VlanPresent = v == 1
		if v == 0 {
			skb.VlanTCI, skb.VlanProto = skb.VlanTCI&0xefff, 0
			if !sem.VlanPresentInTCI {
				skb.VlanTCI = 0
			}
		}
		return fits(1)
	case bpf.ExtRandom:
		skb.Random = v
	case bpf.ExtVlanTPID:
		skb.VlanProto = uint16(v)
		return fits(16)
	default:
		return false
	}
	return true
}

var (
	protocols = [...]uint16{kernelabi.EthPIP, kernelabi.EthPIP, kernelabi.EthPIPv6, kernelabi.EthP8021Q, kernelabi.EthP8022, 0x0806, 0x00ff, 0xff00}
	headers   = [...]int{14, 14, 14, 14, 0, 18, 22, 4}
)

// metadata makes up all that is in struct sk_buff besides the bytes.
func (sl *slot) metadata(r *rng) {
	skb := &sl.skb
	v := r.next()
	skb.Protocol = protocols[v&7]
	skb.NetworkHeader = headers[v>>3&7]
	skb.MacHeader, skb.Headroom = 0, 0
	if v>>6&15 == 0 { // as a filter sees it whose data starts at the network header
		skb.Headroom = 16
		skb.MacHeader, skb.NetworkHeader = -14, 0
	}
	skb.PktType = uint8(v >> 10 & 7)
	skb.Queue = uint16(v >> 16)
	skb.VlanTCI = uint16(v >> 32)
	skb.VlanProto = 0
	skb.VlanPresent = v>>13&1 != 0
	if skb.VlanPresent {
		skb.VlanProto = kernelabi.EthP8021Q
	}
	skb.NoDevice = false
	skb.CPU = uint32(v >> 48 & 3)
	skb.DevType = 1
	if v>>14&3 == 0 {
		skb.DevType = uint16(v >> 50)
	}
	skb.Ifindex = uint32(v>>52&31) + 1
	v = r.next()
	skb.Mark, skb.Rxhash = uint32(v), uint32(v>>32)
	if v>>20&3 == 0 {
		skb.Mark = edges[v%uint64(len(edges))]
	}
	skb.Random = skb.Rxhash ^ skb.Mark
}
