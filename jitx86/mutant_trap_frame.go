package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

var frameTraps = []trap{
	{"rbx-unsaved", "rbx is saved only if the program uses X, but the helpers' error exit restores it always", allLoads,
		func(t *table) { t.frame.saveX = seenX }},
	{"rbx-unrestored", "the epilogue does not restore rbx", nil,
		func(t *table) { t.frame.restoreX = 0 }},
	{"x-not-cleared", "X is what the caller had in rbx", []string{"entry-x"},
		func(t *table) { t.frame.clearX = 0 }},
	{"a-not-cleared", "A is not cleared in front of loads of X", []string{"entry-a"}, setA(bpf.LdxImm, bpf.LdxMem, bpf.LdxLen, bpf.LdxMsh, bpf.Tax)},
	{"a-not-cleared-mem", "A is not cleared in front of a store", []string{"entry-a"}, setA(bpf.St, bpf.Stx)},
	{"xorx-first", "A is not cleared in front of an ancillary A ^= X", []string{"entry-a"},
		func(t *table) { t.Exts[bpf.ExtXorX/4].SetsA = true }},
	{"small-frame", "the frame has 64 bytes, and calls overwrite the last cells of M[]", append(allMem, allLoads...),
		func(t *table) { t.frame.size = 64 }},
	{"ret-unrestored", "returns but the last skip the instruction that restores rbx", allRets, returns(func(c *Compiler) {
		c.jmp(c.cleanup + len("\x48\x8b\x5d\xf8") - c.end())
	})},
	{"ret-bare", "returns but the last leave the frame on the stack", allRets, returns(func(c *Compiler) { c.Bare(x86.Ret) })},
}

// setA takes instructions for ones that set A.
func setA(codes ...uint16) func(*table) {
	return func(t *table) {
		for _, code := range codes {
			t.Codes[code].SetsA = true
		}
	}
}

// returns makes those that are not the last leave in another way where the frame
// has rbx.
func returns(leave func(c *Compiler)) func(*table) {
	ret := func(c *Compiler, in bpf.Instruction) {
		if c.frame()&seenX == 0 || c.PC == len(c.Prog)-1 {
			retA(c, in)
		} else {
			leave(c)
		}
	}
	return replaced(map[uint16]rule{
		bpf.RetA: ret,
		bpf.RetK: func(c *Compiler, in bpf.Instruction) {
			ldImm(c, in)
			ret(c, in)
		},
	})
}
