package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

// The registers of the contract.
const (
	a       = arm.R4
	x       = arm.R5
	skb     = arm.R6 // struct sk_buff or struct seccomp_data
	data    = arm.R7
	headlen = arm.R8
)

// aluK is A op= k, with k in r0 if no immediate holds it.
func aluK(op arm.Alu) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.Alu(arm.AL, op, a, a, c.operand(in.K))
	}
}

// aluX is A op= X.
func aluX(op arm.Alu) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.readX()
		c.Alu(arm.AL, op, a, a, arm.R(x))
	}
}

func mulK(c *Compiler, in bpf.Instruction) {
	c.mov(arm.R0, in.K)
	c.Mul(arm.AL, a, arm.R0, a)
}

func mulX(c *Compiler, _ bpf.Instruction) {
	c.readX()
	c.Mul(arm.AL, a, x, a)
}

func divK(c *Compiler, in bpf.Instruction) {
	if in.K == 1 {
		return
	}
	c.mov(arm.R0, in.K)
	c.cpu.div(c, arm.R0)
}

func modK(c *Compiler, in bpf.Instruction) {
	if in.K == 1 {
		c.mov(a, 0)
		return
	}
	c.mov(arm.R0, in.K)
	c.cpu.mod(c, arm.R0)
}

func divX(c *Compiler, _ bpf.Instruction) {
	c.return0IfNoX()
	c.cpu.div(c, x)
}

func modX(c *Compiler, _ bpf.Instruction) {
	c.return0IfNoX()
	c.cpu.mod(c, x)
}

// return0IfNoX ends the program with 0 when X is 0.
func (c *Compiler) return0IfNoX() {
	c.readX()
	c.Compare(arm.AL, arm.Cmp, x, arm.Imm(0))
	c.return0(arm.EQ)
}

func lshK(c *Compiler, in bpf.Instruction) { c.shiftK(arm.LSL, in.K) }

func rshK(c *Compiler, in bpf.Instruction) {
	if in.K != 0 { // the encoding of 0 means 32
		c.shiftK(arm.LSR, in.K)
	}
}

func (c *Compiler) shiftK(by arm.Shift, k uint32) {
	if k > 31 {
		c.Decline(ReasonShift)
		return
	}
	c.Mov(arm.AL, a, arm.Shifted(a, by, uint8(k)))
}

// shiftX takes the count as the processor does: X mod 256, and 32 or more
// leaves nothing.
func shiftX(by arm.Shift) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.readX()
		c.Mov(arm.AL, a, arm.ShiftedBy(a, by, x))
	}
}

func neg(c *Compiler, _ bpf.Instruction) { c.Alu(arm.AL, arm.Rsb, a, a, arm.Imm(0)) }

func tax(c *Compiler, _ bpf.Instruction) {
	c.need(seenX)
	c.Mov(arm.AL, x, arm.R(a))
}

func txa(c *Compiler, _ bpf.Instruction) {
	c.readX()
	c.Mov(arm.AL, a, arm.R(x))
}
