package jitx86

import (
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/kernelabi"
)

// maxPasses is how often sizes may change before the JIT gives up.
const maxPasses = 10

// The reasons of refusals that no single instruction gives.
const (
	ReasonNoSeccomp     = jit.ReasonNoSeccomp
	ReasonNegative      = jit.ReasonNegative
	ReasonFatal         = "fatal error" // the code grew while the image was written
	ReasonNoConvergence = "no convergence in 10 passes"
)

// passes are the parameters of the pass loop.
type passes struct {
	// firstFrame is the frame of pass 0, when nothing has been seen yet. With
	// less than the full frame, code may grow from pass 0 to pass 1.
	firstFrame seen

	// liveFrame: returns look at what has been seen up to there in this pass,
	// not at what the prologue was made for.
	liveFrame bool

	// extraPass: sizes that agree first in the last pass still get the pass
	// that writes the image. Without it the image stays unwritten.
	extraPass bool

	// frameless is what a program may need and still have no frame, because
	// the rules that want one make it for themselves.
	frameless seen
}

// converge emits the program until two passes have the same size and once more
// into an image of that size. The state between passes is the end of each
// instruction, the epilogue's place, what has been seen and the first RET #0;
// in every pass, places ahead are those of the pass before.
func (c *Compiler) converge() (*kernelabi.Image, error) {
	for i := range c.addrs {
		c.addrs[i] = 64 * (i + 1)
	}
	c.cleanup = 64 * len(c.addrs)
	planned := 0 // size of the pass before
	for pass := 0; pass < maxPasses || c.writing && c.rules.passes.extraPass; pass++ {
		c.snapshot = c.seen
		if pass == 0 {
			c.snapshot = c.rules.passes.firstFrame
		}
		if err := c.pass(planned); err != nil {
			return nil, err
		}
		total := len(c.Buf)
		if c.writing {
			return c.finish(pass, planned), nil
		}
		c.writing = total == planned
		planned = total
	}
	if c.writing {
		return c.unfilled(planned), nil
	}
	return nil, c.orError(&kernelabi.Refusal{PC: -1, Reason: ReasonNoConvergence})
}

// pass emits the whole program once.
func (c *Compiler) pass(planned int) error {
	c.Buf = c.Buf[:0]
	c.Err = nil // what the passes before needed may not be in the image
	c.PC = 0
	c.prologue()
	c.body = len(c.Buf)
	for i, in := range c.Prog {
		c.PC = i
		if emit := c.rules.Lookup(in, c.Kind).Emit; emit != nil {
			emit(c, in)
		} else {
			c.DeclineUnknown(in)
		}
		if c.Refusal != nil {
			return c.Refusal
		}
		if c.writing && len(c.Buf) > planned {
			return c.orError(&kernelabi.Refusal{PC: i, Reason: ReasonFatal})
		}
		c.addrs[i] = len(c.Buf)
	}
	if c.writing && c.Err != nil {
		return c.Err
	}
	frame := c.frame()
	c.cleanup = len(c.Buf) - len("\xc3")
	if c.framed(frame) {
		c.cleanup -= len("\xc9")
	}
	if frame&c.rules.frame.restoreX != 0 {
		c.cleanup -= len("\x48\x8b\x5d\xf8")
	}
	return nil
}

// orError is the refusal, unless the sizes that led to it are those of a
// profile that lacks something.
func (c *Compiler) orError(refusal *kernelabi.Refusal) error {
	if c.Err != nil {
		return c.Err
	}
	return refusal
}
