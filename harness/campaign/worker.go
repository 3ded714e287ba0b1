package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/kernelabi"
)

// enough divergences of a target, of one kind, that a range looks at closely
// one after the other without a new signature among them: the others of the
// range are only counted.
const enough = 8

// Worker does ranges, one after another. It serves one goroutine; Close frees
// its machines.
type Worker struct {
	cfg     *Config
	engine  *engine.Engine
	targets []workerTarget

	frozen *Frozen
	gen    *generate.Generator
	known  *engine.CoverageMap // the frozen one, and what the range adds

	timed bool
	split engine.Split // if timed, what the engine does not measure
}

// workerTarget is a target with who judges it.
type workerTarget struct {
	*guard
	judge *judge.Judge // nil until it is needed
}

// guard is a target as a compiler that cannot stop an engine: when it panics, or
// gives neither an image nor a refusal, that is kept, and looks like a refusal.
type guard struct {
	target *Target
	own    engine.Compiler // nil: another is asked, the runner
	runner harness.Imager  // opened late for kjit's own
	failed bool
}

func (g *guard) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (img *kernelabi.Image, err error) {
	if g.own != nil {
		defer func() {
			if v := recover(); v != nil {
				g.failed = true
				img, err = nil, &kernelabi.Refusal{PC: -1, Reason: fmt.Sprintf("the compiler panics: %v", v)}
			}
		}()
		return g.own.Compile(prog, kind, p)
	}
	img, err = g.runner.Image(prog, kind)
	var failure *harness.Failure
	if errors.As(err, &failure) {
		g.failed = failure.Name != harness.FailureGivenUp // which is no fault of its own
		return nil, &kernelabi.Refusal{PC: -1, Reason: failure.Error()}
	}
	return img, err
}

// NewWorker returns a worker for a campaign.
func (c *Config) NewWorker() (*Worker, error) { return c.newWorker(false) }

func (c *Config) newWorker(split bool) (_ *Worker, err error) {
	w := &Worker{cfg: c, timed: split, targets: make([]workerTarget, len(c.Targets))}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	ec := engine.Config{Coverage: true, Split: split, Options: []emulator.Option{emulator.WithBudget(budget)}}
	for i := range c.Targets {
		t := &c.Targets[i]
		g := &guard{target: t}
		w.targets[i].guard = g
		if t.Open != nil {
			g.runner, err = t.runner()
		} else {
			var own engine.Target
			own, err = engine.ProfileTarget(t.Profile)
			g.own = own.Compiler
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		ec.Targets = append(ec.Targets, engine.Target{Name: t.Name, Profile: t.Profile, Compiler: g})
	}
	w.engine, err = engine.New(ec)
	return w, err
}

// Close frees what the worker holds.
func (w *Worker) Close() error {
	var errs []error
	if w.engine != nil {
		errs = append(errs, w.engine.Close())
	}
	for _, t := range w.targets {
		if t.judge != nil {
			errs = append(errs, t.judge.Close())
		}
		if t.guard != nil && t.runner != nil {
			errs = append(errs, t.runner.Close())
		}
	}
	return errors.Join(errs...)
}

// judgeOf returns the judge of a target.
func (w *Worker) judgeOf(target int) (*judge.Judge, error) {
	t := &w.targets[target]
	if t.judge != nil {
		return t.judge, nil
	}
	if t.runner == nil {
		var err error
		if t.runner, err = t.target.runner(); err != nil {
			return nil, err
		}
	}
	t.judge = judge.New(t.runner, judge.Options{})
	return t.judge, nil
}

// RunRange does a range of the epoch that starts from frozen. The result depends
// on nothing but the campaign's settings, frozen and r. Errors are that of ctx,
// and of workers that are broken.
func (w *Worker) RunRange(ctx context.Context, frozen *Frozen, r uint64) (*Result, error) {
	if e := EpochOf(r); e != frozen.Epoch {
		return nil, fmt.Errorf("range %d is of epoch %d, not of %d", r, e, frozen.Epoch)
	}
	if w.frozen != frozen {
		w.gen = generate.New(w.cfg.Seed, w.cfg.generator(frozen.Corpus))
		w.frozen = frozen
	}
	w.known = frozen.Coverage.Clone()
	if err := w.engine.Recall(w.known); err != nil {
		return nil, err
	}
	run := &rangeRun{Worker: w, Result: Result{Range: r, Targets: make([]Tally, len(w.targets)), Coverage: make(engine.Features, len(w.targets))},
		values: map[uint32]uint64{}, findings: map[judge.Signature]*Finding{}, dull: map[divergence]int{}}
	for i := range uint64(w.cfg.Size) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := run.program(r*uint64(w.cfg.Size) + i); err != nil {
			return nil, fmt.Errorf("case %d: %w", r*uint64(w.cfg.Size)+i, err)
		}
	}
	return run.result(), nil
}

