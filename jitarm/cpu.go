package jitarm

import (
	"math/bits"
	"slices"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// model is a kind of processor that code is made for.
type model uint8

const (
	v5       model = iota // ARMv5TE
	v7                    // ARMv7 without a divide instruction
	v7Divide              // ARMv7 with one
	numModels
)

// modelOf returns the model of a profile; ok is false if it is no ARM.
func modelOf(p *kernelabi.Profile) (m model, ok bool) {
	switch {
	case p.Arch == kernelabi.ARMv5:
		return v5, true
	case p.Arch == kernelabi.ARMv7 && p.Features.Idiva:
		return v7Divide, true
	}
	return v7, p.Arch == kernelabi.ARMv7
}

// cpu is how a model does what not all of them can do alike.
type cpu struct {
	constant func(c *Compiler, rd arm.Reg, v uint32) // loads what no immediate holds
	poolless bool                                    // it can do without the literal pool
	word     func(c *Compiler, cond arm.Cond)        // A = the word at [r0], from network order
	half     func(c *Compiler, cond arm.Cond)        // A = the halfword at [r0], likewise
	swap16   func(c *Compiler)                       // A = the halfword in r0, likewise
	div, mod func(c *Compiler, by arm.Reg)           // A = A / by, A % by
}

// cpus are the models as Linux 4.5 treats them.
func cpus() [numModels]cpu {
	return [numModels]cpu{
		v5: {
			constant: fromPool,
			word:     wordByBytes, half: halfByBytes, swap16: swap16ByShifts,
			div: callDivide(symUdiv, byFirst), mod: callDivide(symMod, byFirst),
		},
		v7: {
			constant: byHalves,
			word:     wordByRev, half: halfByRev, swap16: swap16ByRev,
			div: callDivide(symUdiv, byFirst), mod: callDivide(symMod, byFirst),
		},
		v7Divide: {
			constant: byHalves,
			word:     wordByRev, half: halfByRev, swap16: swap16ByRev,
			div: udiv, mod: umod,
		},
	}
}

// mov is rd = v in the shortest way.
func (c *Compiler) mov(rd arm.Reg, v uint32) {
	if op, ok := arm.ImmOp2(v); ok {
		c.Mov(arm.AL, rd, op)
		return
	}
	c.cpu.constant(c, rd, v)
}

// operand returns v as an operand, which is r0 if no immediate holds it.
func (c *Compiler) operand(v uint32) arm.Op2 {
	op, ok := arm.ImmOp2(v)
	if !ok {
		c.cpu.constant(c, arm.R0, v)
		return arm.R(arm.R0)
	}
	return op
}

// byHalves takes one instruction for 16 bits and two for more.
func byHalves(c *Compiler, rd arm.Reg, v uint32) {
	c.Movw(arm.AL, rd, uint16(v))
	if v > 0xffff {
		c.Movt(arm.AL, rd, uint16(v>>16))
	}
}

// fromPool loads from the literal pool behind the code.
func fromPool(c *Compiler, rd arm.Reg, v uint32) {
	disp := c.literal(v)
	if disp > maxOffset {
		disp = 0
		if c.cpu.poolless && !c.poolless {
			c.tooFar = true
		} else {
			c.Decline(ReasonPool)
		}
	}
	c.Ldr(arm.AL, rd, arm.At(arm.PC, int32(disp)))
}

// literal returns how far the pool's word with the value v is ahead of the
// program counter, for a load that is the next instruction. The first pass only
// counts.
func (c *Compiler) literal(v uint32) int {
	if !c.writing {
		c.literals++
		return 0
	}
	slot := slices.Index(c.pool, v)
	if slot < 0 {
		slot = len(c.pool)
		c.pool = append(c.pool, v)
	}
	return c.poolAt + 4*slot - (len(c.Buf) + pcAhead)
}

// fromPoolOrInPlace takes one instruction for what an immediate holds the
// complement of, and the pool unless that is too far for some constant of the
// program.
func fromPoolOrInPlace(c *Compiler, rd arm.Reg, v uint32) {
	if c.poolless || immediates(^v) <= 1 {
		inPlace(c, rd, v)
		return
	}
	fromPool(c, rd, v)
}

// inPlace builds a constant of immediates, at most four: those of the value or
// of its complement, whichever needs less. It needs no pool and so always works.
func inPlace(c *Compiler, rd arm.Reg, v uint32) {
	if immediates(^v) < immediates(v) {
		first, rest := nextImmediate(^v)
		c.Mvn(arm.AL, rd, arm.Imm(first))
		for rest != 0 {
			first, rest = nextImmediate(rest)
			c.Alu(arm.AL, arm.Bic, rd, rd, arm.Imm(first))
		}
		return
	}
	first, rest := nextImmediate(v)
	c.Mov(arm.AL, rd, arm.Imm(first))
	for rest != 0 {
		first, rest = nextImmediate(rest)
		c.Alu(arm.AL, arm.Orr, rd, rd, arm.Imm(first))
	}
}

// nextImmediate splits off the lowest bits of v that one immediate holds.
func nextImmediate(v uint32) (first, rest uint32) {
	low := bits.TrailingZeros32(v) &^ 1
	first = v & (0xff << low)
	return first, v &^ first
}

// immediates returns how many immediates v is split into.
func immediates(v uint32) (n int) {
	for v != 0 {
		_, v = nextImmediate(v)
		n++
	}
	return n
}

// wordByRev and halfByRev load in one go, wherever the bytes are: the kernel
// allows unaligned loads on these processors.
func wordByRev(c *Compiler, cond arm.Cond) {
	c.Ldr(cond, a, arm.At(arm.R0, 0))
	c.Rev(cond, a, a)
}

func halfByRev(c *Compiler, cond arm.Cond) {
	c.Ldrh(cond, a, arm.At(arm.R0, 0))
	c.Rev16(cond, a, a)
}

func wordByBytes(c *Compiler, cond arm.Cond) {
	c.Ldrb(cond, arm.R3, arm.At(arm.R0, 1))
	c.Ldrb(cond, arm.R1, arm.At(arm.R0, 0))
	c.Ldrb(cond, arm.R2, arm.At(arm.R0, 3))
	c.Mov(cond, arm.R3, arm.Shifted(arm.R3, arm.LSL, 16))
	c.Ldrb(cond, arm.R0, arm.At(arm.R0, 2))
	c.Alu(cond, arm.Orr, arm.R3, arm.R3, arm.Shifted(arm.R1, arm.LSL, 24))
	c.Alu(cond, arm.Orr, arm.R3, arm.R3, arm.R(arm.R2))
	c.Alu(cond, arm.Orr, a, arm.R3, arm.Shifted(arm.R0, arm.LSL, 8))
}

func halfByBytes(c *Compiler, cond arm.Cond) {
	c.Ldrb(cond, arm.R1, arm.At(arm.R0, 0))
	c.Ldrb(cond, arm.R2, arm.At(arm.R0, 1))
	c.Alu(cond, arm.Orr, a, arm.R2, arm.Shifted(arm.R1, arm.LSL, 8))
}

func swap16ByRev(c *Compiler) { c.Rev16(arm.AL, a, arm.R0) }

func swap16ByShifts(c *Compiler) {
	c.Mov(arm.AL, arm.R1, arm.Shifted(arm.R0, arm.LSL, 8))
	c.Alu(arm.AL, arm.Orr, a, arm.R1, arm.Shifted(arm.R0, arm.LSR, 8))
	c.Alu(arm.AL, arm.Bic, a, a, arm.Imm(0xff0000))
}

func udiv(c *Compiler, by arm.Reg) { c.Udiv(arm.AL, a, a, by) }

func umod(c *Compiler, by arm.Reg) {
	c.Udiv(arm.AL, arm.R3, a, by)
	c.Mls(arm.AL, a, by, arm.R3, a)
}

// An argRule moves dividend and divisor to where the helper takes them.
type argRule func(c *Compiler, by arm.Reg)

// byFirst moves the divisor first, which may be in r0.
func byFirst(c *Compiler, by arm.Reg) {
	c.Mov(arm.AL, arm.R1, arm.R(by))
	c.Mov(arm.AL, arm.R0, arm.R(a))
}

// dividendFirst overwrites a divisor in r0.
func dividendFirst(c *Compiler, by arm.Reg) {
	c.Mov(arm.AL, arm.R0, arm.R(a))
	c.Mov(arm.AL, arm.R1, arm.R(by))
}

// callDivide leaves a division to a helper.
func callDivide(s symbol, args argRule) func(c *Compiler, by arm.Reg) {
	return func(c *Compiler, by arm.Reg) {
		args(c, by)
		c.call(s)
		c.Mov(arm.AL, a, arm.R(arm.R0))
	}
}
