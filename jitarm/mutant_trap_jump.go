package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

var jumpTraps = []trap{
	{"jgt-signed", "JGT compares signed numbers", []string{"jgt-k", "jgt-x"},
		replaced(map[uint16]rule{bpf.JgtK: condJump(cmpK, arm.GT), bpf.JgtX: condJump(cmpX, arm.GT)})},
	{"jge-signed", "JGE compares signed numbers", []string{"jge-k", "jge-x"},
		replaced(map[uint16]rule{bpf.JgeK: condJump(cmpK, arm.GE), bpf.JgeX: condJump(cmpX, arm.GE)})},
	{"jgt-equal", "JGT jumps where A is equal, too", []string{"jgt-k", "jgt-x"},
		replaced(map[uint16]rule{bpf.JgtK: condJump(cmpK, arm.HS), bpf.JgtX: condJump(cmpX, arm.HS)})},
	{"jge-above", "JGE does not jump where A is equal", []string{"jge-k", "jge-x"},
		replaced(map[uint16]rule{bpf.JgeK: condJump(cmpK, arm.HI), bpf.JgeX: condJump(cmpX, arm.HI)})},
	{"jgt-else-below", "JGT jumps to jf only where A is below, and goes on where it is equal", []string{"jgt-k", "jgt-x"},
		replaced(map[uint16]rule{bpf.JgtK: condJumpElse(cmpK, arm.HI, arm.LO), bpf.JgtX: condJumpElse(cmpX, arm.HI, arm.LO)})},
	{"jset-signed", "JSET does not see bit 31", []string{"jset-k", "jset-x"},
		replaced(map[uint16]rule{bpf.JsetK: condJump(tstK, arm.GT), bpf.JsetX: condJump(tstX, arm.GT)})},
	{"jset-carry", "JSET goes by the carry, which comes from how the constant is encoded", []string{"jset-k"},
		replaced(map[uint16]rule{bpf.JsetK: condJump(tstK, arm.HI)})},
	{"jset-all", "JSET jumps only where all bits are set", []string{"jset-k", "jset-x"},
		replaced(map[uint16]rule{bpf.JsetK: condJump(allSetK, arm.EQ), bpf.JsetX: condJump(allSetX, arm.EQ)})},
	{"jgt-x-swapped", "JGT X and JGE X compare X with A", []string{"jgt-x", "jge-x"},
		replaced(map[uint16]rule{bpf.JgtX: condJump(cmpXSwapped, arm.HI), bpf.JgeX: condJump(cmpXSwapped, arm.HS)})},
	{"cmp-x-unmarked", "a comparison as the only use of X is with what the caller had in r5",
		[]string{"jeq-x", "jgt-x", "jge-x", "entry-x"},
		replaced(map[uint16]rule{
			bpf.JeqX: condJump(cmpXUnmarked, arm.EQ), bpf.JgtX: condJump(cmpXUnmarked, arm.HI), bpf.JgeX: condJump(cmpXUnmarked, arm.HS),
		})},
	{"cmp-negative", "a comparison with a small negative constant is by CMN with its complement", []string{"jeq-k", "jgt-k", "jge-k"},
		replaced(map[uint16]rule{
			bpf.JeqK: condJump(cmpKByCmn, arm.EQ), bpf.JgtK: condJump(cmpKByCmn, arm.HI), bpf.JgeK: condJump(cmpKByCmn, arm.HS),
		})},
	{"branch-prologue", "branches of JA do not count the prologue", []string{"ja"},
		replaced(map[uint16]rule{bpf.Ja: func(c *Compiler, in bpf.Instruction) { c.branchBefore(arm.AL, c.PC+1+int(in.K), c.body) }})},
	{"branch-jf", "a conditional jump over one instruction has no branch to jf", allJumps,
		func(t *table) {
			for code, j := range condJumps {
				t.Codes[code].Emit = condJumpOverOne(j.compare, j.cond)
			}
		}},
}

// condJumpOverOne forgets the branch to jf where jt skips one instruction.
func condJumpOverOne(compare compareRule, cond arm.Cond) rule {
	jump := condJump(compare, cond)
	return func(c *Compiler, in bpf.Instruction) {
		if in.JT == 1 {
			in.JF = 0
		}
		jump(c, in)
	}
}

func cmpXSwapped(c *Compiler, _ uint32) {
	c.readX()
	c.Compare(arm.AL, arm.Cmp, x, arm.R(a))
}

func cmpXUnmarked(c *Compiler, _ uint32) { c.Compare(arm.AL, arm.Cmp, a, arm.R(x)) }

// cmpKByCmn adds ^k where it should add -k.
func cmpKByCmn(c *Compiler, k uint32) {
	if op, ok := arm.ImmOp2(^k); ok && int32(k) < 0 {
		c.Compare(arm.AL, arm.Cmn, a, op)
		return
	}
	cmpK(c, k)
}

func allSetK(c *Compiler, k uint32) {
	c.mov(arm.R0, k)
	c.Alu(arm.AL, arm.Bic, arm.R0, arm.R0, arm.R(a))
	c.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
}

func allSetX(c *Compiler, _ uint32) {
	c.readX()
	c.Alu(arm.AL, arm.Bic, arm.R0, x, arm.R(a))
	c.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
}
