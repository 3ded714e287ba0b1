package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

var loadTraps = []trap{
	{"byte-end", "a byte is loaded from behind the linear part", []string{"ldb-abs", "ldb-ind"}, loadsIf(func(c *Compiler, s size) arm.Cond {
		cond := inLinear(c, s)
		if s == byte1 {
			c.Compare(arm.AL, arm.Cmp, headlen, arm.R(arm.R1))
			return arm.HS
		}
		return cond
	})},
	{"word-end", "words and halfwords may end a byte behind the linear part", []string{"ld-abs", "ld-ind", "ldh-abs", "ldh-ind"},
		loadsIf(func(c *Compiler, s size) arm.Cond {
			if s == byte1 {
				return inLinear(c, s)
			}
			c.Alu(arm.AL, arm.Sub, arm.R0, headlen, arm.Imm(loads[s].bytes-1))
			c.Compare(arm.AL, arm.Cmp, arm.R0, arm.R(arm.R1))
			c.Compare(arm.GE, arm.Cmp, arm.R1, arm.Imm(0))
			return arm.GE
		})},
	{"bounds-len", "loads are bounded by the length of the packet, not of its linear part", allLoads[:6],
		loadsIf(func(c *Compiler, s size) arm.Cond {
			c.need(seenSkb)
			c.Ldr(arm.AL, headlen, c.skb(jit.Len))
			return inLinear(c, s)
		})},
	{"slow-path-offset", "the offset is lost on the way to the helper", allLoads[:6], loadsIf(func(c *Compiler, s size) arm.Cond {
		cond := inLinear(c, s)
		c.Mov(cond.Not(), arm.R1, arm.R(arm.R0))
		return cond
	})},
	{"slow-path-goes-on", "a load that fails gives 0, and the program goes on", []string{"ld-abs", "ldh-abs", "ldb-abs"}, replaced(map[uint16]rule{
		bpf.LdWAbs: loadGoesOn(word), bpf.LdHAbs: loadGoesOn(half), bpf.LdBAbs: loadGoesOn(byte1),
	})},
	{"msh-branch", "the fast path of LDX MSH skips the mask", []string{"ldx-msh"}, replaced(map[uint16]rule{bpf.LdxMsh: mshRule{tail: 4}.emit})},
	{"msh-loses-a", "the fast path of LDX MSH goes through A", []string{"ldx-msh"}, replaced(map[uint16]rule{bpf.LdxMsh: mshRule{tail: 8, through: a}.emit})},
	{"msh-unmarked", "LDX MSH as the only use of X does not restore r5", []string{"ldx-msh"}, replaced(map[uint16]rule{bpf.LdxMsh: mshRule{tail: 8, unmarked: true}.emit})},
	{"ldx-imm-unmarked", "LDX IMM as the only use of X does not restore r5", []string{"ldx-imm"},
		replaced(map[uint16]rule{bpf.LdxImm: func(c *Compiler, in bpf.Instruction) { c.mov(x, in.K) }})},
	{"cells-bytes", "cells are two bytes apart and overlap", allMem, cellsAt(func(k uint32) arm.Mem { return arm.At(arm.SP, int32(2*k)) })},
	{"cells-8", "M[k] and M[k+8] are one cell", allMem, cellsAt(func(k uint32) arm.Mem { return cell(k & 7) })},
	{"cells-next", "M[k] is where M[k+1] should be, and the last one in what the prologue pushed", allMem, cellsAt(func(k uint32) arm.Mem { return cell(k + 1) })},
	{"len-headlen", "LD LEN is the length of the linear part", []string{"ld-len"},
		replaced(map[uint16]rule{bpf.LdLen: func(c *Compiler, _ bpf.Instruction) {
			c.need(seenData)
			c.Mov(arm.AL, a, arm.R(headlen))
		}})},
	{"seccomp-order", "words of system calls are swapped as those of packets are", []string{"ld-data"}, seccompLoad(func(c *Compiler, in bpf.Instruction) {
		loadData(c, in)
		c.Alu(arm.AL, arm.Eor, arm.R1, a, arm.Shifted(a, arm.ROR, 16))
		c.Alu(arm.AL, arm.Bic, arm.R1, arm.R1, arm.Imm(0xff0000))
		c.Mov(arm.AL, a, arm.Shifted(a, arm.ROR, 8))
		c.Alu(arm.AL, arm.Eor, a, a, arm.Shifted(arm.R1, arm.LSR, 8))
	})},
	{"seccomp-halves", "the halves of arguments are taken for big endian", []string{"ld-data"}, seccompLoad(func(c *Compiler, in bpf.Instruction) {
		if in.K >= 16 {
			in.K ^= 4
		}
		loadData(c, in)
	})},
	{"seccomp-unmarked", "a load from a system call goes by what the caller had in r6", []string{"ld-data"}, seccompLoad(func(c *Compiler, in bpf.Instruction) {
		c.Ldr(arm.AL, a, arm.At(skb, int32(in.K)))
	})},
	{"seccomp-len", "LD LEN of a filter reads the length of a packet that is not there", []string{"ld-len"}, func(t *table) {
		delete(t.Seccomp, bpf.LdLen)
	}},
}

