package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

var jumpTraps = []trap{
	{"jgt-signed", "JGT compares signed numbers", []string{"jgt-k", "jgt-x"},
		jumps(map[uint16]func(skipRule) rule{bpf.JgtK: condJump(cmpK, x86.CondG), bpf.JgtX: condJump(cmpX, x86.CondG)})},
	{"jge-signed", "JGE compares signed numbers", []string{"jge-k", "jge-x"},
		jumps(map[uint16]func(skipRule) rule{bpf.JgeK: condJump(cmpK, x86.CondGE), bpf.JgeX: condJump(cmpX, x86.CondGE)})},
	{"jgt-equal", "JGT jumps where A is equal, too", []string{"jgt-k", "jgt-x"},
		jumps(map[uint16]func(skipRule) rule{bpf.JgtK: condJump(cmpK, x86.CondAE), bpf.JgtX: condJump(cmpX, x86.CondAE)})},
	{"jge-above", "JGE does not jump where A is equal", []string{"jge-k", "jge-x"},
		jumps(map[uint16]func(skipRule) rule{bpf.JgeK: condJump(cmpK, x86.CondA), bpf.JgeX: condJump(cmpX, x86.CondA)})},
	{"jset-signed", "JSET does not see bit 31", []string{"jset-k", "jset-x"},
		jumps(map[uint16]func(skipRule) rule{bpf.JsetK: condJump(testK, x86.CondG), bpf.JsetX: condJump(testX, x86.CondG)})},
	{"jgt-x-swapped", "JGT X and JGE X compare X with A", []string{"jgt-x", "jge-x"},
		jumps(map[uint16]func(skipRule) rule{bpf.JgtX: condJump(cmpXSwapped, x86.CondA), bpf.JgeX: condJump(cmpXSwapped, x86.CondAE)})},
	{"cmp-imm8-unsigned", "comparisons with 80 to ff (hex) are with a negative number", []string{"jeq-k", "jgt-k", "jge-k"},
		jumps(map[uint16]func(skipRule) rule{
			bpf.JeqK: condJump(cmpKUnsigned, x86.CondE), bpf.JgtK: condJump(cmpKUnsigned, x86.CondA), bpf.JgeK: condJump(cmpKUnsigned, x86.CondAE),
		})},
	{"jeq-0-byte", "JEQ with 0 looks at the low byte only", []string{"jeq-k"},
		jumps(map[uint16]func(skipRule) rule{bpf.JeqK: condJump(cmpKOrTestByte, x86.CondE)})},
	{"jset-wrong-byte", "JSET of bits 8 to 15 tests the low byte", []string{"jset-k"},
		jumps(map[uint16]func(skipRule) rule{bpf.JsetK: condJump(testKThroughAL, x86.CondNE)})},
	{"jset-imm16", "JSET of a constant of 16 bits tests its low byte", []string{"jset-k"},
		jumps(map[uint16]func(skipRule) rule{bpf.JsetK: condJump(testKCut, x86.CondNE)})},
	{"cmp-x-unmarked", "a comparison as the only use of X is with what the caller had in rbx",
		[]string{"jeq-x", "jgt-x", "jge-x", "jset-x", "entry-x"},
		jumps(map[uint16]func(skipRule) rule{
			bpf.JeqX: condJump(cmpXUnmarked, x86.CondE), bpf.JgtX: condJump(cmpXUnmarked, x86.CondA), bpf.JgeX: condJump(cmpXUnmarked, x86.CondAE),
		})},
	{"jcc-skip-short", "the jump to jt takes that to jf for a short one", allJumps[1:],
		func(t *table) { t.replaceJumps(func(int) int { return shortJump }) }},
	{"jcc-skip-empty", "the jump to jt skips one to jf that is not there", allJumps[1:],
		func(t *table) { t.replaceJumps(skipNonEmpty) }},
	{"rel8-128", "a jump over 128 bytes is taken for a short one", allJumps, jumpsReach(-128, 128)},
	{"rel8-unsigned", "a jump over 128 to 255 bytes is taken for a short one", allJumps, jumpsReach(-128, 255)},
}

func cmpXSwapped(c *Compiler, _ uint32) {
	c.need(seenX)
	c.Alu(x86.Cmp, x86.W32, x86.R(x86.BX), x86.AX)
}

func cmpXUnmarked(c *Compiler, _ uint32) { c.Alu(x86.Cmp, x86.W32, x86.R(x86.AX), x86.BX) }

func cmpKUnsigned(c *Compiler, k uint32) {
	if k <= 0xff {
		c.AluImm8(x86.Cmp, x86.W32, x86.R(x86.AX), int8(k))
	} else {
		c.AluAcc(x86.Cmp, x86.W32, int32(k))
	}
}

func cmpKOrTestByte(c *Compiler, k uint32) {
	if k == 0 {
		c.Test(x86.W8, x86.R(x86.AX), x86.AX)
	} else {
		cmpK(c, k)
	}
}

func testKThroughAL(c *Compiler, k uint32) {
	if k > 0xff && k&0xffff00ff == 0 {
		c.TestAcc(x86.W8, int32(k>>8))
	} else {
		testK(c, k)
	}
}

func testKCut(c *Compiler, k uint32) {
	if k > 0xff && k <= 0xffff && k&0xff != 0 {
		c.TestAcc(x86.W8, int32(k))
	} else {
		testK(c, k)
	}
}

// skipNonEmpty is exactSkip for jumps that do jump.
func skipNonEmpty(f int) int {
	if f == 0 {
		return shortJump
	}
	return exactSkip(f)
}

// jumpsReach lets short jumps of conditional jumps and of JA reach from lo to hi.
func jumpsReach(lo, hi int) func(*table) {
	short := func(d int) bool { return d >= lo && d <= hi }
	return func(t *table) {
		t.Codes[bpf.Ja].Emit = func(c *Compiler, in bpf.Instruction) {
			if d := c.distance(in.K); d != 0 && short(d) {
				c.JmpShort(int8(d))
			} else {
				c.jmp(d)
			}
		}
		for code, j := range condJumps {
			right := t.Codes[code].Emit
			t.Codes[code].Emit = func(c *Compiler, in bpf.Instruction) {
				f := c.distance(uint32(in.JF))
				if in.JT != 0 || in.JF == 0 || !short(f) {
					right(c, in)
					return
				}
				j.compare(c, in.K)
				c.JccShort(j.cc.Not(), int8(f))
			}
		}
	}
}
