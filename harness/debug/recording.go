package debug

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// maxSteps is how many native steps a recording keeps: those of code that loops
// are soon the same.
const maxSteps = 1 << 16

// Recording is everything that happened on one input. Moments are numbered on
// each side by what was executed before: 0 is the start, len(States) and
// len(Steps) are the ends.
type Recording struct {
	Input kernelabi.Input
	Bytes []byte // what the program reads: the packet, or struct seccomp_data

	States []bpf.State     // before each executed instruction
	Needs  []harness.Needs // what the program reads from each state on
	Loads  []Load          // of the bytes, by each executed instruction
	Result bpf.Result

	Steps []Step // of the code; none if there is no code
	Cut   bool   // the code went on after the last step

	Want, Got harness.Outcome
	Verdict   harness.Verdict

	// Divergence is the first place where the sides differ in what the program
	// goes on to use, or nil. It may be there even if the outcomes agree.
	Divergence *Divergence

	nativeAt []int  // the native moment of each BPF moment
	met      []bool // whether the code came to it
}

// OnTheWay reports whether the sides differ only on the way, to ends that agree.
func (r *Recording) OnTheWay() bool {
	return r.Verdict == harness.Agree && r.Divergence != nil && !r.Divergence.Undefined
}

// Step is one executed native instruction, with the processor as it was before.
type Step struct {
	harness.Native
	Call string // the kernel's routine that it calls, "" for none
}

// recordInput runs both sides on an input.
func (s *Session) recordInput(input kernelabi.Input) (*Recording, error) {
	profile := s.Target.Profile()
	r := &Recording{Input: input, Bytes: bytesOf(input)}
	r.Result = s.reference.Trace(input.Under(profile.Semantics), func(st bpf.State) { r.States = append(r.States, st) })
	r.Want = harness.ReferenceOutcome(r.Result)
	r.Needs = harness.NeedsOf(s.Program, r.States)
	r.Loads = loads(s.Program, s.Kind, r)
	r.Got, r.Verdict = harness.Outcome{Kind: harness.Refused, Why: s.NoCode, PC: -1, ShiftPC: -1}, harness.NotRun
	if s.machine != nil {
		if err := s.trace(r); err != nil {
			return nil, err
		}
		r.Verdict = harness.Compare(r.Want, r.Got)
	}
	s.align(r)
	r.Divergence = s.diverges(r)
	return r, nil
}

// trace runs the code: first for what nearly all programs need, so that code
// that loops is soon over with.
func (s *Session) trace(r *Recording) error {
	var (
		steps  []emulator.Step
		result emulator.Result
		err    error
	)
	for _, budget := range harness.TraceBudgets() {
		if steps, result, err = s.machine.Trace(r.Input, budget); err != nil {
			return err
		}
		if result.Fault == nil || result.Fault.Kind != emulator.Timeout || len(steps) >= maxSteps {
			break
		}
	}
	r.Got = harness.OutcomeOf(&result)
	r.Cut = len(steps) > maxSteps || r.Got.Kind == harness.Timeout
	natives := harness.NewNatives(s.Image)
	steps = steps[:min(len(steps), maxSteps)]
	r.Steps = make([]Step, len(steps))
	for i := range steps {
		r.Steps[i].Native = *natives.State(&steps[i])
		r.Steps[i].Call = s.callOf(&r.Steps[i])
	}
	return nil
}
