package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

// indNegative: loads from X + k < 0, and LDX MSH with k < 0, end the program
// with 0 instead of loading from a header. The kernels that did so found the
// negative sum in helpers of their own (sk_load_word_ind ...); here the code
// tests it, so that a profile of linux-3.10 has all it needs.
func indNegative() *Emitter {
	t := linux310()
	t.Replace(map[uint16]rule{
		bpf.LdWInd: loadIndUnlessNegative(word),
		bpf.LdHInd: loadIndUnlessNegative(half),
		bpf.LdBInd: loadIndUnlessNegative(byte1),
		bpf.LdxMsh: bySignOfK(loadMsh, mshReturn0(noRet0)),
	})
	return &Emitter{
		Name:    "x86-ind-negative",
		Summary: "indirect and MSH loads from negative offsets end the program with 0",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.2",
			Fixed:    "3.3 or 3.4 (a998d4342337)",
			Rules:    []string{"ld-ind", "ldh-ind", "ldb-ind", "ldx-msh"},
		},
		rules: t,
	}
}

func loadIndUnlessNegative(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		c.offsetFromX(in.K)
		c.Test(x86.W32, x86.R(x86.SI), x86.SI)
		const skipped = 2 + nearJump // xor eax, eax; jmp
		c.JccShort(x86.CondNS, skipped)
		c.clearA()
		c.JmpNear(int32(c.cleanup - (c.end() - callSize)))
		c.call(s.plain(), 0)
	}
}
