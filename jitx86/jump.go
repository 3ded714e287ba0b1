package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

const (
	shortJump = 2 // bytes of jmp rel8 and jcc rel8
	nearJump  = 5 // bytes of jmp rel32
)

func isImm8(d int) bool { return d == int(int8(d)) }

// jmp jumps over d bytes; over none, it is nothing.
func (c *Compiler) jmp(d int) {
	switch {
	case d == 0:
	case isImm8(d):
		c.JmpShort(int8(d))
	default:
		c.JmpNear(int32(d))
	}
}

// jcc jumps over d bytes on a condition.
func (c *Compiler) jcc(cc x86.Cond, d int) {
	if isImm8(d) {
		c.JccShort(cc, int8(d))
	} else {
		c.JccNear(cc, int32(d))
	}
}

// distance returns the bytes from the end of this instruction to the start of
// the one n further on.
func (c *Compiler) distance(n uint32) int { return c.addrs[c.PC+int(n)] - c.end() }

func ja(c *Compiler, in bpf.Instruction) { c.jmp(c.distance(in.K)) }

// A skipRule says how many bytes the jump to jf, f bytes away, is thought to
// take when the jump to jt in front of it has to skip it.
type skipRule func(f int) int

// exactSkip is what jmp emits.
func exactSkip(f int) int {
	switch {
	case f == 0:
		return 0
	case isImm8(f):
		return shortJump
	}
	return nearJump
}

// A compareRule emits the comparison of a conditional jump.
type compareRule func(c *Compiler, k uint32)

// condJumps are the conditional jumps.
var condJumps = map[uint16]struct {
	compare compareRule
	cc      x86.Cond
}{
	bpf.JeqK: {cmpKOrTest, x86.CondE}, bpf.JeqX: {cmpX, x86.CondE},
	bpf.JgtK: {cmpK, x86.CondA}, bpf.JgtX: {cmpX, x86.CondA},
	bpf.JgeK: {cmpK, x86.CondAE}, bpf.JgeX: {cmpX, x86.CondAE},
	bpf.JsetK: {testK, x86.CondNE}, bpf.JsetX: {testX, x86.CondNE},
}

// condJump is a conditional jump that is still to be told how it skips.
func condJump(compare compareRule, cc x86.Cond) func(skipRule) rule {
	return func(skip skipRule) rule {
		return func(c *Compiler, in bpf.Instruction) {
			t, f := c.distance(uint32(in.JT)), c.distance(uint32(in.JF))
			if in.JT == in.JF {
				c.jmp(t)
				return
			}
			compare(c, in.K)
			if in.JT == 0 {
				c.jcc(cc.Not(), f)
				return
			}
			if in.JF != 0 {
				t += skip(f)
			}
			c.jcc(cc, t)
			if in.JF != 0 {
				c.jmp(f)
			}
		}
	}
}

func cmpX(c *Compiler, _ uint32) {
	c.need(seenX)
	c.Alu(x86.Cmp, x86.W32, x86.R(x86.AX), x86.BX)
}

func testX(c *Compiler, _ uint32) {
	c.need(seenX)
	c.Test(x86.W32, x86.R(x86.AX), x86.BX)
}

func cmpK(c *Compiler, k uint32) {
	if k <= 127 {
		c.AluImm8(x86.Cmp, x86.W32, x86.R(x86.AX), int8(k))
	} else {
		c.AluAcc(x86.Cmp, x86.W32, int32(k))
	}
}

func cmpKOrTest(c *Compiler, k uint32) {
	if k == 0 {
		c.Test(x86.W32, x86.R(x86.AX), x86.AX)
	} else {
		cmpK(c, k)
	}
}

// testK tests al, ah or ax when k has bits in no other byte.
func testK(c *Compiler, k uint32) {
	switch {
	case k <= 0xff:
		c.TestAcc(x86.W8, int32(k))
	case k&0xffff00ff == 0:
		c.TestImm(x86.W8, x86.R(x86.AH), int32(k>>8))
	case k <= 0xffff:
		c.TestAcc(x86.W16, int32(k))
	default:
		c.TestAcc(x86.W32, int32(k))
	}
}
