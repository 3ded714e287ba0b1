package seccompdata

import (
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// Knob is net.core.bpf_jit_enable.
type Knob uint8

const (
	KnobInterpreter Knob = iota // 0: filters are interpreted
	KnobJIT                     // 1: filters are compiled
	KnobJITAndLog               // 2: and the image is written to the kernel log
)

// Code is a filter as machine code.
type Code interface {
	// Run executes it on a system call and returns the value, and how many
	// machine instructions that took. An error is a fault of the code.
	Run(call *Data) (ret uint32, instructions uint64, err error)
	// Dump is the image as the kernel logs it: "flen=... JIT code: ...".
	Dump() string
}

// Compiler makes code of filters: the JIT of a kernel. The error for a filter
// that the JIT declines is a *DeclinedError; any other is a fault of the
// compiler.
type Compiler interface {
	Compile(f *Filter) (Code, error)
}

// DeclinedError is a filter that a JIT does not compile.
type DeclinedError struct{ Reason string }

func (e *DeclinedError) Error() string { return "the JIT declines the filter: " + e.Reason }

// Host is a kernel as far as attaching goes.
type Host struct {
	Kernel Kernel
	Rules  bpf.Rules // the checker
	Knob   Knob
	JIT    Compiler // nil: there is no JIT, and the knob says nothing

	// AlwaysOn: the kernel has no interpreter (CONFIG_BPF_JIT_ALWAYS_ON). A
	// filter that the JIT declines is refused with ENOTSUPP, which other kernels
	// interpret, and the knob counts as set.
	AlwaysOn bool

	Log func(text string) // where dumps go with KnobJITAndLog; nil: nowhere
}

// prepare checks and compiles a program, as a kernel does before it looks at the
// filters that are there. Errors: an *AttachError, or what the compiler fails
// with.
func (h *Host) prepare(name string, prog bpf.Program) (Attached, error) {
	f, err := NewFilterUnder(name, prog, h.Rules)
	if err != nil {
		refusal := &AttachError{Errno: EINVAL, Reason: err.Error()}
		errors.As(err, &refusal.Check)
		return Attached{}, refusal
	}
	a := Attached{Filter: f}
	if h.JIT == nil || h.Knob == KnobInterpreter && !h.AlwaysOn {
		return a, nil
	}
	a.Code, err = h.JIT.Compile(f)
	var declined *DeclinedError
	switch {
	case errors.As(err, &declined) && h.AlwaysOn:
		return Attached{}, &AttachError{Errno: ENOTSUP, Reason: declined.Error() + ", and there is no interpreter"}
	case errors.As(err, &declined):
		return Attached{Filter: f}, nil
	case err != nil:
		return Attached{}, fmt.Errorf("compiling %s: %w", name, err)
	}
	if h.Knob == KnobJITAndLog && h.Log != nil {
		h.Log(a.Code.Dump())
	}
	return a, nil
}

// RunCode asks all filters as they are in place: those that were compiled by
// their machine code, the others by the interpreter. Of verdicts of code PC is
// -1, and Executed counts machine instructions. An error is a fault of the code.
func (c Chain) RunCode(call *Data, k Kernel) (Decision, error) {
	return c.ask(call, k, func(a *Attached) (Verdict, error) { return a.run(call) })
}

// run asks one filter as it is in place.
func (a *Attached) run(call *Data) (Verdict, error) {
	if a.Code == nil {
		return a.Filter.Run(call), nil
	}
	ret, n, err := a.Code.Run(call)
	return Verdict{Ret: ret, PC: -1, Executed: int(n)}, err
}
