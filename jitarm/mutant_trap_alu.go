package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

var aluTraps = []trap{
	{"add-complement", "ADD of a small negative constant subtracts its complement", []string{"add-k"},
		replaced(map[uint16]rule{bpf.AddK: addComplement})},
	{"sub-x-swapped", "SUB X is X - A", []string{"sub-x"}, replaced(map[uint16]rule{bpf.SubX: aluX(arm.Rsb)})},
	{"neg-not", "NEG inverts the bits and does not add 1", []string{"neg"},
		replaced(map[uint16]rule{bpf.Neg: func(c *Compiler, _ bpf.Instruction) { c.Mvn(arm.AL, a, arm.R(a)) }})},
	{"and-k-bic", "AND with a constant whose complement is an immediate keeps bits that it should clear", []string{"and-k"},
		replaced(map[uint16]rule{bpf.AndK: andKByBic})},
	{"rsh-k-arithmetic", "RSH K copies the sign", []string{"rsh-k"},
		replaced(map[uint16]rule{bpf.RshK: func(c *Compiler, in bpf.Instruction) {
			if k := in.K % 32; k != 0 {
				c.shiftK(arm.ASR, k)
			}
		}})},
	{"rsh-x-arithmetic", "RSH X copies the sign", []string{"rsh-x"}, replaced(map[uint16]rule{bpf.RshX: shiftXMod32(arm.ASR)})},
	{"mod-k-1", "MOD by 1 leaves A", []string{"mod-k"},
		replaced(map[uint16]rule{bpf.ModK: func(c *Compiler, in bpf.Instruction) {
			if in.K != 1 {
				modK(c, in)
			}
		}})},
	{"div-x-unchecked", "DIV X and MOD X do not look whether X is 0", []string{"div-x", "mod-x"},
		replaced(map[uint16]rule{bpf.DivX: divXBy(nil, func(c *Compiler) { c.cpu.div(c, x) }), bpf.ModX: divXBy(nil, func(c *Compiler) { c.cpu.mod(c, x) })})},
	{"div-x-return-size", "the return of DIV X by 0 has one instruction where the first pass counted two", []string{"div-x"},
		replaced(map[uint16]rule{bpf.DivX: divXBy(shrunkReturn0, func(c *Compiler) { c.cpu.div(c, x) })})},
	{"div-x-behind-ret0", "DIV X by 0 continues behind the first RET #0", []string{"div-x", "mod-x"},
		replaced(map[uint16]rule{
			bpf.DivX: divXBy(return0Behind, func(c *Compiler) { c.cpu.div(c, x) }), bpf.ModX: divXBy(return0Behind, func(c *Compiler) { c.cpu.mod(c, x) }),
		})},
	{"tax-unmarked", "TAX as the only use of X does not restore r5", []string{"tax"},
		replaced(map[uint16]rule{bpf.Tax: func(c *Compiler, _ bpf.Instruction) { c.Mov(arm.AL, x, arm.R(a)) }})},
}

// addComplement takes ^k for -k where that is an immediate.
func addComplement(c *Compiler, in bpf.Instruction) {
	if op, ok := arm.ImmOp2(^in.K); ok && int32(in.K) < 0 {
		c.Alu(arm.AL, arm.Sub, a, a, op)
		return
	}
	aluK(arm.Add)(c, in)
}

// andKByBic takes -k for ^k.
func andKByBic(c *Compiler, in bpf.Instruction) {
	if op, ok := arm.ImmOp2(-in.K); ok && int32(in.K) < 0 {
		c.Alu(arm.AL, arm.Bic, a, a, op)
		return
	}
	aluK(arm.And)(c, in)
}

// divXBy is divX with another return for X = 0.
func divXBy(return0 func(c *Compiler, cond arm.Cond), divide func(c *Compiler)) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.readX()
		if return0 != nil {
			c.Compare(arm.AL, arm.Cmp, x, arm.Imm(0))
			return0(c, arm.EQ)
		}
		divide(c)
	}
}

// shrunkReturn0 leaves out the instruction that does nothing. Whether there is a
// RET #0 is not known when the first pass comes to a division in front of it.
func shrunkReturn0(c *Compiler, cond arm.Cond) {
	if c.ret0 >= 0 {
		c.branch(cond, c.ret0)
		return
	}
	c.return0(cond)
}

func return0Behind(c *Compiler, cond arm.Cond) {
	if c.ret0 >= 0 {
		c.branch(cond, c.ret0+1)
		c.Nop()
		return
	}
	c.return0(cond)
}
