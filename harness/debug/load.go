package debug

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Load is which bytes of the input an instruction reads: Size from Offset on.
// Size is 0 if it reads none of them.
type Load struct{ Offset, Size int }

// Contains reports whether the byte at an offset is read.
func (l Load) Contains(offset int) bool { return offset >= l.Offset && offset < l.Offset+l.Size }

// bytesOf is what programs read of an input.
func bytesOf(input kernelabi.Input) []byte {
	switch in := input.(type) {
	case *kernelabi.Skb:
		return in.Packet
	case *kernelabi.Syscall:
		return in.Append(nil)
	}
	return nil
}

// sizes of the loads from the packet.
var sizes = map[uint16]int{
	bpf.LdWAbs: 4, bpf.LdHAbs: 2, bpf.LdBAbs: 1,
	bpf.LdWInd: 4, bpf.LdHInd: 2, bpf.LdBInd: 1, bpf.LdxMsh: 1,
}

// loads finds what each executed instruction reads. A load that fails reads
// nothing, nor do those of bytes in front of the packet show anywhere.
func loads(prog bpf.Program, kind bpf.Kind, r *Recording) []Load {
	all := make([]Load, len(r.States))
	for i, st := range r.States {
		ins := prog[st.PC]
		size := sizes[ins.Code]
		if _, ext := ins.Extension(); size == 0 || ext && kind == bpf.Socket {
			continue
		}
		if r.Result.LoadFailed && i == len(r.States)-1 {
			continue
		}
		off := ins.K
		if ins.Code == bpf.LdWInd || ins.Code == bpf.LdHInd || ins.Code == bpf.LdBInd {
			off += st.X
		}
		at := int(int32(off))
		if skb, ok := r.Input.(*kernelabi.Skb); ok && at < 0 {
			at = headerOffset(skb, off)
		}
		if at >= 0 && at+size <= len(r.Bytes) {
			all[i] = Load{at, size}
		}
	}
	return all
}

// headerOffset is where in the packet a negative offset is.
func headerOffset(skb *kernelabi.Skb, off uint32) int {
	if off >= bpf.NetOff {
		return skb.NetworkHeader + int(off-bpf.NetOff)
	}
	return skb.MacHeader + int(int32(off-bpf.LLOff))
}
