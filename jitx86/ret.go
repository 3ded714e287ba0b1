package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

func retK(c *Compiler, in bpf.Instruction) {
	if in.K == 0 {
		if c.ret0 < 0 {
			c.ret0 = c.PC
		}
		c.clearA()
	} else {
		c.MovImm32(x86.AX, in.K)
	}
	retA(c, in)
}

// retA leaves. The last return of a program is the epilogue that the others
// jump to; without a frame each return stands alone.
func retA(c *Compiler, _ bpf.Instruction) {
	switch frame := c.frame(); {
	case !c.framed(frame):
		c.Bare(x86.Ret)
	case c.PC < len(c.Prog)-1:
		c.jmp(c.cleanup - c.end())
	default:
		if frame&c.rules.frame.restoreX != 0 {
			c.Load(x86.W64, x86.BX, savedX)
		}
		c.Bare(x86.Leave)
		c.Bare(x86.Ret)
	}
}

// A ret0Target finds code that returns 0 among what the program already has;
// ok is false if it has none.
type ret0Target func(c *Compiler) (addr int, ok bool)

// ret0Start is the first RET #0. One at instruction 0 is not used.
func ret0Start(c *Compiler) (int, bool) {
	if c.ret0 > 0 {
		return c.addrs[c.ret0-1], true
	}
	return 0, false
}

// ret0End is Linux 3.0's: the end of the first RET #0, which is what follows it.
func ret0End(c *Compiler) (int, bool) {
	if c.ret0 >= 0 {
		return c.addrs[c.ret0], true
	}
	return 0, false
}

// noRet0 never finds any.
func noRet0(*Compiler) (int, bool) { return 0, false }
