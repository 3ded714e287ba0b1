package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// seccompRules are the codes that seccomp's checker gives another meaning: the
// load is one from struct seccomp_data, and the length is a constant. None of
// them, as the first instruction, saves clearing A.
func seccompRules(load rule) map[uint16]entry {
	return map[uint16]entry{
		bpf.LdWAbs: {Emit: load},
		bpf.LdLen:  {Emit: func(c *Compiler, _ bpf.Instruction) { c.mov(a, jit.SeccompDataSize) }},
		bpf.LdxLen: {Emit: func(c *Compiler, _ bpf.Instruction) {
			c.need(seenX)
			c.mov(x, jit.SeccompDataSize)
		}},
	}
}

// loadData loads a word in host order.
func loadData(c *Compiler, in bpf.Instruction) {
	c.need(seenSkb)
	c.Ldr(arm.AL, a, arm.At(skb, int32(in.K)))
}
