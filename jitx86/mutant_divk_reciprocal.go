package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

// divKReciprocal: DIV K multiplies by a 32-bit reciprocal, which is 0 for k = 1,
// negative to the 64-bit multiplication for k = 2, and too coarse for large k.
// The kernels' interpreter had the fault too, except for the sign.
func divKReciprocal() *Emitter {
	t := linux310()
	t.Replace(map[uint16]rule{bpf.DivK: divKByReciprocal})
	return &Emitter{
		Name:    "x86-divk-reciprocal",
		Summary: "DIV K multiplies by an inexact reciprocal",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.13 before stable fixes",
			Fixed:    "3.14 and stable trees, 3.10.99 among them (aee636c4809f)",
			Rules:    []string{"div-k"},
		},
		rules: t,
	}
}

func divKByReciprocal(c *Compiler, in bpf.Instruction) {
	c.ImulImm(x86.W64, x86.AX, a, int32(jit.Reciprocal(in.K)))
	c.ShiftImm(x86.Shr, x86.W64, a, 32)
}
