package seccompdata

import (
	"github.com/kjit-project/kjit/bpf"
)

// Filter is a program that today's Linux takes as a seccomp filter. It does not
// change once made, so any number of goroutines may run it at once.
type Filter struct {
	Name string // as people call it; may be ""

	// Converted is the length that counts when filters are stacked: that of the
	// program that Linux converts it to. See [ConvertedLen].
	Converted int

	prog    bpf.Program
	machine *bpf.Machine
}

// NewFilter checks a program by the rules of today's Linux. Its only error is a
// *bpf.CheckError.
func NewFilter(name string, prog bpf.Program) (*Filter, error) {
	return NewFilterUnder(name, prog, bpf.RulesCurrent)
}

// NewFilterUnder is [NewFilter] by the rules of another Linux.
func NewFilterUnder(name string, prog bpf.Program, rules bpf.Rules) (*Filter, error) {
	m, err := bpf.Compile(prog, bpf.Seccomp, rules)
	if err != nil {
		return nil, err
	}
	return &Filter{Name: name, Converted: ConvertedLen(prog), prog: m.Program(), machine: m}, nil
}

// Program returns the program. It must not be changed.
func (f *Filter) Program() bpf.Program { return f.prog }

// Len returns the number of instructions.
func (f *Filter) Len() int { return len(f.prog) }

// Verdict is what a filter says to a system call, and how it came to it.
type Verdict struct {
	Ret      uint32 // action and data
	PC       int    // the return, or the division by X = 0, that decided
	Executed int    // instructions executed, the deciding one among them
}

// Action is the action of the verdict.
func (v Verdict) Action() Action { return ActionOf(v.Ret) }

// Run asks the filter about a system call: a *[Data], or a *[BigEndian] for
// machines of the other byte order.
func (f *Filter) Run(call bpf.Input) Verdict {
	res := f.machine.Run(call)
	return Verdict{Ret: res.Value, PC: res.PC, Executed: res.Executed}
}

// Path returns the instructions that the filter executes for a system call, in
// order; the last is the one that decides.
func (f *Filter) Path(call bpf.Input) []int {
	var path []int
	f.Trace(call, func(s bpf.State) { path = append(path, s.PC) })
	return path
}

// Trace asks the filter as Run does, and calls before each instruction.
func (f *Filter) Trace(call bpf.Input, before func(bpf.State)) bpf.Result {
	return f.machine.Trace(call, before)
}
