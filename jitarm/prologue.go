package jitarm

import (
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// frame are the parameters of prologue and epilogue.
type frame struct {
	// readX notes that the program reads X, with seenReadX if the prologue has to
	// clear it.
	readX func(*Compiler)

	// words is how many words M[] takes, by the cells that the program needs.
	words func(seen) int

	// align keeps the stack aligned to 8 bytes at calls, as the procedure call
	// standard asks.
	align bool
}

// saved returns the registers that the prologue pushes.
func (c *Compiler) saved() (set arm.RegSet) {
	if len(c.Prog) > 1 || c.Prog[0].Code == bpf.RetA {
		set |= arm.Regs(a)
	}
	if c.Profile.Features.FramePointer {
		set |= arm.Regs(arm.FP, arm.IP, arm.LR, arm.PC)
	} else if c.seen&seenCall != 0 {
		set |= arm.Regs(arm.LR)
	}
	if c.seen&(seenData|seenSkb) != 0 {
		set |= arm.Regs(skb)
	}
	if c.seen&seenData != 0 {
		set |= arm.Regs(data, headlen)
	}
	if c.seen&seenX != 0 {
		set |= arm.Regs(x)
	}
	if words := set.Len() + c.cells(); c.rules.frame.align && c.seen&seenCall != 0 && words%2 != 0 {
		set |= arm.Regs(arm.R3) // nobody's
	}
	return set
}

// cells returns the number of words that M[] takes in the frame.
func (c *Compiler) cells() int { return c.rules.frame.words(c.seen & seenMem) }

// upToHighest makes room for all cells up to the last one that is needed.
func upToHighest(cells seen) int { return bits.Len32(uint32(cells)) }

// prologue makes the frame and fills the registers that the program needs.
func (c *Compiler) prologue() {
	c.PC = 0
	if set := c.saved(); c.Profile.Features.FramePointer {
		c.Mov(arm.AL, arm.IP, arm.R(arm.SP))
		c.Push(set)
		c.Alu(arm.AL, arm.Sub, arm.FP, arm.IP, arm.Imm(4))
	} else if set != 0 {
		c.Push(set)
	}
	if c.seen&(seenData|seenSkb) != 0 {
		c.Mov(arm.AL, skb, arm.R(arm.R0))
	}
	if c.seen&seenData != 0 {
		c.Ldr(arm.AL, data, c.skb(jit.Data))
		c.Ldr(arm.AL, headlen, c.skb(jit.Len))
		c.Ldr(arm.AL, arm.R0, c.skb(jit.DataLen))
		c.Alu(arm.AL, arm.Sub, headlen, headlen, arm.R(arm.R0))
	}
	if c.seen&seenReadX != 0 {
		c.mov(x, 0)
	}
	// Nothing may leak what A held before.
	if !c.rules.Lookup(c.Prog[0], c.Kind).SetsA {
		c.mov(a, 0)
	}
	if n := c.cells(); n > 0 {
		c.Alu(arm.AL, arm.Sub, arm.SP, arm.SP, arm.Imm(uint32(4*n)))
	}
}

// epilogue undoes the frame and returns.
func (c *Compiler) epilogue() {
	if n := c.cells(); n > 0 {
		c.Alu(arm.AL, arm.Add, arm.SP, arm.SP, arm.Imm(uint32(4*n)))
	}
	set := c.saved()
	if c.Profile.Features.FramePointer {
		// Where ip was saved is the caller's sp, and where lr was, the pc.
		set = set&^arm.Regs(arm.LR, arm.IP) | arm.Regs(arm.SP)
		c.Ldm(arm.AL, arm.SP, set)
		return
	}
	if c.seen&seenCall != 0 {
		set = set&^arm.Regs(arm.LR) | arm.Regs(arm.PC)
	}
	if set != 0 {
		c.Pop(set)
	}
	if c.seen&seenCall == 0 {
		c.Bx(arm.AL, arm.LR)
	}
}
