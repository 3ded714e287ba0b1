package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

// divKReciprocal: DIV K multiplies by a 32-bit reciprocal, which is 0 for k = 1,
// negative to the 64-bit multiplication for k = 2, and too coarse for large k.
// The kernels' interpreter had the fault too, except for the sign.
func divKReciprocal() *Emitter {
	t := linux310()
	t.replace(map[uint16]rule{bpf.DivK: divKByReciprocal})
	return &Emitter{
		Name:    "x86-divk-reciprocal",
		Summary: "DIV K multiplies by an inexact reciprocal",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.13 before stable fixes",
			Fixed:    "3.14 and stable trees, 3.10.99 among them (aee636c4809f)",
		},
		rules: t,
	}
}

// reciprocal is ceil(2^32 / k) cut to 32 bits. The kernel put it in place of k
// before the JIT saw the program.
func reciprocal(k uint32) uint32 {
	if k == 0 {
		return 0 // no checked program has it
	}
	return uint32((1<<32 + uint64(k) - 1) / uint64(k))
}

func divKByReciprocal(c *Compiler, in bpf.Instruction) {
	c.ImulImm(x86.W64, x86.AX, a, int32(reciprocal(in.K)))
	c.ShiftImm(x86.Shr, x86.W64, a, 32)
}
