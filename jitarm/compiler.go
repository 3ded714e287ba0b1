package jitarm

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler compiles one program after another with an emitter and reuses its
// buffers, so that it does not allocate once they have grown. It belongs to
// one goroutine.
type Compiler struct {
	arm.Buf // the code of this pass so far
	jit.Job

	emitter *Emitter
	rules   *table
	cpu     *cpu

	offsets  []int    // start of each instruction and end of the last, from the end of the prologue
	seen     seen     // what the program needs as far as known
	ret0     int      // the first RET #0, or -1
	body     int      // where the prologue ends
	writing  bool     // this pass is the image
	literals int      // uses of the literal pool that the first pass counted
	pool     []uint32 // its words so far
	tooFar   bool     // the pool is too far away, and the emitter can do without
	poolless bool     // constants are built in place for that reason
	poolAt   int      // its offset in the image
	held     []held   // by instruction, if the rules follow X

	pcmap []int
}

// Compile is [Emitter.Compile]. The image, its code and its maps live in the
// compiler's buffers: they are valid until the next call.
func (c *Compiler) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	m, ok := modelOf(p)
	if !ok {
		return nil, fmt.Errorf("profile %s is for %s: emitter %s makes code for %s and %s",
			p.Name, p.Arch, c.emitter.Name, kernelabi.ARMv5, kernelabi.ARMv7)
	}
	if err := c.Start(prog, kind, p); err != nil {
		return nil, err
	}
	if kind == bpf.Seccomp && c.rules.Seccomp == nil {
		return nil, &kernelabi.Refusal{PC: -1, Reason: jit.ReasonNoSeccomp}
	}
	c.cpu = &c.rules.cpus[m]
	return c.compile()
}

// finish makes the image of the code that the second pass wrote.
func (c *Compiler) finish() *kernelabi.Image {
	c.pcmap = c.pcmap[:0]
	for _, off := range c.offsets {
		c.pcmap = append(c.pcmap, c.body+off)
	}
	image := c.Image(c.Buf, 2)
	image.PCMap, image.Cells = c.pcmap, &cells
	return image
}

// need notes that the program needs parts of the frame.
func (c *Compiler) need(parts seen) { c.seen |= parts }

// readX notes that the instruction reads X.
func (c *Compiler) readX() { c.rules.frame.readX(c) }

// readXByText takes X for written if something in front in the text writes it,
// whatever ways there are through the program.
func readXByText(c *Compiler) {
	if c.seen&seenX == 0 {
		c.need(seenX | seenReadX)
	}
}
