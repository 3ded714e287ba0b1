package jitarm

import (
	"slices"

	"github.com/kjit-project/kjit/internal/arm"
)

// cpuTraps are faults of what processors do differently.
var cpuTraps = []trap{
	{"movt-missing", "a constant of 32 bits loses its upper half on ARMv7", nil, onV7(func(t *cpu) {
		t.constant = func(c *Compiler, rd arm.Reg, v uint32) { c.Movw(arm.AL, rd, uint16(v)) }
	})},
	{"movw-skipped", "a constant whose lower half is 0 gets what was in the register on ARMv7", nil, onV7(func(t *cpu) {
		t.constant = func(c *Compiler, rd arm.Reg, v uint32) {
			if uint16(v) != 0 {
				c.Movw(arm.AL, rd, uint16(v))
			}
			if v > 0xffff {
				c.Movt(arm.AL, rd, uint16(v>>16))
			}
		}
	})},
	{"constant-complement", "a constant made of its complement is off by 1 on ARMv5", nil, onV5(func(t *cpu) {
		t.constant = func(c *Compiler, rd arm.Reg, v uint32) {
			if op, ok := arm.ImmOp2(-v); ok {
				c.Mvn(arm.AL, rd, op)
				return
			}
			fromPoolOrInPlace(c, rd, v)
		}
	})},
	{"pool-shared", "constants with the same lower half share a word of the literal pool", nil, onV5(func(t *cpu) {
		t.constant = func(c *Compiler, rd arm.Reg, v uint32) {
			if slot := slices.IndexFunc(c.pool, func(w uint32) bool { return uint16(w) == uint16(v) }); c.writing && slot >= 0 {
				v = c.pool[slot]
			}
			fromPool(c, rd, v)
		}
	})},
	{"word-order-v5", "a word has its middle bytes swapped on ARMv5", []string{"ld-abs", "ld-ind"}, onV5(func(t *cpu) {
		t.word = func(c *Compiler, cond arm.Cond) {
			c.Ldrb(cond, arm.R3, arm.At(arm.R0, 2))
			c.Ldrb(cond, arm.R1, arm.At(arm.R0, 0))
			c.Ldrb(cond, arm.R2, arm.At(arm.R0, 3))
			c.Mov(cond, arm.R3, arm.Shifted(arm.R3, arm.LSL, 16))
			c.Ldrb(cond, arm.R0, arm.At(arm.R0, 1))
			c.Alu(cond, arm.Orr, arm.R3, arm.R3, arm.Shifted(arm.R1, arm.LSL, 24))
			c.Alu(cond, arm.Orr, arm.R3, arm.R3, arm.R(arm.R2))
			c.Alu(cond, arm.Orr, a, arm.R3, arm.Shifted(arm.R0, arm.LSL, 8))
		}
	})},
	{"half-order-v5", "a halfword has its bytes swapped on ARMv5", []string{"ldh-abs", "ldh-ind"}, onV5(func(t *cpu) {
		t.half = func(c *Compiler, cond arm.Cond) {
			c.Ldrb(cond, arm.R1, arm.At(arm.R0, 1))
			c.Ldrb(cond, arm.R2, arm.At(arm.R0, 0))
			c.Alu(cond, arm.Orr, a, arm.R2, arm.Shifted(arm.R1, arm.LSL, 8))
		}
	})},
	{"word-rev-v5", "a word is swapped by an instruction that ARMv5 does not have", []string{"ld-abs", "ld-ind"},
		onV5(func(t *cpu) { t.word = wordByRev })},
	{"word-rev16", "a word has the bytes of each half swapped, and not the halves, on ARMv7", []string{"ld-abs", "ld-ind"}, onV7(func(t *cpu) {
		t.word = func(c *Compiler, cond arm.Cond) {
			c.Ldr(cond, a, arm.At(arm.R0, 0))
			c.Rev16(cond, a, a)
		}
	})},
	{"half-rev", "a halfword comes in the upper half of A on ARMv7", []string{"ldh-abs", "ldh-ind"}, onV7(func(t *cpu) {
		t.half = func(c *Compiler, cond arm.Cond) {
			c.Ldrh(cond, a, arm.At(arm.R0, 0))
			c.Rev(cond, a, a)
		}
	})},
	{"protocol-upper-bits", "the protocol has more than 16 bits on ARMv5", []string{"proto"}, onV5(func(t *cpu) {
		t.swap16 = func(c *Compiler) {
			c.Mov(arm.AL, arm.R1, arm.Shifted(arm.R0, arm.LSL, 8))
			c.Alu(arm.AL, arm.Orr, a, arm.R1, arm.Shifted(arm.R0, arm.LSR, 8))
		}
	})},
	{"div-x-args", "the operands of divisions by X are swapped", []string{"div-x", "mod-x"}, onAll(func(t *cpu) {
		div, mod := t.div, t.mod
		t.div, t.mod = swappedX(symUdiv, div), swappedX(symMod, mod)
	})},
	{"mod-mls", "MOD with the divide instruction subtracts the square of the divisor", []string{"mod-k", "mod-x"}, func(t *table) {
		t.cpus[v7Divide].mod = func(c *Compiler, by arm.Reg) {
			c.Udiv(arm.AL, arm.R3, a, by)
			c.Mls(arm.AL, a, by, by, a)
		}
	}},
	{"div-lr", "lr is not saved when nothing but a division calls a helper", allDivs, onAll(func(t *cpu) {
		t.div, t.mod = unmarkedCall(symUdiv, t.div), unmarkedCall(symMod, t.mod)
	})},
}

func onV5(change func(*cpu)) func(*table) { return func(t *table) { change(&t.cpus[v5]) } }

func onV7(change func(*cpu)) func(*table) {
	return func(t *table) {
		change(&t.cpus[v7])
		change(&t.cpus[v7Divide])
	}
}

func onAll(change func(*cpu)) func(*table) {
	return func(t *table) {
		for m := range t.cpus {
			change(&t.cpus[m])
		}
	}
}

// swappedX gives a helper X as the dividend and A as the divisor.
func swappedX(s symbol, divide func(*Compiler, arm.Reg)) func(*Compiler, arm.Reg) {
	return func(c *Compiler, by arm.Reg) {
		if by != x || c.cpu == &c.rules.cpus[v7Divide] {
			divide(c, by)
			return
		}
		c.Mov(arm.AL, arm.R0, arm.R(by))
		c.Mov(arm.AL, arm.R1, arm.R(a))
		c.call(s)
		c.Mov(arm.AL, a, arm.R(arm.R0))
	}
}

// unmarkedCall calls a helper, and the prologue does not know.
func unmarkedCall(s symbol, divide func(*Compiler, arm.Reg)) func(*Compiler, arm.Reg) {
	return func(c *Compiler, by arm.Reg) {
		if c.cpu == &c.rules.cpus[v7Divide] {
			divide(c, by)
			return
		}
		byFirst(c, by)
		c.target(s)
		c.Blx(arm.AL, arm.R3)
		c.Mov(arm.AL, a, arm.R(arm.R0))
	}
}
