package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/kernelabi"
)

func ldImm(c *Compiler, in bpf.Instruction) { c.mov(a, in.K) }

func ldxImm(c *Compiler, in bpf.Instruction) {
	c.need(seenX)
	c.mov(x, in.K)
}

// cells is where cell puts M[].
var cells = kernelabi.Cells{Register: "sp", Stride: 4}

// A cellRule says where M[k] is.
type cellRule func(k uint32) arm.Mem

// cell is M[k] in the frame.
func cell(k uint32) arm.Mem { return arm.At(arm.SP, int32(4*k)) }

func ldMem(cell cellRule) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(1 << in.K)
		c.Ldr(arm.AL, a, cell(in.K))
	}
}

func ldxMem(cell cellRule) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(1<<in.K | seenX)
		c.Ldr(arm.AL, x, cell(in.K))
	}
}

func st(cell cellRule) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(1 << in.K)
		c.Str(arm.AL, a, cell(in.K))
	}
}

func stx(cell cellRule) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.readX()
		c.need(1 << in.K)
		c.Str(arm.AL, x, cell(in.K))
	}
}

func ldLen(c *Compiler, _ bpf.Instruction) {
	c.need(seenSkb)
	c.Ldr(arm.AL, a, c.skb(jit.Len))
}

func ldxLen(c *Compiler, _ bpf.Instruction) {
	c.need(seenSkb | seenX)
	c.Ldr(arm.AL, x, c.skb(jit.Len))
}

// size is a width of packet loads.
type size uint8

const (
	word size = iota
	half
	byte1
)

// loads is, by size, how many bytes a load reads and who does it when they are
// not all in the linear part.
var loads = [...]struct {
	bytes  uint32
	helper symbol
}{
	word:  {4, symLoadWord},
	half:  {2, symLoadHalf},
	byte1: {1, symLoadByte},
}

// A rangeCheck compares the offset in r1 and returns the condition under which
// a load of the size is in the linear part. It may use r0.
type rangeCheck func(c *Compiler, s size) arm.Cond

// inLinear finds that out for every offset there is, except that it sends a
// byte at offset 0 to the helper.
func inLinear(c *Compiler, s size) arm.Cond {
	cond := inLinearIfPositive(c, s)
	c.Compare(cond, arm.Cmp, arm.R1, arm.Imm(0))
	return cond
}

// inLinearIfPositive is for offsets from 0 on; for bytes it is for all.
func inLinearIfPositive(c *Compiler, s size) arm.Cond { return c.compareEnd(s, arm.GE) }

// inLinearUnsigned takes offsets for unsigned, and headlen - size as well, even
// where that is below 0.
func inLinearUnsigned(c *Compiler, s size) arm.Cond { return c.compareEnd(s, arm.HS) }

// compareEnd compares the offset with the last one inside. The condition is for
// halfwords and words.
func (c *Compiler) compareEnd(s size, cond arm.Cond) arm.Cond {
	if s == byte1 {
		c.Compare(arm.AL, arm.Cmp, headlen, arm.R(arm.R1))
		return arm.HI
	}
	c.Alu(arm.AL, arm.Sub, arm.R0, headlen, arm.Imm(loads[s].bytes))
	c.Compare(arm.AL, arm.Cmp, arm.R0, arm.R(arm.R1))
	return cond
}

func loadAbs(s size, inside rangeCheck) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.mov(arm.R1, in.K)
		c.load(s, inside)
	}
}

func loadInd(s size, inside rangeCheck) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.readX()
		c.offsetFromX(in.K)
		c.load(s, inside)
	}
}

// offsetFromX puts X + k, cut to 32 bits, into the load's offset.
func (c *Compiler) offsetFromX(k uint32) {
	c.Alu(arm.AL, arm.Add, arm.R1, x, c.operand(k))
}

// load loads from the offset in r1: in place if it is in the linear part, else
// by the helper.
func (c *Compiler) load(s size, inside rangeCheck) {
	c.need(seenData)
	cond := inside(c, s)
	c.Alu(cond, arm.Add, arm.R0, arm.R1, arm.R(data))
	switch s {
	case word:
		c.cpu.word(c, cond)
	case half:
		c.cpu.half(c, cond)
	default:
		c.Ldrb(cond, a, arm.At(arm.R0, 0))
	}
	c.branch(cond, c.PC+1)
	c.loadByHelper(s)
}

// loadByHelper ends the program with 0 when the helper fails.
func (c *Compiler) loadByHelper(s size) {
	c.need(seenSkb)
	c.target(loads[s].helper)
	c.Mov(arm.AL, arm.R0, arm.R(skb))
	c.callTarget()
	c.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
	c.return0(arm.NE)
	c.Mov(arm.AL, a, arm.R(arm.R0))
}

// unlessNegative declines programs that hold the instruction with k < 0.
func unlessNegative(r rule) rule {
	return func(c *Compiler, in bpf.Instruction) {
		if int32(in.K) < 0 {
			c.Decline(ReasonNegative)
			return
		}
		r(c, in)
	}
}

// loadMsh has the range check of an unsigned byte offset, which is right for
// negative ones too.
func loadMsh(c *Compiler, in bpf.Instruction) {
	const tail = 2 * 4 // bytes from where fast and slow path meet
	c.need(seenX | seenData)
	c.mov(arm.R1, in.K)
	c.Compare(arm.AL, arm.Cmp, headlen, arm.R(arm.R1))
	c.Ldrb(arm.HI, arm.R0, arm.Indexed(data, arm.R1))
	c.branchBefore(arm.HI, c.PC+1, tail)
	c.Mov(arm.AL, arm.R0, arm.R(skb))
	c.call(symLoadByte)
	c.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
	c.return0(arm.NE)
	c.Alu(arm.AL, arm.And, x, arm.R0, arm.Imm(15))
	c.Mov(arm.AL, x, arm.Shifted(x, arm.LSL, 2))
}
