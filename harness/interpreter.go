package harness

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Interpreter is the reference: Linux's meaning of classic BPF, with the rules
// and semantics of one kernel.
type Interpreter struct {
	profile *kernelabi.Profile
}

// NewInterpreter returns the reference for p, or for today's Linux if p is nil.
func NewInterpreter(p *kernelabi.Profile) *Interpreter {
	if p == nil {
		p = kernelabi.Current()
	}
	return &Interpreter{p}
}

func (r *Interpreter) Name() string                { return "interpreter" }
func (r *Interpreter) Profile() *kernelabi.Profile { return r.profile }
func (r *Interpreter) Close() error                { return nil }

func (r *Interpreter) Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	m, err := bpf.Compile(prog, kind, r.profile.Rules)
	if err != nil {
		return everyInput(out, inputs, rejected(err)), nil
	}
	view := kernelabi.SkbView{Semantics: r.profile.Semantics}
	first := len(out)
	out = slices.Grow(out, len(inputs))[:first+len(inputs)]
	for i, in := range inputs {
		out[first+i] = ReferenceOutcome(m.Run(view.Of(in)))
	}
	return out, nil
}

// ReferenceOutcome is the reference's result as an outcome.
func ReferenceOutcome(res bpf.Result) Outcome {
	return Outcome{
		Kind: Value, Value: res.Value, Executed: uint64(res.Executed),
		PC: res.PC, ShiftPC: res.ShiftPC,
	}
}

// rejected is the outcome of a program that the checker refuses.
func rejected(err error) Outcome {
	return Outcome{Kind: Rejected, Why: err.Error(), PC: -1, ShiftPC: -1}
}
