// Package judge holds one runner to the reference, one program and input at a
// time, and gives what differs a name: the same name for the same fault however
// it was found.
package judge

import (
	"cmp"
	"errors"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// Kind says in which way a runner diverges.
type Kind string

const (
	Value     Kind = "value"     // another value
	Fault     Kind = "fault"     // the code did what no compiled filter may do
	Timeout   Kind = "timeout"   // it did not come to an end
	Broken    Kind = "broken"    // the right value, and a broken promise to the caller
	Refusal   Kind = "refusal"   // the JIT gave up on a program that it should compile
	Rejected  Kind = "rejected"  // runner and reference do not agree on whether the checker takes it
	Undefined Kind = "undefined" // another value after a shift by X >= 32
	Failed    Kind = "failed"    // the runner gave no outcome
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{Value, Fault, Timeout, Broken, Refusal, Rejected, Undefined, Failed}
}

// Divergence is a program and an input on which a runner does not do what the
// reference does.
type Divergence struct {
	Signature
	Program     bpf.Program
	ProgramKind bpf.Kind
	Input       kernelabi.Input
	Want, Got   harness.Outcome

	// Place is where they part; nil if the runner has no code to look at.
	Place *harness.Place
}

// Options say what counts.
type Options struct {
	// Undefined: other values after shifts by X >= 32 are divergences too, of
	// that kind.
	Undefined bool

	// Refuses says whether a refusal for that reason is a divergence. nil:
	// those are that a kernel itself calls an error, and not those of JITs that
	// leave an instruction or a length to the interpreter.
	Refuses func(reason string) bool
}

// fatal are the reasons of refusals that kernels report as errors.
func fatal(reason string) bool { return strings.HasSuffix(reason, "fatal error") }

// Judge holds a runner to the reference. It keeps machines, so it belongs to one
// goroutine; Close frees them, but not the runner.
type Judge struct {
	options   Options
	runner    harness.Runner
	reference *harness.Interpreter
	locator   harness.Locator

	input     [1]kernelabi.Input
	want, got []harness.Outcome
}

// New returns a judge of r.
func New(r harness.Runner, o Options) *Judge {
	if o.Refuses == nil {
		o.Refuses = fatal
	}
	return &Judge{options: o, runner: r, reference: harness.NewInterpreter(r.Profile())}
}

// Runner returns the runner that is judged.
func (j *Judge) Runner() harness.Runner { return j.runner }

// Close frees the machines.
func (j *Judge) Close() error { return j.locator.Close() }

// Judge runs prog on input and returns the divergence, nil if there is none.
// What it returns shares prog and input. An error means that the runner itself
// is broken.
func (j *Judge) Judge(prog bpf.Program, input kernelabi.Input) (*Divergence, error) {
	kind, err := j.run(prog, input)
	if kind == "" || err != nil {
		return nil, err
	}
	d := &Divergence{
		Signature: Signature{Runner: j.runner.Name(), Kind: kind}, Program: prog, ProgramKind: harness.KindOf(input),
		Input: input, Want: j.want[0], Got: j.got[0],
	}
	d.Rule, d.Place = j.rule(kind, prog, input)
	return j.admit(d), nil
}

// Shows returns a function that tells whether a program and an input show the
// divergence of that signature: what a shrinker asks. Errors of the runner are
// a no.
func (j *Judge) Shows(want Signature) func(bpf.Program, kernelabi.Input) bool {
	return func(prog bpf.Program, input kernelabi.Input) bool {
		kind, err := j.run(prog, input)
		if err != nil || kind != want.Kind && !(kind == Undefined && want.Kind == Value) {
			return false // without looking for the place
		}
		d := &Divergence{Signature: Signature{Runner: want.Runner, Kind: kind}}
		d.Rule, d.Place = j.rule(kind, prog, input)
		d = j.admit(d)
		return d != nil && d.Signature == want
	}
}

// admit returns d if it counts. What shows first in front of any shift is not
// undefined, whatever is shifted behind it.
func (j *Judge) admit(d *Divergence) *Divergence {
	if d.Kind != Undefined {
		return d
	}
	if p := d.Place; p != nil && (p.PC >= 0 || p.What != harness.End) {
		if p.PC < 0 || p.Program[p.PC].Code != bpf.LshX && p.Program[p.PC].Code != bpf.RshX {
			d.Kind = Value
			return d
		}
	}
	if !j.options.Undefined {
		return nil
	}
	return d
}

// run runs both and returns the kind of divergence, "" for none.
func (j *Judge) run(prog bpf.Program, input kernelabi.Input) (Kind, error) {
	j.input[0] = input
	kind := harness.KindOf(input)
	var err error
	if j.want, err = j.reference.Run(prog, kind, j.input[:], j.want[:0]); err != nil {
		return "", err
	}
	if j.got, err = j.runner.Run(prog, kind, j.input[:], j.got[:0]); err != nil {
		return "", err
	}
	return j.KindOf(j.want[0], j.got[0]), nil
}

// KindOf returns in which way got diverges from want, "" if it does not.
func (j *Judge) KindOf(want, got harness.Outcome) Kind {
	switch harness.Compare(want, got) {
	case harness.NotRun:
		if got.Kind == harness.Refused && want.Kind == harness.Value && j.options.Refuses(got.Why) {
			return Refusal
		}
	case harness.Undefined:
		return Undefined
	case harness.Diverge:
		switch {
		case got.Kind == harness.Fault:
			return Fault
		case got.Kind == harness.Timeout:
			return Timeout
		case got.Kind == harness.Failed:
			return Failed
		case got.Kind == harness.Rejected, want.Kind == harness.Rejected:
			return Rejected
		case got.Value == want.Value:
			return Broken
		}
		return Value
	}
	return ""
}

// rule names what is to blame, and finds the place if there is one.
func (j *Judge) rule(kind Kind, prog bpf.Program, input kernelabi.Input) (string, *harness.Place) {
	switch kind {
	case Refusal, Rejected, Failed:
		return j.reason(prog, harness.KindOf(input)), nil
	}
	place, err := j.locator.Locate(j.runner, prog, input)
	if err != nil {
		return unknownRule, nil
	}
	return RuleAt(place), place
}

// reason names why there is no code.
func (j *Judge) reason(prog bpf.Program, kind bpf.Kind) string {
	var err error
	if r, ok := j.runner.(harness.Imager); ok {
		_, err = r.Image(prog, kind)
	}
	var (
		check   *bpf.CheckError
		refusal *kernelabi.Refusal
		failure *harness.Failure
	)
	switch {
	case errors.As(err, &refusal):
		return slug(refusal.Reason)
	case errors.As(err, &failure):
		return cmp.Or(failure.Name, slug(failure.Reason))
	case errors.As(err, &check):
		return "checker"
	}
	return slug(j.got[0].Why)
}

// Got is the runner's outcome of the last run.
func (j *Judge) Got() harness.Outcome { return j.got[0] }
