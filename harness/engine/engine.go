// Package engine compares targets, which are emitters each with a kernel, with
// the interpreter on one fresh program after another, as fast as this host
// can: it is what campaigns are made of. A [harness.Replay] of the same
// programs comes to the same verdicts, one at a time and with all evidence.
package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler makes images of programs. The compilers of jitx86 and jitarm are
// some, for emitters with replaced rules as well. An image need not be valid
// any longer than until the next call.
type Compiler interface {
	Compile(bpf.Program, bpf.Kind, *kernelabi.Profile) (*kernelabi.Image, error)
}

// Target is what an engine compares with the interpreter.
type Target struct {
	Name     string // for people
	Profile  *kernelabi.Profile
	Compiler Compiler // belongs to the engine from then on
}

// ProfileTarget returns the target of a profile and the emitter that it names.
func ProfileTarget(p *kernelabi.Profile) (Target, error) {
	t := Target{Name: p.Name, Profile: p}
	switch {
	case p.Emitter == "":
		return t, fmt.Errorf("profile %s: nothing here compiles for it", p.Name)
	case p.Arch == kernelabi.X86_64:
		e, err := jitx86.ByName(p.Emitter)
		if err != nil {
			return t, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		t.Compiler = e.NewCompiler()
	default:
		e, err := jitarm.ByName(p.Emitter)
		if err != nil {
			return t, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		t.Compiler = e.NewCompiler()
	}
	return t, nil
}

// Config is what an engine is made of.
type Config struct {
	Targets []Target
	Options []emulator.Option // of all machines

	// Coverage makes reports tell what was new in a program: emission rules and
	// edges between blocks of native code.
	Coverage bool

	// Split measures where time goes, for [Engine.Split]. Everything is
	// executed twice then.
	Split bool
}

// Engine compares its targets with the interpreter. It serves one goroutine.
type Engine struct {
	targets    []target
	references []reference
	split      Split
	found      []Divergence
	why        []error
	tallies    []Tally
}

// target is a Target with its machine.
type target struct {
	Target
	machine   *emulator.Machine
	reference int    // index in Engine.references
	cover     *cover // nil: not wanted
	results   []emulator.Result
}

// New returns an engine. It is to be closed.
func New(cfg Config) (*Engine, error) {
	if len(cfg.Targets) == 0 {
		return nil, errors.New("an engine needs a target")
	}
	e := new(Engine)
	if cfg.Split {
		e.split.on = true
	}
	options := slices.Clone(cfg.Options)
	if cfg.Coverage {
		options = append(options, emulator.WithCoverage())
	}
	for _, t := range cfg.Targets {
		m, err := emulator.New(t.Profile, options...)
		if err != nil {
			e.Close()
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		own := target{Target: t, machine: m, reference: e.referenceFor(t.Profile)}
		if cfg.Coverage {
			own.cover = &cover{Coverage: Coverage{RuleMap: make([]byte, ruleForms), EdgeMap: m.EdgeMap()}}
		}
		e.targets = append(e.targets, own)
	}
	e.tallies = make([]Tally, len(e.targets))
	e.why = make([]error, len(e.targets))
	return e, nil
}

// Close frees the machines.
func (e *Engine) Close() error {
	var errs []error
	for i := range e.targets {
		errs = append(errs, e.targets[i].machine.Close())
	}
	return errors.Join(errs...)
}

// Translated returns how many blocks of native code the machines have
// translated so far, which is most of the work that a program makes.
func (e *Engine) Translated() (n uint64) {
	for i := range e.targets {
		n += e.targets[i].machine.Translated()
	}
	return n
}

// Tally counts what one target made of one program's inputs.
type Tally struct {
	Agree, Diverge, Undefined, NotRun int
	Executed                          uint64 // native instructions
}

// Divergence is an input on which a target does not agree with the interpreter.
// A shift by X of 32 or more that explains it makes the verdict Undefined.
type Divergence struct {
	Target  int // index in Config.Targets
	Input   int
	Verdict harness.Verdict // Diverge or Undefined
	Want    harness.Outcome
	Got     harness.Outcome
}

// Report is what came of one program. It is valid until the next one.
type Report struct {
	// Pairs is the number of comparisons: of one target with the interpreter on
	// one input. Inputs that a target does not run do not count.
	Pairs   int
	Tallies []Tally // by target

	// NotRun says why a target ran nothing, by target: it is a *bpf.CheckError,
	// or a *kernelabi.Refusal, or nil.
	NotRun []error

	Divergences []Divergence

	// With Config.Coverage: what no program had before.
	NewRules, NewEdges int
}

// Check compares what the targets make of a program with what the interpreter
// does, on all inputs. An error means that the engine itself is broken or the
// request makes no sense; it does not say anything about a target.
func (e *Engine) Check(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input) (Report, error) {
	r := Report{Tallies: e.tallies, NotRun: e.why}
	clear(r.Tallies)
	clear(r.NotRun)
	e.found = e.found[:0]
	e.split.begin()
	e.interpret(prog, kind, inputs)
	e.split.lap(&e.split.Interpret)
	for i := range e.targets {
		if err := e.check(i, &r, prog, kind, inputs); err != nil {
			return Report{}, fmt.Errorf("%s: %w", e.targets[i].Name, err)
		}
	}
	r.Divergences = e.found
	e.split.Programs++
	e.split.Pairs += r.Pairs
	return r, nil
}

// check does that for one target.
func (e *Engine) check(i int, r *Report, prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input) error {
	t := &e.targets[i]
	ref := &e.references[t.reference]
	tally := &r.Tallies[i]
	if ref.rejected != nil {
		tally.NotRun, r.NotRun[i] = len(inputs), ref.rejected
		return nil
	}
	img, err := t.Compiler.Compile(prog, kind, t.Profile)
	e.split.lap(&e.split.Emit)
	if err != nil {
		var refusal *kernelabi.Refusal
		if !errors.As(err, &refusal) {
			return err
		}
		tally.NotRun, r.NotRun[i] = len(inputs), refusal
		return nil
	}
	if t.cover != nil {
		r.NewRules += t.cover.image(img, prog, kind)
	}
	if err := t.machine.Load(img); err != nil {
		return err
	}
	if t.results, err = t.machine.Run(inputs, t.results); err != nil {
		return err
	}
	if t.cover != nil {
		edges := int(t.machine.NewEdges())
		r.NewEdges += edges - t.cover.Edges
		t.cover.Edges = edges
	}
	if e.split.on {
		if err := e.split.execution(t, inputs); err != nil {
			return err
		}
	}
	e.compare(i, tally, ref.results)
	r.Pairs += len(inputs)
	e.split.lap(&e.split.Compare)
	return nil
}

// compare judges the results of a target. That nothing is wrong with nearly all
// of them takes little to see; harness.Compare judges the others.
func (e *Engine) compare(i int, tally *Tally, want []bpf.Result) {
	t := &e.targets[i]
	for n := range t.results {
		got := &t.results[n]
		tally.Executed += got.Insns
		if got.Value == want[n].Value && got.Fault == nil && got.Broken == 0 {
			tally.Agree++
			continue
		}
		d := Divergence{Target: i, Input: n, Want: harness.ReferenceOutcome(want[n]), Got: harness.OutcomeOf(got)}
		switch d.Verdict = harness.Compare(d.Want, d.Got); d.Verdict {
		case harness.Agree:
			tally.Agree++
			continue
		case harness.Undefined:
			tally.Undefined++
		default:
			tally.Diverge++
		}
		e.found = append(e.found, d)
	}
}
