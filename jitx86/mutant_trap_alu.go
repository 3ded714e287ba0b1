package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

var aluTraps = []trap{
	{"alu-imm8-unsigned", "constants from 80 to ff (hex) are sign-extended from a byte", []string{"add-k", "sub-k", "or-k", "xor-k"},
		replaced(map[uint16]rule{
			bpf.AddK: aluKUnsigned(x86.Add), bpf.SubK: aluKUnsigned(x86.Sub),
			bpf.OrK: aluKUnsigned(x86.Or), bpf.XorK: aluKUnsigned(x86.Xor),
		})},
	{"add-imm8-zero", "ADD of a negative byte adds 80 to ff (hex)", []string{"add-k"},
		replaced(map[uint16]rule{bpf.AddK: func(c *Compiler, in bpf.Instruction) {
			if int32(in.K) < 0 && imm8(in.K) {
				in.K &= 0xff
			}
			c.aluKUnless0(x86.Add, in.K)
		}})},
	{"mul-imm8-unsigned", "MUL by 80 to ff (hex) multiplies by a negative number", []string{"mul-k"},
		replaced(map[uint16]rule{bpf.MulK: mulKUnsigned})},
	{"add-imm16", "ADD of a constant of 16 bits keeps the carry out of the upper half", []string{"add-k"},
		replaced(map[uint16]rule{bpf.AddK: addKWrap16})},
	{"and-low-byte", "AND with a constant below 100 (hex) keeps the upper bytes of A", []string{"and-k"},
		replaced(map[uint16]rule{bpf.AndK: andKLowByte})},
	{"and-byte-form", "AND with ffff0000 to fffffeff (hex) clears bits of the low byte only", []string{"and-k"},
		replaced(map[uint16]rule{bpf.AndK: andKByteForm})},
	{"sub-x-swapped", "SUB X is X - A", []string{"sub-x"},
		replaced(map[uint16]rule{bpf.SubX: subXSwapped})},
	{"neg-not", "NEG inverts the bits and does not add 1", []string{"neg"},
		replaced(map[uint16]rule{bpf.Neg: func(c *Compiler, _ bpf.Instruction) { c.Unary(x86.Not, x86.W32, a) }})},
	{"rsh-k-arithmetic", "RSH K copies the sign", []string{"rsh-k"},
		replaced(map[uint16]rule{bpf.RshK: func(c *Compiler, in bpf.Instruction) { c.shiftK(x86.Sar, in.K) }})},
	{"rsh-x-arithmetic", "RSH X copies the sign", []string{"rsh-x"},
		replaced(map[uint16]rule{bpf.RshX: func(c *Compiler, _ bpf.Instruction) { c.shiftX(x86.Sar) }})},
	{"shift-x-unmarked", "a shift as the only use of X takes what the caller had in rbx", []string{"lsh-x", "rsh-x", "entry-x"},
		replaced(map[uint16]rule{bpf.LshX: shiftXUnmarked(x86.Shl), bpf.RshX: shiftXUnmarked(x86.Shr)})},
	{"div-stale-edx", "divisions take what an earlier one left in edx", []string{"div-k", "div-x", "mod-k", "mod-x"},
		replaced(map[uint16]rule{
			bpf.DivK: divideK(nil, x86.Div, false), bpf.ModK: divideK(nil, x86.Div, true),
			bpf.DivX: divideX(nil, x86.Div, 2, false), bpf.ModX: divideX(nil, x86.Div, 4, true),
		})},
	{"div-k-sign-extended", "DIV K and MOD K of A >= 80000000 (hex) overflow", []string{"div-k", "mod-k"},
		replaced(map[uint16]rule{
			bpf.DivK: divideK(signExtend, x86.Div, false), bpf.ModK: divideK(signExtend, x86.Div, true),
		})},
	{"div-signed", "divisions take A and the divisor for signed", []string{"div-k", "div-x", "mod-k", "mod-x"},
		replaced(map[uint16]rule{
			bpf.DivK: divideK(signExtend, x86.Idiv, false), bpf.ModK: divideK(signExtend, x86.Idiv, true),
			bpf.DivX: divideX(signExtend, x86.Idiv, 3, false), bpf.ModX: divideX(signExtend, x86.Idiv, 5, true),
		})},
	{"mod-k-1", "MOD by 1 leaves A", []string{"mod-k"},
		replaced(map[uint16]rule{bpf.ModK: func(c *Compiler, in bpf.Instruction) {
			if in.K != 1 {
				modK(c, in)
			}
		}})},
	{"mod-x-tail", "MOD X by 0 jumps 2 bytes too far", []string{"mod-x"},
		replaced(map[uint16]rule{bpf.ModX: divideX((*Compiler).clearUpper, x86.Div, 4, true)})},
	{"div-x-unchecked", "DIV X and MOD X do not look whether X is 0", []string{"div-x", "mod-x"},
		replaced(map[uint16]rule{bpf.DivX: divideXUnchecked(false), bpf.ModX: divideXUnchecked(true)})},
}

