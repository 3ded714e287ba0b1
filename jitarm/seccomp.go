package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

// seccompDataSize is sizeof(struct seccomp_data).
const seccompDataSize = 64

// seccompRules are the codes that seccomp's checker gives another meaning: the
// load is one from struct seccomp_data, and the length is a constant. None of
// them, as the first instruction, saves clearing A.
func seccompRules(load rule) map[uint16]entry {
	return map[uint16]entry{
		bpf.LdWAbs: {emit: load},
		bpf.LdLen:  {emit: func(c *Compiler, _ bpf.Instruction) { c.mov(a, seccompDataSize) }},
		bpf.LdxLen: {emit: func(c *Compiler, _ bpf.Instruction) {
			c.need(seenX)
			c.mov(x, seccompDataSize)
		}},
	}
}

// loadData loads a word in host order.
func loadData(c *Compiler, in bpf.Instruction) {
	c.need(seenSkb)
	c.Ldr(arm.AL, a, arm.At(skb, int32(in.K)))
}
