package repro

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/kernelabi"
)

// Status says what became of a divergence.
type Status string

const (
	Shows  Status = "shows"   // it is as it was recorded
	Other  Status = "other"   // the runner diverges in another way
	Gone   Status = "gone"    // the runner does what the reference does
	NotRun Status = "not run" // there is nothing to compare: the runner declines the program
)

// Result is what came of running a repro again.
type Result struct {
	Status     Status
	Divergence *judge.Divergence // for Shows and Other

	// Why is for NotRun, and for Shows if the reference gives another value
	// than it did: then it is the reference that has changed.
	Why string
}

// Met reports whether the result is what the repro expects.
func (r *Repro) Met(res *Result) bool {
	if r.Expect == Agree {
		return res.Status == Gone
	}
	return res.Status == Shows && res.Why == ""
}

// Open returns the runner that a repro names, if that is a JIT of kjit's, a
// mutant, or an image. The caller closes it.
func (r *Repro) Open() (harness.Runner, error) {
	var options []emulator.Option
	if r.Accesses {
		options = append(options, emulator.WithAccessChecks())
	}
	name, isImage := strings.CutPrefix(r.JIT, ImagePrefix)
	p, err := harness.ProfileByName(name)
	if err != nil {
		return nil, fmt.Errorf("jit: %w", err)
	}
	if !isImage {
		return harness.NewJIT(p, options...)
	}
	p = r.Image.Profile(p)
	img := &kernelabi.Image{
		Code: *r.Image.Image, Base: p.Base, BaseKnown: true, Profile: p, Origin: imageFile,
		Insns: len(r.Program), Pass: r.Image.Pass,
	}
	return harness.NewImage(r.JIT, img, options...)
}

// Run runs the repro again in a runner, which need not be that of Open. An error
// means that the runner is broken.
func (r *Repro) Run(runner harness.Runner) (*Result, error) {
	options := judge.Options{Undefined: r.Divergence == judge.Undefined}
	if r.Divergence == judge.Refusal {
		options.Refuses = func(string) bool { return true }
	}
	j := judge.New(runner, options)
	defer j.Close()
	d, err := j.Judge(r.Program, r.Input)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if got := j.Got(); got.Kind == harness.Refused || got.Kind == harness.Rejected || got.Kind == harness.Untried {
			return &Result{Status: NotRun, Why: got.Why}, nil
		}
		return &Result{Status: Gone}, nil
	}
	res := &Result{Status: Other, Divergence: d}
	if d.Kind == r.Divergence && d.Rule == r.Rule {
		res.Status = Shows
		if want := d.Want.String(); r.Want != "" && want != r.Want {
			res.Why = fmt.Sprintf("the interpreter gives %s, and gave %s when this was recorded", want, r.Want)
		}
	}
	return res, nil
}
