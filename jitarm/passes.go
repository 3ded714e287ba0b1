package jitarm

import (
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/kernelabi"
)

// The reasons of refusals that no rule's absence gives.
const (
	ReasonNoSeccomp = jit.ReasonNoSeccomp
	ReasonPool      = "the literal pool is more than 4 KiB away"
	ReasonShift     = "shift by more than 31"
	ReasonNegative  = jit.ReasonNegative
)

// compile emits the program, and once more without a literal pool if that is too
// far away and not needed.
func (c *Compiler) compile() (*kernelabi.Image, error) {
	c.poolless, c.tooFar = false, false
	image, err := c.twoPasses()
	if c.tooFar && c.Refusal == nil {
		c.poolless = true
		image, err = c.twoPasses()
	}
	return image, err
}

// twoPasses emits the body once to learn where instructions start and what the
// frame needs, and then everything. Both passes choose the same forms, so sizes
// agree.
func (c *Compiler) twoPasses() (*kernelabi.Image, error) {
	if n := len(c.Prog) + 1; cap(c.offsets) < n {
		c.offsets = make([]int, n)
		c.pcmap = make([]int, 0, n)
	}
	c.offsets = c.offsets[:len(c.Prog)+1]
	clear(c.offsets)
	c.seen, c.ret0, c.literals, c.body, c.writing = 0, -1, 0, 0, false
	c.Buf = c.Buf[:0]
	if c.rules.flow {
		c.startFlow()
	}
	if err := c.instructions(); err != nil {
		return nil, err
	}
	end := len(c.Buf)

	c.Buf = c.Buf[:0]
	c.prologue()
	c.body = len(c.Buf)
	c.epilogue()
	c.pool, c.poolAt = c.pool[:0], len(c.Buf)+end

	c.writing = true
	c.Buf = c.Buf[:c.body]
	if err := c.instructions(); err != nil {
		return nil, err
	}
	c.epilogue()
	c.literalPool()
	return c.finish(), nil
}

// instructions emits the body of the program.
func (c *Compiler) instructions() error {
	for i, in := range c.Prog {
		c.PC = i
		c.offsets[i] = len(c.Buf) - c.body
		if emit := c.rules.Lookup(in, c.Kind).Emit; emit != nil {
			emit(c, in)
		} else {
			c.DeclineUnknown(in)
		}
		if c.Refusal != nil {
			return c.Refusal
		}
		if c.rules.flow && !c.writing {
			c.follow(in)
		}
	}
	c.offsets[len(c.Prog)] = len(c.Buf) - c.body
	return c.Err
}

// literalPool writes the pool. It has a word for every use; as equal constants
// share one, words at the end stay zero.
func (c *Compiler) literalPool() {
	for _, v := range c.pool {
		c.Word(v)
	}
	for range c.literals - len(c.pool) {
		c.Word(0)
	}
}
