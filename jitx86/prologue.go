package jitx86

import (
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

// frameSize is the number of bytes below rbp: saved rbx, the helpers' scratch
// word, M[], and the rest that keeps the stack aligned.
const frameSize = 96

// frame are the parameters of prologue and epilogue.
type frame struct {
	size int8 // bytes below rbp

	// What a program may need for the prologue to save rbx and to clear it as X,
	// and for the epilogue to restore it.
	saveX, clearX, restoreX seen
}

// kernelFrame is that of all kernels. The helpers' error exit restores rbx, so
// whoever may call one saves it; but nobody has to restore what did not change.
var kernelFrame = frame{size: frameSize, saveX: seenX | seenData, clearX: seenX, restoreX: seenX}

// savedX is where the caller's rbx is kept.
var savedX = x86.At8(x86.BP, -8)

// prologue makes the frame and fills the registers that the program needs.
func (c *Compiler) prologue() {
	frame := c.snapshot
	if c.framed(frame) {
		c.pushFrame()
		if frame&c.rules.frame.saveX != 0 {
			c.Mov(x86.W64, savedX, x86.BX)
		}
	}
	if frame&c.rules.frame.clearX != 0 {
		c.clearX()
	}
	if frame&seenData != 0 {
		c.Load(x86.W32, x86.R9, c.skb(jit.Len))
		c.AluLoad(x86.Sub, x86.W32, x86.R9, c.skb(jit.DataLen))
		c.Load(x86.W64, x86.R8, c.skb(jit.Data))
	}
	// Nothing may leak what A held before.
	if !c.rules.Lookup(c.Prog[0], c.Kind).SetsA {
		c.clearA()
	}
}

func (c *Compiler) pushFrame() {
	c.Push(x86.BP)
	c.Mov(x86.W64, x86.R(x86.BP), x86.SP)
	c.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), c.rules.frame.size)
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
