package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

func linux30Emitter() *Emitter {
	return &Emitter{
		Name:    "linux-3.0",
		Summary: "Linux 3.0 and 3.1, the first JIT with all its faults",
		rules:   linux30(),
	}
}

// linux30 is the table of Linux 3.0.1, arch/x86/net/bpf_jit_comp.c (the same
// file as in 3.1.3).
func linux30() table {
	t := linux310()
	t.Replace(map[uint16]rule{
		bpf.ModK: nil, bpf.ModX: nil, bpf.XorK: nil, bpf.XorX: nil,
		bpf.DivK:   divKByReciprocal,
		bpf.DivX:   divX(ret0End),
		bpf.AndK:   andKWrongImm16,
		bpf.LdWAbs: loadAbsOrDecline(word), bpf.LdWInd: loadIndByHelper(word),
		bpf.LdHAbs: loadAbsOrDecline(half), bpf.LdHInd: loadIndByHelper(half),
		bpf.LdBAbs: loadAbsOrDecline(byte1), bpf.LdBInd: loadIndByHelper(byte1),
		bpf.LdxMsh: bySignOfK(loadMshPlain, mshReturn0(ret0End)),
	})
	t.replaceJumps(skip2Or6)
	t.ReplaceExts(map[bpf.Extension]rule{
		bpf.ExtPktType: nil, bpf.ExtXorX: nil, bpf.ExtVlanTCI: nil, bpf.ExtVlanPr: nil,
	})
	t.passes = passes{liveFrame: true}
	return t
}

// loadAbsOrDecline is a load without a path for negative offsets: a program
// that holds one is not compiled.
func loadAbsOrDecline(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		if int32(in.K) < 0 {
			c.Decline(ReasonNegative)
			return
		}
		c.need(seenData)
		c.MovImm32(x86.SI, in.K)
		c.call(s.plain(), 0)
	}
}

// loadIndByHelper leaves the addition of X to a helper, which ends the program
// with 0 when the sum is negative.
func loadIndByHelper(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		c.MovImm32(x86.SI, in.K)
		c.call(s.indirect(), 0)
	}
}

func loadMshPlain(c *Compiler, in bpf.Instruction) {
	c.need(seenData | seenX)
	c.MovImm32(x86.SI, in.K)
	c.call(msh.plain(), 0)
}
