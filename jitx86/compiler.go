package jitx86

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler compiles one program after another with an emitter and reuses its
// buffers, so that it does not allocate once they have grown. It belongs to
// one goroutine.
type Compiler struct {
	x86.Buf // the code of this pass so far

	emitter *Emitter
	rules   *table
	profile *kernelabi.Profile
	prog    bpf.Program

	addrs    []int // end of each instruction; ahead of pc that of the pass before
	cleanup  int   // where the epilogue begins, as of the pass before
	seen     seen  // what the program needs as far as known
	snapshot seen  // what the prologue of this pass is made for
	ret0     int   // the first RET #0 that was emitted in any pass, or -1
	pc       int   // the instruction being emitted
	body     int   // where the prologue ends
	writing  bool  // sizes agree: this pass is the image

	err     error              // the first thing that the profile lacks for this pass
	refusal *kernelabi.Refusal // why the kernel would not compile the program

	fields  [numFields]int64 // offsets looked up so far, -1 for those that were not
	symbols [numSymbols]struct {
		addr  uint64
		known bool
	}

	pcmap []int
	image kernelabi.Image
}

// Compile is [Emitter.Compile]. The image, its code and its maps live in the
// compiler's buffers: they are valid until the next call.
func (c *Compiler) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	if p.Arch != kernelabi.X86_64 {
		return nil, fmt.Errorf("profile %s is for %s: emitter %s makes code for %s",
			p.Name, p.Arch, c.emitter.Name, kernelabi.X86_64)
	}
	if err := wellFormed(prog); err != nil {
		return nil, err
	}
	if kind == bpf.Seccomp {
		return nil, &kernelabi.Refusal{PC: -1, Reason: ReasonNoSeccomp}
	}
	c.profile, c.prog = p, prog
	if cap(c.addrs) < len(prog) {
		c.addrs = make([]int, len(prog))
		c.pcmap = make([]int, len(prog)+1)
	}
	c.addrs = c.addrs[:len(prog)]
	c.seen, c.ret0, c.writing = 0, -1, false
	c.err, c.refusal = nil, nil
	for f := range c.fields {
		c.fields[f] = -1
	}
	clear(c.symbols[:])
	return c.converge()
}

// finish makes the image of the code that the last pass wrote.
func (c *Compiler) finish(pass, planned int) *kernelabi.Image {
	c.pcmap = append(c.pcmap[:0], c.body)
	c.pcmap = append(c.pcmap, c.addrs...)
	c.image = kernelabi.Image{
		Code: c.Buf, Base: c.profile.Base, BaseKnown: true, Profile: c.profile,
		Origin: c.emitter.origin, Insns: len(c.prog), Pass: pass, PCMap: c.pcmap,
	}
	if len(c.Buf) != planned {
		c.image.Notes = []string{fmt.Sprintf("size mismatch: %d bytes planned, %d written", planned, len(c.Buf))}
	}
	return &c.image
}

// unfilled makes the image that was allocated when the passes ran out. Its
// code is breakpoints, which is what Linux 3.14 left there; other kernels left
// whatever the memory held.
func (c *Compiler) unfilled(planned int) *kernelabi.Image {
	c.Buf = c.Buf[:0]
	for range planned {
		c.Bare(x86.Int3)
	}
	c.image = kernelabi.Image{
		Code: c.Buf, Base: c.profile.Base, BaseKnown: true, Profile: c.profile,
		Origin: c.emitter.origin, Insns: len(c.prog), Pass: maxPasses, Unfilled: true,
	}
	return &c.image
}

// wellFormed checks what emission relies on: the length, that jumps and M[]
// indices stay in range, and that the end cannot be passed. The checker asks
// for more.
func wellFormed(prog bpf.Program) error {
	if len(prog) == 0 || len(prog) > bpf.MaxInsns {
		return fmt.Errorf("a program of %d instructions cannot be compiled: want 1 to %d", len(prog), bpf.MaxInsns)
	}
	for pc, in := range prog {
		left := uint32(len(prog) - pc - 1) // instructions behind this one
		switch {
		case in.Code == bpf.Ja && in.K >= left,
			bpf.IsCondJump(in.Code) && (uint32(in.JT) >= left || uint32(in.JF) >= left):
			return fmt.Errorf("instruction %d: jumps out of the program", pc)
		}
		switch in.Code {
		case bpf.LdMem, bpf.LdxMem, bpf.St, bpf.Stx:
			if in.K >= bpf.MemWords {
				return fmt.Errorf("instruction %d: M[%d] does not exist, there are %d", pc, in.K, bpf.MemWords)
			}
		}
	}
	if last := prog[len(prog)-1].Code; last != bpf.RetK && last != bpf.RetA {
		return fmt.Errorf("instruction %d: the last instruction does not return", len(prog)-1)
	}
	return nil
}

// decline makes the kernel take the program back to its interpreter.
func (c *Compiler) decline(reason string) {
	c.refusal = &kernelabi.Refusal{PC: c.pc, Reason: reason}
}

// describe names an instruction that has no rule.
func describe(in bpf.Instruction) string {
	if ext, ok := in.Extension(); ok {
		return ext.String()
	}
	return fmt.Sprintf("opcode %#x", in.Code)
}

// need notes that the program needs parts of the frame.
func (c *Compiler) need(parts seen) { c.seen |= parts }

// end returns where the instruction being emitted ends, as of the pass before.
func (c *Compiler) end() int { return c.addrs[c.pc] }

// fail notes what the profile lacks. Emission goes on: a refusal further on in
// the program would be the kernel's answer whatever the profile said, and what
// the first passes need may not be in the image.
func (c *Compiler) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("instruction %d: %w", c.pc, err)
	}
}
