// Package seccomp attaches seccomp filters to modelled kernels whose JITs are
// kjit's own: what seccompdata knows of attaching, with machine code that runs in
// the emulator.
package seccomp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// Compiler is the JIT of a profile as a [seccompdata.Compiler]. All code that it
// makes runs in one emulated kernel. It belongs to one goroutine; Close frees
// what it holds.
type Compiler struct{ jit *harness.JIT }

// NewCompiler returns the JIT of a profile, with options for its machine.
func NewCompiler(p *kernelabi.Profile, options ...emulator.Option) (*Compiler, error) {
	jit, err := harness.NewJIT(p, options...)
	if err != nil {
		return nil, err
	}
	return &Compiler{jit}, nil
}

// Close frees the emulated kernel.
func (c *Compiler) Close() error { return c.jit.Close() }

// Profile is the kernel that the code is for.
func (c *Compiler) Profile() *kernelabi.Profile { return c.jit.Profile() }

// Compile makes code of a filter, a *[Code]. The error for a filter that the JIT
// leaves to the interpreter is a *seccompdata.DeclinedError.
func (c *Compiler) Compile(f *seccompdata.Filter) (seccompdata.Code, error) {
	img, err := c.jit.Image(f.Program(), bpf.Seccomp)
	var refusal *kernelabi.Refusal
	if errors.As(err, &refusal) {
		return nil, &seccompdata.DeclinedError{Reason: refusal.Reason}
	} else if err != nil {
		return nil, err
	}
	return &Code{Image: img, jit: c.jit}, nil
}

// Code is a compiled filter.
type Code struct {
	Image *kernelabi.Image
	jit   *harness.JIT
	out   []harness.Outcome
}

// Run executes the code in the emulator. A fault, and any broken promise to the
// caller, is an error.
func (c *Code) Run(call *seccompdata.Data) (ret uint32, instructions uint64, err error) {
	inputs := []kernelabi.Input{&kernelabi.Syscall{Data: *call}}
	if c.out, err = c.jit.RunImage(c.Image, inputs, c.out[:0]); err != nil {
		return 0, 0, err
	}
	if got := c.out[0]; got.Kind != harness.Value || got.Broken != 0 {
		return 0, got.Executed, fmt.Errorf("%s: %s", c.jit.Name(), got)
	}
	return c.out[0].Value, c.out[0].Executed, nil
}

// Dump is the image as the kernel logs it with net.core.bpf_jit_enable = 2.
func (c *Code) Dump() string {
	var b strings.Builder
	listing.KernelLog(&b, c.Image) // writing to b cannot fail
	return b.String()
}
