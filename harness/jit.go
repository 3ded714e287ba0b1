package harness

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// JIT is one of kjit's own emitters, its code executed in the emulator.
type JIT struct {
	profile *kernelabi.Profile
	emitter Compiler
	last    compiled // what Run ran last
	guest
}

// compiled is a program with its image.
type compiled struct {
	prog bpf.Program
	kind bpf.Kind
	img  *kernelabi.Image
}

// emitterFor finds the emitter that a profile names.
func emitterFor(p *kernelabi.Profile) (Compiler, error) {
	if p.Arch == kernelabi.X86_64 {
		return jitx86.ByName(p.Emitter)
	}
	return jitarm.ByName(p.Emitter)
}

// NewJIT returns the runner for a profile, with options for its machine, which
// is started only when the first program runs.
func NewJIT(p *kernelabi.Profile, options ...emulator.Option) (*JIT, error) {
	if p.Emitter == "" {
		return nil, fmt.Errorf("profile %s: nothing here compiles for it: its images are imported (kjit replay --image)", p.Name)
	}
	emitter, err := emitterFor(p)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return &JIT{profile: p, emitter: emitter, guest: guest{options: options}}, nil
}

func (r *JIT) Name() string                { return r.profile.Name }
func (r *JIT) Profile() *kernelabi.Profile { return r.profile }
func (r *JIT) Close() error                { return r.guest.close() }

// Image checks prog by the profile's rules and compiles it.
func (r *JIT) Image(prog bpf.Program, kind bpf.Kind) (*kernelabi.Image, error) {
	if err := bpf.Check(prog, kind, r.profile.Rules); err != nil {
		return nil, err
	}
	return r.emitter.Compile(prog, kind, r.profile)
}

func (r *JIT) Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	// Runs of one program after another are common, and compiling and
	// translating it would cost more than running it.
	if r.last.img == nil || kind != r.last.kind || !slices.Equal(prog, r.last.prog) {
		img, err := r.Image(prog, kind)
		if err != nil {
			return Declined(err, inputs, out)
		}
		r.last = compiled{slices.Clone(prog), kind, img}
	}
	return r.RunImage(r.last.img, inputs, out)
}

// RunImage executes img, which need not be r's own.
func (r *JIT) RunImage(img *kernelabi.Image, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	return r.guest.run(r.profile, img, inputs, out)
}

// Declined appends what it means for every input that there is no code to run:
// the errors *bpf.CheckError, *kernelabi.Refusal and *Failure are outcomes. Every
// other error it passes on.
func Declined(err error, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	var (
		check   *bpf.CheckError
		refusal *kernelabi.Refusal
		failure *Failure
	)
	o := Outcome{Why: err.Error(), PC: -1, ShiftPC: -1}
	switch {
	case errors.As(err, &check):
		o = rejected(check)
	case errors.As(err, &refusal):
		o.Kind, o.Why = Refused, refusal.Error()
	case errors.As(err, &failure):
		o.Kind = Failed
	default:
		return out, err
	}
	return everyInput(out, inputs, o), nil
}

// OutcomeOf is an emulator's result as an outcome.
func OutcomeOf(res *emulator.Result) Outcome {
	o := Outcome{
		Kind: Value, Value: res.Value, Executed: res.Insns, Inexact: res.Inexact,
		Broken: res.Broken, StackUnaligned: res.StackUnaligned, PC: -1, ShiftPC: -1,
	}
	if res.Fault != nil {
		o.Kind, o.Fault = Fault, res.Fault
		if res.Fault.Kind == emulator.Timeout {
			o.Kind = Timeout
		}
	}
	return o
}
