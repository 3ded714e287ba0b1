package livekernel

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// watched is an input that notes the first thing a program reads that the
// running kernel would not read alike.
type watched struct {
	bpf.Input
	unlike func(off uint32, ext bpf.Extension, extension bool) string
	why    string
}

func (w *watched) note(off uint32, ext bpf.Extension, extension bool) {
	if w.why == "" {
		w.why = w.unlike(off, ext, extension)
	}
}

func (w *watched) Load(off uint32, size int) (uint32, bool) {
	w.note(off, 0, false)
	return w.Input.Load(off, size)
}

func (w *watched) Extension(ext bpf.Extension, a, x uint32) (uint32, bool) {
	w.note(0, ext, true)
	return w.Input.Extension(ext, a, x)
}

// reasonAgainst runs the program in the interpreter and returns why the kernel
// cannot be given the same input, or "". The machine is nil for a program that
// the checker should refuse: then there is nothing to say.
func reasonAgainst(m *bpf.Machine, in bpf.Input, unlike func(uint32, bpf.Extension, bool) string) string {
	if m == nil {
		return ""
	}
	w := &watched{Input: in, unlike: unlike}
	m.Run(w)
	return w.why
}

// linearUnix is up to how many bytes an AF_UNIX datagram is linear on every
// kernel.
const linearUnix = 4096

// unlikePacket says what a filter on an AF_UNIX socket would read otherwise
// than in skb. Its packets have no device, no headers, and no metadata.
func unlikePacket(skb *kernelabi.Skb) func(uint32, bpf.Extension, bool) string {
	return func(off uint32, ext bpf.Extension, extension bool) string {
		switch {
		case extension:
			return unlikeMetadata(skb, ext)
		case int32(off) < 0:
			return "the program loads from a negative offset, and packets of AF_UNIX sockets have no headers"
		case !skb.IsLinear() && int64(off) < int64(len(skb.Packet)):
			return "the program reads a page fragment, and packets of AF_UNIX sockets are made without"
		}
		return ""
	}
}

// metadata are the ancillary loads that are 0 in AF_UNIX packets, and what they
// are in an input.
var metadata = map[bpf.Extension]func(*kernelabi.Skb) bool{
	bpf.ExtProtocol: func(s *kernelabi.Skb) bool { return s.Protocol == 0 },
	bpf.ExtPktType:  func(s *kernelabi.Skb) bool { return s.PktType == 0 },
	bpf.ExtMark:     func(s *kernelabi.Skb) bool { return s.Mark == 0 },
	bpf.ExtQueue:    func(s *kernelabi.Skb) bool { return s.Queue == 0 },
	bpf.ExtRxhash:   func(s *kernelabi.Skb) bool { return s.Rxhash == 0 },
	bpf.ExtVlanTCI:  func(s *kernelabi.Skb) bool { return s.VlanTCI == 0 && !s.VlanPresent },
	bpf.ExtVlanPr:   func(s *kernelabi.Skb) bool { return !s.VlanPresent && s.VlanTCI == 0 && s.VlanProto == 0 },
	bpf.ExtVlanTPID: func(s *kernelabi.Skb) bool { return s.VlanProto == 0 },
	bpf.ExtNlattr:   func(s *kernelabi.Skb) bool { return s.IsLinear() && len(s.Packet) <= linearUnix },
	bpf.ExtNlattrN:  func(s *kernelabi.Skb) bool { return s.IsLinear() && len(s.Packet) <= linearUnix },
}

func unlikeMetadata(skb *kernelabi.Skb, ext bpf.Extension) string {
	if (ext == bpf.ExtIfindex || ext == bpf.ExtHatype) && skb.NoDevice {
		// It ends the program with A as it is, also one that is to return a
		// slice of it.
		return fmt.Sprintf("the program loads %s without a device, and the value that ends it cannot be read in full", ext)
	}
	if same, ok := metadata[ext]; ok && same(skb) {
		return ""
	}
	return fmt.Sprintf("the program loads %s, which no packet of an AF_UNIX socket has", ext)
}

// unlikeCall says what a filter reads otherwise when this process makes the
// call.
func unlikeCall(call *seccompdata.Data, native nativeABI) func(uint32, bpf.Extension, bool) string {
	return func(off uint32, _ bpf.Extension, _ bool) string {
		switch {
		case off == seccompdata.OffArch && call.Arch != native.audit:
			return fmt.Sprintf("the program reads the architecture, which is %#x here, not %#x", native.audit, call.Arch)
		case off >= seccompdata.OffIP && off < seccompdata.OffArgs:
			return "the program reads the instruction pointer, which cannot be chosen"
		case native.wordArgs && off >= seccompdata.OffArgs && off%8 != 0 && call.Args[(off-seccompdata.OffArgs)/8]>>32 != 0:
			return "the program reads the upper half of an argument, which is 0 here"
		}
		return ""
	}
}

// nativeABI is what system calls of this process look like to filters.
type nativeABI struct {
	audit    uint32   // AUDIT_ARCH_*
	wordArgs bool     // arguments are 32-bit registers
	exempt   []uint32 // calls that newer kernels let pass whatever the filter says
}

// nativeABIs are those of the architectures that this works on, by GOARCH. All
// are little-endian.
var nativeABIs = map[string]nativeABI{
	"amd64": {audit: seccompdata.ArchX86_64, exempt: []uint32{335, 336}}, // uretprobe, uprobe
	"arm64": {audit: seccompdata.ArchAARCH64},
	"arm":   {audit: seccompdata.ArchARM, wordArgs: true},
}

// freeWord finds a word of the arguments that no instruction of prog reads.
// There the signal goes.
func freeWord(prog bpf.Program, native nativeABI) (word uint32, ok bool) {
	read := map[uint32]bool{}
	for _, ins := range prog {
		if ins.Code == bpf.LdWAbs {
			read[ins.K] = true
		}
	}
	// Upper halves first: few programs read them.
	for _, half := range []uint32{4, 0} {
		if half == 4 && native.wordArgs {
			continue
		}
		for n := range uint32(6) {
			word := seccompdata.OffArgs + 8*(5-n) + half
			if !read[word] {
				return word, true
			}
		}
	}
	return 0, false
}
