package jit

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// The reasons of refusals that all architectures have.
const (
	ReasonNoSeccomp = "seccomp filters are left to the interpreter"
	ReasonNegative  = "no rule for loads from negative offsets"
)

// Job is the part of a compiler's state that depends on no architecture: what
// is compiled for which kernel, how far it is, and why it cannot be done. A
// compiler embeds it and reuses it for one program after another.
type Job struct {
	Profile *kernelabi.Profile
	Prog    bpf.Program
	Kind    bpf.Kind
	PC      int // the instruction being emitted

	Err     error              // the first thing that the profile lacks
	Refusal *kernelabi.Refusal // why the kernel would not compile the program

	kernel kernel
	origin string
	image  kernelabi.Image
}

// NewJob returns the state of a compiler whose images have the given origin
// ("jitx86 linux-3.10") and whose code may refer to the given kernel symbols.
func NewJob(origin string, symbols []string) Job {
	return Job{origin: origin, kernel: newKernel(symbols)}
}

// Start begins a compilation. A program that emission cannot rely on is an
// error, which says where it is malformed.
func (j *Job) Start(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) error {
	if err := wellFormed(prog, kind); err != nil {
		return err
	}
	j.Profile, j.Prog, j.Kind, j.PC = p, prog, kind, 0
	j.Err, j.Refusal = nil, nil
	j.kernel.forget()
	return nil
}

// Fail notes what the profile lacks. Emission goes on: a refusal further on in
// the program would be the kernel's answer whatever the profile said.
func (j *Job) Fail(err error) {
	if j.Err == nil {
		j.Err = fmt.Errorf("instruction %d: %w", j.PC, err)
	}
}

// Decline makes the kernel take the program back to its interpreter.
func (j *Job) Decline(reason string) {
	if j.Refusal == nil {
		j.Refusal = &kernelabi.Refusal{PC: j.PC, Reason: reason}
	}
}

// DeclineUnknown declines the program for an instruction that has no rule.
func (j *Job) DeclineUnknown(in bpf.Instruction) { j.Decline("no rule for " + describe(in)) }

// Image returns the image of some code, which the last pass wrote. It and what
// it points to are valid until the next compilation.
func (j *Job) Image(code []byte, pass int) *kernelabi.Image {
	j.image = kernelabi.Image{
		Code: code, Base: j.Profile.Base, BaseKnown: true, Profile: j.Profile,
		Origin: j.origin, Insns: len(j.Prog), Pass: pass,
	}
	return &j.image
}
