package jitarm

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler compiles one program after another with an emitter and reuses its
// buffers, so that it does not allocate once they have grown. It belongs to
// one goroutine.
type Compiler struct {
	arm.Buf // the code of this pass so far

	emitter *Emitter
	rules   *table
	cpu     *cpu
	profile *kernelabi.Profile
	prog    bpf.Program
	kind    bpf.Kind

	offsets  []int    // start of each instruction and end of the last, from the end of the prologue
	seen     seen     // what the program needs as far as known
	ret0     int      // the first RET #0, or -1
	pc       int      // the instruction being emitted
	body     int      // where the prologue ends
	writing  bool     // this pass is the image
	literals int      // uses of the literal pool that the first pass counted
	pool     []uint32 // its words so far
	poolAt   int      // its offset in the image

	err     error              // the first thing that the profile lacks
	refusal *kernelabi.Refusal // why the kernel would not compile the program

	fields  [numFields]int64  // offsets looked up so far, -1 for those that were not
	symbols [numSymbols]int64 // addresses looked up so far, -1 likewise

	pcmap []int
	image kernelabi.Image
}

// Compile is [Emitter.Compile]. The image, its code and its maps live in the
// compiler's buffers: they are valid until the next call.
func (c *Compiler) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	m, ok := modelOf(p)
	if !ok {
		return nil, fmt.Errorf("profile %s is for %s: emitter %s makes code for %s and %s",
			p.Name, p.Arch, c.emitter.Name, kernelabi.ARMv5, kernelabi.ARMv7)
	}
	if err := wellFormed(prog, kind); err != nil {
		return nil, err
	}
	if kind == bpf.Seccomp && c.rules.seccomp == nil {
		return nil, &kernelabi.Refusal{PC: -1, Reason: ReasonNoSeccomp}
	}
	c.cpu = &c.rules.cpus[m]
	c.profile, c.prog, c.kind = p, prog, kind
	c.err, c.refusal = nil, nil
	for f := range c.fields {
		c.fields[f] = -1
	}
	for s := range c.symbols {
		c.symbols[s] = -1
	}
	return c.twoPasses()
}

// finish makes the image of the code that the second pass wrote.
func (c *Compiler) finish() *kernelabi.Image {
	c.pcmap = c.pcmap[:0]
	for _, off := range c.offsets {
		c.pcmap = append(c.pcmap, c.body+off)
	}
	c.image = kernelabi.Image{
		Code: c.Buf, Base: c.profile.Base, BaseKnown: true, Profile: c.profile,
		Origin: c.emitter.origin, Insns: len(c.prog), Pass: 2, PCMap: c.pcmap,
	}
	return &c.image
}

// wellFormed checks what emission relies on: the length, that jumps, M[]
// indices and offsets in struct seccomp_data stay in range, and that the end
// cannot be passed. The checker asks for more.
func wellFormed(prog bpf.Program, kind bpf.Kind) error {
	if len(prog) == 0 || len(prog) > bpf.MaxInsns {
		return fmt.Errorf("a program of %d instructions cannot be compiled: want 1 to %d", len(prog), bpf.MaxInsns)
	}
	for pc, in := range prog {
		left := uint32(len(prog) - pc - 1) // instructions behind this one
		switch {
		case in.Code == bpf.Ja && in.K >= left,
			bpf.IsCondJump(in.Code) && (uint32(in.JT) >= left || uint32(in.JF) >= left):
			return fmt.Errorf("instruction %d: jumps out of the program", pc)
		case kind == bpf.Seccomp && in.Code == bpf.LdWAbs && in.K >= seccompDataSize:
			return fmt.Errorf("instruction %d: loads at %d, struct seccomp_data has %d bytes", pc, in.K, seccompDataSize)
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
	if c.refusal == nil {
		c.refusal = &kernelabi.Refusal{PC: c.pc, Reason: reason}
	}
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

// readX notes that the instruction reads X. Whether something has written it
// goes by the order of the text, not by the ways through the program.
func (c *Compiler) readX() {
	if c.seen&seenX == 0 {
		c.need(seenX | seenReadX)
	}
}

// fail notes what the profile lacks. Emission goes on: a refusal further on in
// the program would be the kernel's answer whatever the profile said.
func (c *Compiler) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("instruction %d: %w", c.pc, err)
	}
}
