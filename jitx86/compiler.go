package jitx86

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler compiles one program after another with an emitter and reuses its
// buffers, so that it does not allocate once they have grown. It belongs to
// one goroutine.
type Compiler struct {
	x86.Buf // the code of this pass so far
	jit.Job // Err is this pass's

	emitter *Emitter
	rules   *table

	addrs    []int // end of each instruction; ahead of pc that of the pass before
	cleanup  int   // where the epilogue begins, as of the pass before
	seen     seen  // what the program needs as far as known
	snapshot seen  // what the prologue of this pass is made for
	ret0     int   // the first RET #0 that was emitted in any pass, or -1
	body     int   // where the prologue ends
	writing  bool  // sizes agree: this pass is the image

	pcmap []int
}

// Compile is [Emitter.Compile]. The image, its code and its maps live in the
// compiler's buffers: they are valid until the next call.
func (c *Compiler) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	if p.Arch != kernelabi.X86_64 {
		return nil, fmt.Errorf("profile %s is for %s: emitter %s makes code for %s",
			p.Name, p.Arch, c.emitter.Name, kernelabi.X86_64)
	}
	if err := c.Start(prog, kind, p); err != nil {
		return nil, err
	}
	if kind == bpf.Seccomp && c.rules.Seccomp == nil {
		return nil, &kernelabi.Refusal{PC: -1, Reason: jit.ReasonNoSeccomp}
	}
	if cap(c.addrs) < len(prog) {
		c.addrs = make([]int, len(prog))
		c.pcmap = make([]int, len(prog)+1)
	}
	c.addrs = c.addrs[:len(prog)]
	c.seen, c.ret0, c.writing = 0, -1, false
	return c.converge()
}

// finish makes the image of the code that the last pass wrote.
func (c *Compiler) finish(pass, planned int) *kernelabi.Image {
	c.pcmap = append(c.pcmap[:0], c.body)
	c.pcmap = append(c.pcmap, c.addrs...)
	image := c.Image(c.Buf, pass)
	image.PCMap, image.Cells = c.pcmap, &cells
	if len(c.Buf) != planned {
		image.Notes = []string{fmt.Sprintf("size mismatch: %d bytes planned, %d written", planned, len(c.Buf))}
	}
	return image
}

// unfilled makes the image that was allocated when the passes ran out. Its
// code is breakpoints, which is what Linux 3.14 left there; other kernels left
// whatever the memory held.
func (c *Compiler) unfilled(planned int) *kernelabi.Image {
	c.Buf = c.Buf[:0]
	for range planned {
		c.Bare(x86.Int3)
	}
	image := c.Image(c.Buf, maxPasses)
	image.Unfilled = true
	return image
}

// need notes that the program needs parts of the frame.
func (c *Compiler) need(parts seen) { c.seen |= parts }

// end returns where the instruction being emitted ends, as of the pass before.
func (c *Compiler) end() int { return c.addrs[c.PC] }
