package harness

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Runner turns a program and inputs into outcomes. A program that it cannot
// take is an outcome too, the same for every input; an error means that the
// runner itself is broken or the caller's request makes no sense.
//
// A runner serves one goroutine. Close frees what it holds.
type Runner interface {
	Name() string

	// Profile is the kernel the runner is, or plays. It tells the reference
	// which checker and which semantics to hold the runner to.
	Profile() *kernelabi.Profile

	// Run appends one outcome per input to out.
	Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error)

	Close() error
}

// Imager is a Runner that executes machine code and can show it.
type Imager interface {
	Runner
	// Image returns the code the runner executes for prog, or a
	// *kernelabi.Refusal or *bpf.CheckError.
	Image(prog bpf.Program, kind bpf.Kind) (*kernelabi.Image, error)
}

// everyInput appends the same outcome once per input.
func everyInput(out []Outcome, inputs []kernelabi.Input, o Outcome) []Outcome {
	for range inputs {
		out = append(out, o)
	}
	return out
}
