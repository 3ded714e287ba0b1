package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

// a and x are the registers as operands.
var (
	a = x86.R(x86.AX)
	x = x86.R(x86.BX)
)

// imm8 reports whether k is a sign-extended byte.
func imm8(k uint32) bool { return x86.Imm8(int32(k)) }

// aluK is A op= k with the shorter of the two immediates.
func (c *Compiler) aluK(op x86.Alu, k uint32) {
	if imm8(k) {
		c.AluImm8(op, x86.W32, a, int8(k))
	} else {
		c.AluAcc(op, x86.W32, int32(k))
	}
}

// aluKUnless0 leaves out what does nothing.
func (c *Compiler) aluKUnless0(op x86.Alu, k uint32) {
	if k != 0 {
		c.aluK(op, k)
	}
}

// aluX is A op= X.
func (c *Compiler) aluX(op x86.Alu) {
	c.need(seenX)
	c.Alu(op, x86.W32, a, x86.BX)
}

func addK(c *Compiler, in bpf.Instruction) { c.aluKUnless0(x86.Add, in.K) }
func subK(c *Compiler, in bpf.Instruction) { c.aluKUnless0(x86.Sub, in.K) }
func xorK(c *Compiler, in bpf.Instruction) { c.aluKUnless0(x86.Xor, in.K) }
func orK(c *Compiler, in bpf.Instruction)  { c.aluK(x86.Or, in.K) }

func addX(c *Compiler, _ bpf.Instruction) { c.aluX(x86.Add) }
func subX(c *Compiler, _ bpf.Instruction) { c.aluX(x86.Sub) }
func xorX(c *Compiler, _ bpf.Instruction) { c.aluX(x86.Xor) }
func orX(c *Compiler, _ bpf.Instruction)  { c.aluX(x86.Or) }
func andX(c *Compiler, _ bpf.Instruction) { c.aluX(x86.And) }

// andK clears bits of al or ax alone when k keeps all others.
func andK(c *Compiler, in bpf.Instruction) {
	switch {
	case in.K >= 0xffffff00:
		c.AluAcc(x86.And, x86.W8, int32(in.K))
	case in.K >= 0xffff0000:
		c.AluAcc(x86.And, x86.W16, int32(in.K))
	default:
		c.AluAcc(x86.And, x86.W32, int32(in.K))
	}
}

func mulK(c *Compiler, in bpf.Instruction) {
	if imm8(in.K) {
		c.ImulImm8(x86.W32, x86.AX, a, int8(in.K))
	} else {
		c.ImulImm(x86.W32, x86.AX, a, int32(in.K))
	}
}

func mulX(c *Compiler, _ bpf.Instruction) {
	c.need(seenX)
	c.Imul(x86.W32, x86.AX, x)
}

// The processor divides edx:eax and leaves the remainder in edx.

func (c *Compiler) clearUpper()        { c.Alu(x86.Xor, x86.W32, x86.R(x86.DX), x86.DX) }
func (c *Compiler) divideBy(r x86.Reg) { c.Unary(x86.Div, x86.W32, x86.R(r)) }
func (c *Compiler) takeRemainder()     { c.Mov(x86.W32, a, x86.DX) }

func divK(c *Compiler, in bpf.Instruction) {
	if in.K == 1 {
		return
	}
	c.clearUpper()
	c.MovImm32(x86.CX, in.K)
	c.divideBy(x86.CX)
}

func modK(c *Compiler, in bpf.Instruction) {
	if in.K == 1 {
		c.clearA()
		return
	}
	divK(c, in)
	c.takeRemainder()
}

// divX and modX end the program with 0 when X is 0, at a RET #0 if there is a
// suitable one.
func divX(target ret0Target) rule {
	const tail = 4 // bytes behind the jump: xor edx, edx; div ebx
	return func(c *Compiler, _ bpf.Instruction) {
		c.return0IfNoX(target, tail)
		c.clearUpper()
		c.divideBy(x86.BX)
	}
}

func modX(target ret0Target) rule {
	const tail = 6 // the same and mov eax, edx
	return func(c *Compiler, _ bpf.Instruction) {
		c.return0IfNoX(target, tail)
		c.clearUpper()
		c.divideBy(x86.BX)
		c.takeRemainder()
	}
}

// return0IfNoX leaves with 0 when X is 0; tail bytes of the instruction follow.
func (c *Compiler) return0IfNoX(target ret0Target, tail int) {
	c.need(seenX)
	c.Test(x86.W32, x, x86.BX)
	from := c.end() - tail
	if addr, ok := target(c); ok {
		c.jcc(x86.CondE, addr-from)
		return
	}
	const skipped = 2 + nearJump // xor eax, eax; jmp
	c.JccShort(x86.CondNE, skipped)
	c.clearA()
	c.JmpNear(int32(c.cleanup - from))
}

// shiftK uses the form without a count for 1. The count is cut to a byte and
// taken mod 32 by the processor.
func (c *Compiler) shiftK(op x86.Shift, k uint32) {
	switch k {
	case 0:
	case 1:
		c.Shift1(op, x86.W32, a)
	default:
		c.ShiftImm(op, x86.W32, a, uint8(k))
	}
}

func (c *Compiler) shiftX(op x86.Shift) {
	c.need(seenX)
	c.Mov(x86.W32, x86.R(x86.CX), x86.BX)
	c.ShiftCL(op, x86.W32, a)
}

func lshK(c *Compiler, in bpf.Instruction) { c.shiftK(x86.Shl, in.K) }
func rshK(c *Compiler, in bpf.Instruction) { c.shiftK(x86.Shr, in.K) }
func lshX(c *Compiler, _ bpf.Instruction)  { c.shiftX(x86.Shl) }
func rshX(c *Compiler, _ bpf.Instruction)  { c.shiftX(x86.Shr) }

func neg(c *Compiler, _ bpf.Instruction) { c.Unary(x86.Neg, x86.W32, a) }

func tax(c *Compiler, _ bpf.Instruction) {
	c.need(seenX)
	c.Mov(x86.W32, x, x86.AX)
}

func txa(c *Compiler, _ bpf.Instruction) {
	c.need(seenX)
	c.Mov(x86.W32, a, x86.BX)
}