// aluKUnsigned takes constants up to ff for bytes.
func aluKUnsigned(op x86.Alu) rule {
	return func(c *Compiler, in bpf.Instruction) {
		if in.K <= 0xff {
			c.AluImm8(op, x86.W32, a, int8(in.K))
		} else {
			c.AluAcc(op, x86.W32, int32(in.K))
		}
	}
}

func mulKUnsigned(c *Compiler, in bpf.Instruction) {
	if in.K <= 0xff {
		c.ImulImm8(x86.W32, x86.AX, a, int8(in.K))
	} else {
		c.ImulImm(x86.W32, x86.AX, a, int32(in.K))
	}
}

// addKWrap16 has a shorter form that works as long as nothing is carried.
func addKWrap16(c *Compiler, in bpf.Instruction) {
	if in.K > 127 && in.K <= 0xffff {
		c.AluAcc(x86.Add, x86.W16, int32(in.K))
	} else {
		addK(c, in)
	}
}

// andKLowByte takes the form for the low byte where k has bits in no other, and
// not where it has all of the others.
func andKLowByte(c *Compiler, in bpf.Instruction) {
	if in.K <= 0xff {
		c.AluAcc(x86.And, x86.W8, int32(in.K))
	} else {
		andK(c, in)
	}
}

func andKByteForm(c *Compiler, in bpf.Instruction) {
	if in.K >= 0xffff0000 {
		c.AluAcc(x86.And, x86.W8, int32(in.K))
	} else {
		andK(c, in)
	}
}

func subXSwapped(c *Compiler, _ bpf.Instruction) {
	c.need(seenX)
	c.Unary(x86.Neg, x86.W32, a)
	c.Alu(x86.Add, x86.W32, a, x86.BX)
}

func shiftXUnmarked(op x86.Shift) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.Mov(x86.W32, x86.R(x86.CX), x86.BX)
		c.ShiftCL(op, x86.W32, a)
	}
}

// signExtend fills edx with the sign of eax.
func signExtend(c *Compiler) { c.Bare(x86.Cdq) }

// divideK is divK and modK with something else in edx, or another division.
func divideK(upper func(*Compiler), div x86.Unary, remainder bool) rule {
	return func(c *Compiler, in bpf.Instruction) {
		if in.K == 1 {
			if remainder {
				c.clearA()
			}
			return
		}
		c.divide(upper, func() { c.MovImm32(x86.CX, in.K) }, div, x86.CX, remainder)
	}
}

// divideX is divX and modX likewise; tail bytes of the instruction follow the
// jump, as it believes.
func divideX(upper func(*Compiler), div x86.Unary, tail int, remainder bool) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.return0IfNoX(ret0Start, tail)
		c.divide(upper, nil, div, x86.BX, remainder)
	}
}

func divideXUnchecked(remainder bool) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.need(seenX)
		c.divide((*Compiler).clearUpper, nil, x86.Div, x86.BX, remainder)
	}
}

func (c *Compiler) divide(upper func(*Compiler), load func(), div x86.Unary, by x86.Reg, remainder bool) {
	if upper != nil {
		upper(c)
	}
	if load != nil {
		load()
	}
	c.Unary(div, x86.W32, x86.R(by))
	if remainder {
		c.takeRemainder()
	}
}