// divergence is which target diverges how.
type divergence struct {
	target int
	kind   judge.Kind
}

// rangeRun is a range that is being done.
type rangeRun struct {
	*Worker
	Result
	opcodes  [2 * numCodes]bool
	values   map[uint32]uint64
	findings map[judge.Signature]*Finding
	dull     map[divergence]int // looked at since the last new signature
}

// lap adds the time since last to d.
func (w *Worker) lap(d *time.Duration, last *time.Time) {
	if !w.timed {
		return
	}
	now := time.Now()
	if d != nil {
		*d += now.Sub(*last)
	}
	*last = now
}

// program does a case.
func (r *rangeRun) program(at uint64) error {
	var last time.Time
	r.lap(nil, &last)
	c := r.gen.At(at)
	if r.cfg.partial != nil {
		c.Program = r.cfg.partial.cut(c.Program, c.Kind)
	}
	r.lap(&r.split.Generate, &last)
	inputs := c.Inputs()
	r.lap(&r.split.Solve, &last)
	report, err := r.engine.Check(c.Program, c.Kind, inputs)
	if err != nil {
		return err
	}
	r.Programs++
	r.Insns += uint64(len(c.Program))
	r.Inputs += uint64(len(inputs))
	r.Pairs += uint64(report.Pairs)
	ran := false
	for i := range report.Tallies {
		t, to := &report.Tallies[i], &r.Targets[i]
		to.add(&Tally{Agree: uint64(t.Agree), Diverge: uint64(t.Diverge), Undefined: uint64(t.Undefined), NotRun: uint64(t.NotRun), Executed: t.Executed})
		if err := report.NotRun[i]; err == nil {
			ran = true
		} else if to.Why == "" {
			to.Why = cut(err.Error())
		}
	}
	if ran {
		r.opcode(c.Kind, c.Program)
	}
	for _, res := range r.engine.Results(0) {
		r.values[res.Value]++
	}
	if report.NewRules+report.NewEdges > 0 {
		if fresh := r.engine.Learn(r.known); fresh.Count() > 0 {
			r.enter(Entry{Case: at, Kind: c.Kind, Program: c.Program, Features: fresh})
		}
	}
	return r.judge(c, inputs, &report)
}

// enter lets a program into the corpus, if it shows more than others that were
// let in, or if there is room.
func (r *rangeRun) enter(e Entry) {
	least := 0
	for i := range r.Corpus {
		if r.Corpus[i].Features.Count() <= r.Corpus[least].Features.Count() {
			least = i
		}
	}
	if len(r.Corpus) == MaxEntries {
		if e.Features.Count() <= r.Corpus[least].Features.Count() {
			return
		}
		r.Corpus = slices.Delete(r.Corpus, least, least+1)
	}
	e.Program = slices.Clone(e.Program)
	r.Corpus = append(r.Corpus, e)
}

// opcode notes the opcodes of a program that was run.
func (r *rangeRun) opcode(kind bpf.Kind, prog bpf.Program) {
	set := r.opcodes[:numCodes]
	if kind == bpf.Seccomp {
		set = r.opcodes[numCodes:]
	}
	for _, ins := range prog {
		set[engine.EntryOf(ins, kind)] = true
	}
}