// loadsIf puts another range check into all loads.
func loadsIf(inside rangeCheck) func(*table) {
	return replaced(map[uint16]rule{
		bpf.LdWAbs: loadAbs(word, inside), bpf.LdWInd: loadInd(word, inside),
		bpf.LdHAbs: loadAbs(half, inside), bpf.LdHInd: loadInd(half, inside),
		bpf.LdBAbs: loadAbs(byte1, inside), bpf.LdBInd: loadInd(byte1, inside),
	})
}

// loadGoesOn does not return when the helper fails.
func loadGoesOn(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenSkb)
		c.mov(arm.R1, in.K)
		c.target(loads[s].helper)
		c.Mov(arm.AL, arm.R0, arm.R(skb))
		c.callTarget()
		c.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
		c.Mov(arm.AL, a, arm.R(arm.R0))
		c.Mov(arm.NE, a, arm.Imm(0))
	}
}

// mshRule is loadMsh with faults.
type mshRule struct {
	tail     int     // bytes of the instruction behind where the fast path joins
	through  arm.Reg // what the fast path loads into besides r0, if not r0
	unmarked bool    // it does not count as a use of X
}

func (r mshRule) emit(c *Compiler, in bpf.Instruction) {
	c.need(seenData)
	if !r.unmarked {
		c.need(seenX)
	}
	c.mov(arm.R1, in.K)
	c.Compare(arm.AL, arm.Cmp, headlen, arm.R(arm.R1))
	c.Ldrb(arm.HI, r.through, arm.Indexed(data, arm.R1))
	if r.through != arm.R0 {
		c.Mov(arm.HI, arm.R0, arm.R(r.through))
	}
	c.branchBefore(arm.HI, c.PC+1, r.tail)
	c.Mov(arm.AL, arm.R0, arm.R(skb))
	c.call(symLoadByte)
	c.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
	c.return0(arm.NE)
	c.Alu(arm.AL, arm.And, x, arm.R0, arm.Imm(15))
	c.Mov(arm.AL, x, arm.Shifted(x, arm.LSL, 2))
}

// cellsAt puts M[] elsewhere.
func cellsAt(cell cellRule) func(*table) {
	return replaced(map[uint16]rule{
		bpf.LdMem: ldMem(cell), bpf.LdxMem: ldxMem(cell), bpf.St: st(cell), bpf.Stx: stx(cell),
	})
}

func seccompLoad(load rule) func(*table) {
	return func(t *table) {
		t.Seccomp[bpf.LdWAbs] = entry{Emit: load}
	}
}
