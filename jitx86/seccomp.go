package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

// seccompRules are the codes that seccomp's checker gives another meaning: the
// load is one from struct seccomp_data, which rdi points to, and the length is a
// constant.
func seccompRules() map[uint16]entry {
	return map[uint16]entry{
		bpf.LdWAbs: {Emit: loadData, SetsA: true},
		bpf.LdLen: {
			Emit:  func(c *Compiler, _ bpf.Instruction) { c.MovImm32(x86.AX, jit.SeccompDataSize) },
			SetsA: true,
		},
		bpf.LdxLen: {Emit: func(c *Compiler, _ bpf.Instruction) {
			c.need(seenX)
			c.MovImm32(x86.BX, jit.SeccompDataSize)
		}},
	}
}

// loadData loads a word in host order. It needs no part of the frame.
func loadData(c *Compiler, in bpf.Instruction) {
	c.Load(x86.W32, x86.AX, x86.At(x86.DI, int32(in.K)))
}
