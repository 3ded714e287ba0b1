// Package debug steps a program and its machine code side by side. A session
// records everything that both do with one input, and the cursor is a place in
// that recording: going back costs as little as going on.
//
// The sides keep together through the image's map from BPF instructions to code.
// Classic BPF has no loops, so that each instruction is executed at most once
// and marks one moment. What the kernel's routines execute for the code is left
// out, but that they are called is not.
//
// This package is data: the packages console and screen show it to people.
package debug

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// Config is what a session works on.
type Config struct {
	Name    string // of the program, for people
	Program bpf.Program
	Kind    bpf.Kind
	Inputs  []kernelabi.Input

	// Target makes, or has, the machine code: a JIT, a mutant, a plugin, an
	// imported image. The session asks it for the code and for nothing else, and
	// does not close it.
	Target harness.Imager
	// Options are for the machine that executes the code.
	Options []emulator.Option
}

// Noun is what an input is called.
func (c *Config) Noun() string {
	if c.Kind == bpf.Seccomp {
		return "system call"
	}
	return "packet"
}

// Session is a program, its code, the recording of one input and a place in it.
// It belongs to one goroutine. Close frees its machine.
type Session struct {
	Config
	Image  *kernelabi.Image // nil if there is no code
	NoCode string           // why there is none: what the kernel would do
	Native []listing.Native // the code
	Breaks Breakpoints

	reference *bpf.Machine
	machine   *emulator.Machine
	calls     map[int]string // routines by the offset of what calls them
	symbols   map[uint64]string

	index  int // of the input
	record *Recording
	cursor Cursor
}

// New makes a session at the start of the first input. A program that the
// target's kernel would leave to its interpreter has no code, which is no error.
// Errors: *bpf.CheckError for a program that the target's kernel refuses,
// *harness.Failure of a target that is a compiler of somebody else's, code that
// must not be run (see [kernelabi.Image.Privileged]), and those of the machine.
func New(c Config) (*Session, error) {
	if c.Target == nil {
		return nil, errors.New("no target: a session needs a JIT or an image")
	}
	if len(c.Inputs) == 0 {
		return nil, errors.New("no inputs: a session needs one at least")
	}
	s := &Session{Config: c}
	profile := c.Target.Profile()
	var err error
	if s.reference, err = bpf.Compile(c.Program, c.Kind, profile.Rules); err != nil {
		return nil, err
	}
	img, err := c.Target.Image(c.Program, c.Kind)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		s.NoCode, err = refusal.Error(), nil
	case err != nil:
		return nil, err
	default:
		err = s.load(img)
	}
	if err == nil {
		err = s.Select(0)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// load starts a machine with the image.
func (s *Session) load(img *kernelabi.Image) error {
	if _, ours := s.Target.(*harness.JIT); !ours && !img.Unfilled {
		if err := img.Privileged(); err != nil {
			return err
		}
	}
	options := append(slices.Clone(s.Options), emulator.WithTrace(), emulator.WithBudget(harness.MaxTrace))
	m, err := emulator.New(img.Profile.WithBase(img.Base), options...)
	if err != nil {
		return err
	}
	s.machine = m
	if err := m.Load(img); err != nil {
		return err
	}
	s.Image, s.Native = img, listing.Disassemble(img)
	s.nameCalls()
	return nil
}

// Close frees the machine. What was recorded can still be looked at.
func (s *Session) Close() error {
	if s.machine == nil {
		return nil
	}
	m := s.machine
	s.machine = nil
	return m.Close()
}

// NeedCode is the error that says why there is no code; nil if there is some.
func (s *Session) NeedCode() error {
	if s.Image == nil {
		return fmt.Errorf("there is no code: %s", s.NoCode)
	}
	return nil
}

// Mapped reports whether it is known which code belongs to which instruction.
// Without, the sides are stepped apart and compared at the end only.
func (s *Session) Mapped() bool { return s.Image != nil && len(s.Image.PCMap) > 0 }

// Index returns the number of the selected input, from 0.
func (s *Session) Index() int { return s.index }

// Recording returns what happened on the selected input.
func (s *Session) Recording() *Recording { return s.record }

// Select goes to the start of an input, numbered from 0.
func (s *Session) Select(i int) error {
	if i < 0 || i >= len(s.Inputs) {
		return fmt.Errorf("no input %d: there are 1 to %d", i+1, len(s.Inputs))
	}
	r, err := s.recordInput(s.Inputs[i])
	if err != nil {
		return fmt.Errorf("input %d: %w", i+1, err)
	}
	s.index, s.record = i, r
	s.cursor = Cursor{0, r.nativeAt[0]}
	return nil
}

// SetInputs replaces the inputs, which are for programs of the same kind, and
// goes to the start of the first. After an error all is as before.
func (s *Session) SetInputs(inputs []kernelabi.Input) error {
	if len(inputs) == 0 {
		return errors.New("no inputs: a session needs one at least")
	}
	old := s.Inputs
	s.Inputs = inputs
	err := s.Select(0)
	if err != nil {
		s.Inputs = old
	}
	return err
}

// InstructionAt returns the index in Native of the instruction at an offset of
// the image, or -1 if none starts there.
func (s *Session) InstructionAt(offset int) int {
	i, ok := slices.BinarySearchFunc(s.Native, offset, func(n listing.Native, off int) int { return n.Offset - off })
	if !ok {
		return -1
	}
	return i
}
