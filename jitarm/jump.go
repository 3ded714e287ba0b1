package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

// pcAhead is how far the program counter is ahead of a branch.
const pcAhead = 8

// branch goes to the start of an instruction; that behind the last one is the
// epilogue.
func (c *Compiler) branch(cond arm.Cond, pc int) { c.branchBefore(cond, pc, 0) }

// branchBefore goes to some bytes in front of the start of an instruction. The
// first pass does not know where that is.
func (c *Compiler) branchBefore(cond arm.Cond, pc, bytes int) {
	disp := 0
	if c.writing {
		disp = c.body + c.offsets[pc] - bytes - (len(c.Buf) + pcAhead)
	}
	c.B(cond, int32(disp))
}

func ja(c *Compiler, in bpf.Instruction) { c.branch(arm.AL, c.PC+1+int(in.K)) }

// A compareRule emits the comparison of a conditional jump.
type compareRule func(c *Compiler, k uint32)

// condJumps are the conditional jumps.
var condJumps = map[uint16]struct {
	compare compareRule
	cond    arm.Cond
}{
	bpf.JeqK: {cmpK, arm.EQ}, bpf.JeqX: {cmpX, arm.EQ}, bpf.JgtK: {cmpK, arm.HI}, bpf.JgtX: {cmpX, arm.HI},
	bpf.JgeK: {cmpK, arm.HS}, bpf.JgeX: {cmpX, arm.HS}, bpf.JsetK: {tstK, arm.NE}, bpf.JsetX: {tstX, arm.NE},
}

func condJump(compare compareRule, cond arm.Cond) rule {
	return condJumpElse(compare, cond, cond.Not())
}

// condJumpElse has a condition for either branch.
func condJumpElse(compare compareRule, cond, not arm.Cond) rule {
	return func(c *Compiler, in bpf.Instruction) {
		compare(c, in.K)
		if in.JT != 0 {
			c.branch(cond, c.PC+1+int(in.JT))
		}
		if in.JF != 0 {
			c.branch(not, c.PC+1+int(in.JF))
		}
	}
}

func cmpK(c *Compiler, k uint32) { c.Compare(arm.AL, arm.Cmp, a, c.operand(k)) }
func tstK(c *Compiler, k uint32) { c.Compare(arm.AL, arm.Tst, a, c.operand(k)) }

func cmpX(c *Compiler, _ uint32) {
	c.readX()
	c.Compare(arm.AL, arm.Cmp, a, arm.R(x))
}

func tstX(c *Compiler, _ uint32) {
	c.readX()
	c.Compare(arm.AL, arm.Tst, a, arm.R(x))
}
