package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

// andImm16: the 16-bit constant of AND is 0x200 too large.
func andImm16() *Emitter {
	t := linux310()
	t.Replace(map[uint16]rule{bpf.AndK: andKWrongImm16})
	return &Emitter{
		Name:    "x86-and-imm16",
		Summary: "AND with ffff0000 <= k < ffffff00 uses k + 200 (hex)",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.2, perhaps 3.3",
			Fixed:    "3.4 at the latest (1d24fb3684f3)",
			Rules:    []string{"and-k"},
		},
		rules: t,
	}
}

func andKWrongImm16(c *Compiler, in bpf.Instruction) {
	if in.K >= 0xffff0000 && in.K < 0xffffff00 {
		c.AluAcc(x86.And, x86.W16, int32(in.K+0x200))
		return
	}
	andK(c, in)
}
