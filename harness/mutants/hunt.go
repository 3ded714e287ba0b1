package mutants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/shrink"
	"github.com/kjit-project/kjit/kernelabi"
)

// budget is how many blocks a run may take, as in campaigns.
const budget = 1 << 16

// hunt is a campaign against one mutant. It serves one goroutine.
type hunt struct {
	generator *generate.Generator
	engine    *engine.Engine
	targets   []*prey
}

// prey is a mutant on one of its kernels.
type prey struct {
	profile *kernelabi.Profile
	base    *kernelabi.Profile

	// Made when something is found.
	faulty, right *harness.JIT
	judge         *judge.Judge
	reference     *harness.Interpreter
	want, got     []harness.Outcome
}

// newHunt prepares a campaign whose generator makes some of its programs from
// those given.
func newHunt(m harness.Mutant, seed uint64, programs []generate.Seed) (_ *hunt, err error) {
	h := new(hunt)
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	bases := m.Bases()
	cfg, err := generate.For(bases...)
	if err != nil {
		return nil, err
	}
	if cfg.Features[bpf.Seccomp].Kind != generate.Often {
		cfg.Seccomp = -1
	}
	cfg.Corpus = programs
	h.generator = generate.New(seed, cfg)

	ec := engine.Config{Options: []emulator.Option{emulator.WithBudget(budget)}}
	for _, base := range bases {
		p := &prey{profile: m.On(base), base: base}
		t, err := engine.ProfileTarget(p.profile)
		if err != nil {
			return nil, err
		}
		ec.Targets = append(ec.Targets, t)
		h.targets = append(h.targets, p)
	}
	h.engine, err = engine.New(ec)
	return h, err
}

func (h *hunt) close() error {
	var errs []error
	if h.engine != nil {
		errs = append(errs, h.engine.Close())
	}
	for _, p := range h.targets {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// run hunts until the mutant is found or the time is over.
func (h *hunt) run(ctx context.Context, o *Options, r *Result) error {
	began := time.Now()
	for r.Programs < o.Programs && time.Since(began) < o.Time {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := h.generator.Next()
		inputs := c.Inputs()
		report, err := h.engine.Check(c.Program, c.Kind, inputs)
		if err != nil {
			return fmt.Errorf("case %d of seed %d: %w", c.Index, o.Seed, err)
		}
		r.Programs++
		r.Pairs += report.Pairs
		d, p, err := h.look(c, inputs, &report)
		if err != nil {
			return fmt.Errorf("case %d of seed %d: %w", c.Index, o.Seed, err)
		}
		if d == nil {
			continue
		}
		r.Time = time.Since(began)
		r.Found, r.Case, r.Signature = true, c.Index, d.Signature
		began := time.Now()
		small := shrink.Shrink(d.Program, d.Input, p.shows(d.Signature), shrink.Options{
			Profile: p.profile, Stop: func() bool { return ctx.Err() != nil },
		})
		r.Program, r.Input, r.Shrinking = small.Program, small.Input, time.Since(began)
		if d, err = p.judge.Judge(r.Program, r.Input); err != nil || d == nil {
			return fmt.Errorf("case %d of seed %d: what is left shows nothing: %w", c.Index, o.Seed, err)
		}
		r.Want, r.Got = d.Want, d.Got
		return nil
	}
	r.Time = time.Since(began)
	return nil
}

// look returns the first divergence of a program that is the mutant's own: the
// emitter that it is made of does not show it.
func (h *hunt) look(c *generate.Case, inputs []kernelabi.Input, report *engine.Report) (*judge.Divergence, *prey, error) {
	for i, p := range h.targets {
		var refusal *kernelabi.Refusal
		if errors.As(report.NotRun[i], &refusal) {
			d, err := p.confirm(c.Program, inputs[:1], 0)
			if d != nil || err != nil {
				return d, p, err
			}
		}
	}
	for _, found := range report.Divergences {
		p := h.targets[found.Target]
		d, err := p.confirm(c.Program, inputs, found.Input)
		if d != nil || err != nil {
			return d, p, err
		}
	}
	return nil, nil, nil
}

// open makes the runners.
func (p *prey) open() (err error) {
	if p.judge != nil {
		return nil
	}
	if p.right, err = harness.NewJIT(p.base, emulator.WithBudget(budget)); err != nil {
		return err
	}
	if p.faulty, err = harness.NewJIT(p.profile, emulator.WithBudget(budget)); err != nil {
		return err
	}
	p.reference = harness.NewInterpreter(p.base)
	p.judge = judge.New(p.faulty, judge.Options{Undefined: true, Refuses: func(string) bool { return true }})
	return nil
}

func (p *prey) close() error {
	var errs []error
	if p.judge != nil {
		errs = append(errs, p.judge.Close())
	}
	for _, r := range []*harness.JIT{p.right, p.faulty} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// confirm judges one of the inputs, if the emitter without the fault is not wrong
// about it.
func (p *prey) confirm(prog bpf.Program, inputs []kernelabi.Input, input int) (*judge.Divergence, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	right := p.without(prog, inputs[input])
	if right == harness.Diverge {
		return nil, nil
	}
	d, err := p.judge.Judge(prog, inputs[input])
	if d != nil && !own(right, d.Kind) {
		return nil, err
	}
	if d != nil {
		d.Program = append(bpf.Program(nil), prog...)
		d.Input = generate.CloneInput(inputs[input])
	}
	return d, err
}

// without returns what the emitter without the fault makes of a program and an
// input.
func (p *prey) without(prog bpf.Program, input kernelabi.Input) harness.Verdict {
	one := []kernelabi.Input{input}
	kind := harness.KindOf(input)
	var err, broken error
	p.want, err = p.reference.Run(prog, kind, one, p.want[:0])
	p.got, broken = p.right.Run(prog, kind, one, p.got[:0])
	if err != nil || broken != nil {
		return harness.Diverge
	}
	return harness.Compare(p.want[0], p.got[0])
}

// own reports whether a divergence is the fault's, by the verdict on the emitter
// without it: that agrees, or declines what the one with the fault compiles.
func own(right harness.Verdict, kind judge.Kind) bool {
	return right == harness.Agree || right == harness.NotRun && kind != judge.Refusal
}

// shows tells whether a program and an input show the fault as want does.
func (p *prey) shows(want judge.Signature) func(bpf.Program, kernelabi.Input) bool {
	shows := p.judge.Shows(want)
	return func(prog bpf.Program, input kernelabi.Input) bool {
		return shows(prog, input) && own(p.without(prog, input), want.Kind)
	}
}
