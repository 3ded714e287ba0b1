package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

func retK(c *Compiler, in bpf.Instruction) {
	if in.K == 0 && c.ret0 < 0 {
		c.ret0 = c.PC
	}
	c.mov(arm.R0, in.K)
	c.leave()
}

func retA(c *Compiler, _ bpf.Instruction) {
	c.Mov(arm.AL, arm.R0, arm.R(a))
	c.leave()
}

// leave goes to the epilogue; the last instruction runs into it.
func (c *Compiler) leave() {
	if c.PC != len(c.Prog)-1 {
		c.branch(arm.AL, len(c.Prog))
	}
}

// return0 ends the program with 0 on a condition: at a RET #0 if there is one,
// in front of it or behind, else on its own. It is always two instructions,
// because the first pass may not have seen the RET #0 yet.
func (c *Compiler) return0(cond arm.Cond) {
	if c.ret0 >= 0 {
		c.branch(cond, c.ret0)
		c.Nop()
		return
	}
	c.Mov(cond, arm.R0, arm.Imm(0))
	c.branch(cond, len(c.Prog))
}
