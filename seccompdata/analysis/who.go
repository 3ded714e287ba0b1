package analysis

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// Run is the run of one filter for one call.
type Run struct {
	seccompdata.Verdict
	DivZero bool // it ended by a division by X = 0, which gives KILL_THREAD
	Steps   []Step
}

// Step is an executed instruction, with the registers before it.
type Step struct {
	PC   int
	Ins  bpf.Instruction
	A, X uint32
	Cell uint32 // for loads from M[], what is in the cell

	// Jump and Taken say what a comparison came to.
	Jump, Taken bool
}

// Decision is what a chain says to a call, and how it came to that.
type Decision struct {
	Call   seccompdata.Data
	Ret    uint32
	Filter int // the filter that decided, 0 the oldest; -1: none did, the call is allowed
	PC     int // the instruction that decided, -1 with Filter -1
	Runs   []Run

	// Exempt: kernels since some release let the call pass unasked. See
	// [seccompdata.Exempt].
	Exempt bool
}

// Who runs the filters, the oldest first, for one call, and tells which
// instruction of which decides.
func Who(filters []*seccompdata.Filter, d seccompdata.Data) (*Decision, error) {
	out := &Decision{Call: d, PC: -1, Exempt: seccompdata.Exempt(d.Arch, d.Nr, seccompdata.CurrentKernel)}
	for _, f := range filters {
		out.Runs = append(out.Runs, trace(f, &d))
	}
	out.Ret, out.Filter, _ = decide(filters, &d)
	if out.Filter >= 0 {
		out.PC = out.Runs[out.Filter].PC
	}
	return out, nil
}

func trace(f *seccompdata.Filter, d *seccompdata.Data) Run {
	prog := f.Program()
	var steps []Step
	res := f.Trace(d, func(s bpf.State) {
		step := Step{PC: s.PC, Ins: prog[s.PC], A: s.A, X: s.X, Jump: bpf.IsCondJump(prog[s.PC].Code)}
		if n := len(steps); n > 0 && steps[n-1].Jump {
			last := &steps[n-1]
			last.Taken = s.PC == last.PC+1+int(last.Ins.JT)
		}
		if step.Ins.Code == bpf.LdMem || step.Ins.Code == bpf.LdxMem {
			step.Cell = s.M[step.Ins.K]
		}
		steps = append(steps, step)
	})
	return Run{
		Verdict: seccompdata.Verdict{Ret: res.Value, PC: res.PC, Executed: res.Executed},
		DivZero: res.DivZero,
		Steps:   steps,
	}
}
