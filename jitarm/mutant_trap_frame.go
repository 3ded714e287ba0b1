package jitarm

import (
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

var frameTraps = []trap{
	{"x-not-cleared", "X is what the caller had in r5", []string{"entry-x"}, func(t *table) {
		t.frame.readX = func(c *Compiler) { c.need(seenX) }
	}},
	{"a-not-cleared", "A is not cleared in front of loads of X", []string{"entry-a"}, func(t *table) {
		for _, code := range []uint16{bpf.LdxImm, bpf.LdxMem, bpf.LdxLen, bpf.LdxMsh, bpf.Tax} {
			t.Codes[code].SetsA = true
		}
	}},
	{"cells-counted", "the frame has as many words as there are cells in use, whichever they are", allMem, func(t *table) {
		t.frame.words = func(cells seen) int { return bits.OnesCount32(uint32(cells)) }
	}},
	{"cells-short", "the frame lacks the word of the last cell", allMem, func(t *table) {
		t.frame.words = func(cells seen) int { return max(upToHighest(cells)-1, 0) }
	}},
	{"ret-bare", "RET K returns at once where no helper was called, with the caller's registers lost", allRets,
		replaced(map[uint16]rule{bpf.RetK: func(c *Compiler, in bpf.Instruction) {
			if c.seen&seenCall != 0 || c.PC == len(c.Prog)-1 {
				retK(c, in)
				return
			}
			c.mov(arm.R0, in.K)
			c.Bx(arm.AL, arm.LR)
		}})},
	{"ret-falls-through", "RET A in front of the last instruction does not leave", []string{"ret-a"},
		replaced(map[uint16]rule{bpf.RetA: func(c *Compiler, in bpf.Instruction) {
			if c.PC == len(c.Prog)-2 {
				c.Mov(arm.AL, arm.R0, arm.R(a))
				return
			}
			retA(c, in)
		}})},
}