// judge looks closely at what diverges: of each target, at the first input of
// each kind.
func (r *rangeRun) judge(c *generate.Case, inputs []kernelabi.Input, report *engine.Report) error {
	var seen []divergence
	look := func(target int, want, got harness.Outcome, input int) error {
		j, err := r.judgeOf(target)
		if err != nil {
			return err
		}
		d := divergence{target, j.KindOf(want, got)}
		if d.kind == "" || d.kind == judge.Undefined || slices.Contains(seen, d) {
			return nil
		}
		if !slices.ContainsFunc(seen, func(s divergence) bool { return s.target == target }) {
			r.Targets[target].Programs++
		}
		seen = append(seen, d)
		if r.dull[d] >= enough {
			return nil
		}
		r.Targets[target].Judged++
		return r.find(j, d, c, inputs[input], want, got)
	}
	for i := range report.NotRun {
		var err error
		switch t := &r.targets[i]; {
		case t.failed:
			t.failed = false
			err = look(i, harness.Outcome{Kind: harness.Value}, harness.Outcome{Kind: harness.Failed}, 0)
		case report.NotRun[i] != nil:
			var refusal *kernelabi.Refusal
			if errors.As(report.NotRun[i], &refusal) {
				err = look(i, harness.Outcome{Kind: harness.Value}, harness.Outcome{Kind: harness.Refused, Why: refusal.Error()}, 0)
			}
		}
		if err != nil {
			return err
		}
	}
	for i := range report.Divergences {
		d := &report.Divergences[i]
		if d.Verdict != harness.Diverge {
			continue
		}
		if err := look(d.Target, d.Want, d.Got, d.Input); err != nil {
			return err
		}
	}
	return nil
}

// find names a divergence.
func (r *rangeRun) find(j *judge.Judge, d divergence, c *generate.Case, input kernelabi.Input, want, got harness.Outcome) error {
	f := Finding{Target: r.cfg.Targets[d.target].Name, Rule: Unreproduced, How: d.kind,
		Case: c.Index, Count: 1, Kind: c.Kind, Want: cut(want.String()), Got: cut(got.Long())}
	judged, err := j.Judge(c.Program, input)
	if err != nil {
		return err
	}
	if judged != nil {
		f.Rule, f.How = judged.Rule, judged.Kind
		f.Want, f.Got = cut(judged.Want.String()), cut(judged.Got.Long())
	}
	if known, ok := r.findings[f.Signature()]; ok {
		known.Count++
		r.dull[d]++
		return nil
	}
	if len(r.findings) == MaxFindings {
		return nil
	}
	r.dull[d] = 0
	f.Program = slices.Clone(c.Program)
	f.Input = generate.CloneInputs([]kernelabi.Input{input})[0]
	r.findings[f.Signature()] = &f
	return nil
}

// result brings it into an order that no map has a say in.
func (r *rangeRun) result() *Result {
	r.Coverage = r.known.Since(r.frozen.Coverage)
	for n, seen := range r.opcodes {
		if seen {
			r.Opcodes = append(r.Opcodes, uint32(n))
		}
	}
	for value, count := range r.values {
		r.Values = append(r.Values, ValueCount{value, count})
	}
	r.Values = mostValues(r.Values, maxValues)
	for _, f := range r.findings {
		r.Findings = append(r.Findings, *f)
	}
	slices.SortFunc(r.Findings, compareFindings)
	res := r.Result
	return &res
}

// compareFindings orders findings as they come in a campaign.
func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Case, b.Case), cmp.Compare(a.Signature().String(), b.Signature().String()))
}

// mostValues returns the n values that came most often.
func mostValues(all []ValueCount, n int) []ValueCount {
	slices.SortFunc(all, func(a, b ValueCount) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Value, b.Value))
	})
	return slices.Clone(all[:min(len(all), n)])
}
