package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// divKReciprocal: DIV K multiplies by a 32-bit reciprocal, which is 0 for k = 1
// and too coarse for large k. The kernels' interpreter had the fault too.
func divKReciprocal() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{bpf.DivK: divKByReciprocal})
	return &Emitter{
		Name:    "arm-divk-reciprocal",
		Summary: "DIV K multiplies by an inexact reciprocal",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 3.13",
			Fixed:    "3.14 (aee636c4809f)",
			Rules:    []string{"div-k"},
		},
		rules: t,
	}
}

// divKByReciprocal keeps the upper half of the product. Before ARMv6 the result
// of this umull is not even defined: its upper half is in a factor's register.
func divKByReciprocal(c *Compiler, in bpf.Instruction) {
	c.mov(arm.R0, jit.Reciprocal(in.K))
	c.Umull(arm.AL, arm.R0, a, a, arm.R0)
}
