package harness

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/kernelabi"
)

// Compiler is an emitter: it makes images of programs for the kernel of a
// profile. Those of jitx86 and jitarm are some. A program that it leaves to the
// interpreter is the error *kernelabi.Refusal.
type Compiler interface {
	Compile(bpf.Program, bpf.Kind, *kernelabi.Profile) (*kernelabi.Image, error)
}

// NewCompiled returns the runner of any compiler, under a name of its own, with
// options for its machine. Of an image the code is enough: base and profile are
// those of p where it has none. A compiler that panics, gives any other error
// than a refusal, or an image that cannot be, has failed on that program.
func NewCompiled(name string, c Compiler, p *kernelabi.Profile, options ...emulator.Option) *JIT {
	q := *p
	q.Name = name
	return &JIT{profile: &q, emitter: foreign{c}, guest: guest{options: options}}
}

// foreign is a compiler that nobody knows.
type foreign struct{ Compiler }

func (f foreign) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (img *kernelabi.Image, err error) {
	defer func() {
		if v := recover(); v != nil {
			img, err = nil, &Failure{Reason: fmt.Sprintf("the compiler panics: %v", v)}
		}
	}()
	made, err := f.Compiler.Compile(slices.Clone(prog), kind, p)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, refusal
	case err != nil:
		return nil, &Failure{Reason: "the compiler fails: " + err.Error()}
	case made == nil || len(made.Code) == 0:
		return nil, &Failure{Reason: "the compiler gives no code, and no reason"}
	}
	// It may reuse what it returns.
	own := *made
	own.Code, own.PCMap = slices.Clone(made.Code), slices.Clone(made.PCMap)
	own.Profile = p
	if own.Base == 0 {
		own.Base = p.Base
	}
	if own.Origin == "" {
		own.Origin = p.Name
	}
	if err := checkMap(&own, len(prog)); err != nil {
		return nil, &Failure{Reason: err.Error()}
	}
	return &own, nil
}

// checkMap says what is wrong with an image's map.
func checkMap(img *kernelabi.Image, insns int) error {
	m := img.PCMap
	switch {
	case m == nil:
		return nil
	case len(m) != insns+1:
		return fmt.Errorf("the image's PCMap has %d offsets, want one more than the %d instructions", len(m), insns)
	case m[0] < 0 || m[insns] > len(img.Code) || !slices.IsSorted(m):
		return fmt.Errorf("the image's PCMap does not ascend from 0 to the %d bytes of code at most", len(img.Code))
	}
	return nil
}
