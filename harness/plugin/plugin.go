// Package plugin runs JITs that are programs of their own: a process gets BPF
// programs as lines of JSON on its standard input and gives machine code on its
// standard output. docs/plugin.md describes the protocol.
//
// Nothing that a plugin does can stop kjit. What it gets wrong, be it a crash,
// silence, or garbage, is its outcome, of kind harness.Failed, and it is started
// anew for the next program.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

const (
	// DefaultProfile is the kernel that plugins emit for when neither they nor
	// the user name another.
	DefaultProfile = "linux-3.10-x86_64"
	// DefaultLimit is how long a plugin may take for an answer.
	DefaultLimit = 10 * time.Second

	// maxFailures in a row, and a plugin is not started any more.
	maxFailures = 3
)

// Options say what a plugin is used for.
type Options struct {
	Profile *kernelabi.Profile // nil: what the plugin says, or DefaultProfile
	Limit   time.Duration      // for each answer; 0: DefaultLimit
	Machine []emulator.Option  // of the machine that executes the images
}

// Runner is a plugin as a runner: its images are executed in the emulator like
// those of kjit's own emitters. It belongs to one goroutine.
type Runner struct {
	ctx     context.Context
	command []string
	limit   time.Duration
	options []emulator.Option
	hello   *helloAnswer
	name    string
	profile *kernelabi.Profile

	process  *process // nil when it has to be started
	id       uint64   // of the last request to it
	failures int      // in a row
	patient  bool     // it is started again however many there are
	last     answered
	machine  *harness.Image   // nil before the first image
	loaded   *kernelabi.Image // what it has
}

// answered is what became of the last program, so that a replay of many inputs
// asks once.
type answered struct {
	prog bpf.Program
	kind bpf.Kind
	img  *kernelabi.Image
	err  error
}

// New starts a plugin, whose command line is command, and asks it what it is.
// When ctx ends so do all requests, with ctx's error. Errors: one of starting
// the command, a *harness.Failure when the plugin does not introduce itself,
// and when it does not emit for the profile.
func New(ctx context.Context, command []string, o Options) (*Runner, error) {
	if len(command) == 0 {
		return nil, errors.New("no command")
	}
	r := &Runner{ctx: ctx, command: slices.Clone(command), limit: o.Limit, options: o.Machine}
	if r.limit <= 0 {
		r.limit = DefaultLimit
	}
	err := r.start()
	if err == nil {
		r.profile, err = r.choose(o.Profile)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", command[0], err)
	}
	return r, nil
}

