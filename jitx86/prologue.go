package jitx86

import (
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

// frameSize is the number of bytes below rbp: saved rbx, the helpers' scratch
// word, M[], and the rest that keeps the stack aligned.
const frameSize = 96

// savedX is where the caller's rbx is kept.
var savedX = x86.At8(x86.BP, -8)

// prologue makes the frame and fills the registers that the program needs.
func (c *Compiler) prologue() {
	frame := c.snapshot
	if c.framed(frame) {
		c.pushFrame()
		// The helpers' error exit restores rbx, so whoever may call one saves it.
		if frame&(seenX|seenData) != 0 {
			c.Mov(x86.W64, savedX, x86.BX)
		}
	}
	if frame&seenX != 0 {
		c.clearX()
	}
	if frame&seenData != 0 {
		c.Load(x86.W32, x86.R9, c.skb(jit.Len))
		c.AluLoad(x86.Sub, x86.W32, x86.R9, c.skb(jit.DataLen))
		c.Load(x86.W64, x86.R8, c.skb(jit.Data))
	}
	// Nothing may leak what A held before.
	if !c.rules.lookup(c.Prog[0], c.Kind).SetsA {
		c.clearA()
	}
}

func (c *Compiler) pushFrame() {
	c.Push(x86.BP)
	c.Mov(x86.W64, x86.R(x86.BP), x86.SP)
	c.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), frameSize)
}

// framed reports whether a program with these needs has a frame from entry to
// return.
func (c *Compiler) framed(needs seen) bool { return needs&^c.rules.passes.frameless != 0 }

// frame returns what a return has to undo.
func (c *Compiler) frame() seen {
	if c.rules.passes.liveFrame {
		return c.seen
	}
	return c.snapshot
}

func (c *Compiler) clearA() { c.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.AX) }
func (c *Compiler) clearX() { c.Alu(x86.Xor, x86.W32, x86.R(x86.BX), x86.BX) }