// choose finds the profile to emit for.
func (r *Runner) choose(p *kernelabi.Profile) (*kernelabi.Profile, error) {
	if p == nil {
		name := r.hello.Profile
		if name == "" {
			name = DefaultProfile
		}
		var err error
		if p, err = kernelabi.ProfileByName(name); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(r.hello.Archs, p.Arch) {
		return nil, fmt.Errorf("it emits code for %.100q, profile %s is for %s", r.hello.Archs, p.Name, p.Arch)
	}
	return p, nil
}

// Name is "exec:" and what the plugin calls itself, or what Rename says.
func (r *Runner) Name() string                { return r.name }
func (r *Runner) Profile() *kernelabi.Profile { return r.profile }

// Command is the command line that started it.
func (r *Runner) Command() []string { return slices.Clone(r.command) }

// Rename gives another name to a plugin that stands beside one of the same name.
func (r *Runner) Rename(name string) { r.name = name }

// For makes the plugin emit for a variant of its profile, with another base or
// symbols or another layout.
func (r *Runner) For(p *kernelabi.Profile) { r.profile, r.last = p, answered{} }

// Close ends the plugin and all that it has started.
func (r *Runner) Close() error {
	r.stop(grace)
	if r.machine != nil {
		return r.machine.Close()
	}
	return nil
}

// start starts the process and asks it what it is.
func (r *Runner) start() error {
	p, err := start(r.command)
	if err != nil {
		return err
	}
	r.process, r.id = p, 0
	hello, err := ask(r, helloRequest{0, "hello", Protocol}, decodeHello)
	if err == nil {
		switch {
		case r.hello == nil:
			r.hello, r.name = hello, "exec:"+hello.Name
			return nil
		case hello.is(r.hello):
			return nil
		}
		err = r.process.failed("", "started again, it says that it is something else")
	}
	r.stop(0)
	return err
}

// stop ends the process, if there is one.
func (r *Runner) stop(patience time.Duration) {
	if r.process != nil {
		r.process.end(patience)
		r.process = nil
	}
}

// ask sends a request and decodes the answer. If that is no proper one the
// process is ended.
func ask[T any](r *Runner, request any, decode func(line []byte, id uint64) (T, error)) (T, error) {
	var answer T
	question, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	line, err := r.process.ask(r.ctx, question, r.limit)
	if err == nil {
		answer, err = decode(line, r.id)
		var (
			refusal *kernelabi.Refusal
			itself  *said
		)
		switch {
		case err == nil, errors.As(err, &refusal):
			r.process.stderr.forget()
			return answer, err
		case errors.As(err, &itself):
			return answer, r.process.failed("", err.Error())
		}
		r.process.stderr.wait(grace / 10)
		err = r.process.failed("", err.Error())
	}
	r.stop(0)
	return answer, err
}

// Image checks prog by the profile's rules and has the plugin compile it. The
// errors *bpf.CheckError, *kernelabi.Refusal and *harness.Failure are outcomes.
func (r *Runner) Image(prog bpf.Program, kind bpf.Kind) (*kernelabi.Image, error) {
	if err := bpf.Check(prog, kind, r.profile.Rules); err != nil {
		return nil, err
	}
	if l := &r.last; l.prog != nil && l.kind == kind && slices.Equal(l.prog, prog) {
		return l.img, l.err
	}
	img, err := r.compile(prog, kind)
	if r.ctx.Err() == nil {
		r.last = answered{slices.Clone(prog), kind, img, err}
	}
	return img, err
}

// NeverGiveUp makes the runner start the plugin again however often it fails: for
// who looks for the smallest program on which it does.
func (r *Runner) NeverGiveUp() { r.patient = true }

// compile asks the plugin, and starts it if it is not there.
func (r *Runner) compile(prog bpf.Program, kind bpf.Kind) (*kernelabi.Image, error) {
	if r.failures >= maxFailures && !r.patient {
		return nil, &harness.Failure{Name: harness.FailureGivenUp, Reason: fmt.Sprintf("given up after %d failures in a row", r.failures)}
	}
	img, err := r.request(prog, kind)
	r.failures++
	if r.process != nil { // refusals and errors that it reports are no failures of the process
		r.failures = 0
	}
	return img, err
}

func (r *Runner) request(prog bpf.Program, kind bpf.Kind) (*kernelabi.Image, error) {
	if r.process == nil {
		if err := r.start(); err != nil {
			var failure *harness.Failure
			if !errors.As(err, &failure) && r.ctx.Err() == nil {
				err = &harness.Failure{Reason: "it cannot be started again: " + err.Error()}
			}
			return nil, err
		}
	}
	r.id++
	img, err := ask(r, newCompileRequest(r.id, prog, kind, r.profile), func(line []byte, id uint64) (*kernelabi.Image, error) {
		return decodeCompile(line, id, prog, r.profile)
	})
	if err != nil {
		return nil, err
	}
	img.Origin = r.Name()
	img.OtherRegisters = !r.hello.StandardRegisters
	return img, nil
}

// load puts an image into the emulated kernel.
func (r *Runner) load(img *kernelabi.Image) error {
	if r.loaded == img {
		return nil
	}
	r.loaded = nil
	if r.machine == nil {
		m, err := harness.NewImage(r.Name(), img, r.options...)
		if err != nil {
			return err
		}
		r.machine = m
	} else if err := r.machine.Switch(img); err != nil {
		return err
	}
	if err := r.machine.Prepare(); err != nil {
		return err
	}
	r.loaded = img
	return nil
}

// Run has the plugin compile prog and executes its code on the inputs.
func (r *Runner) Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []harness.Outcome) ([]harness.Outcome, error) {
	img, err := r.Image(prog, kind)
	if err == nil {
		if err = r.load(img); err != nil {
			err = &harness.Failure{Reason: "its image cannot be run: " + err.Error()}
		}
	}
	if err != nil {
		return harness.Declined(err, inputs, out)
	}
	return r.machine.Run(prog, kind, inputs, out)
}
