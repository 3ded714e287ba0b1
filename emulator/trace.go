package emulator

import (
	"errors"

	"github.com/kjit-project/kjit/kernelabi"
)

// maxSteps bounds a trace: more than any program without loops executes.
const maxSteps = 1 << 18

// Step is one executed instruction of the image, with the registers in which
// the JITs of the architecture keep A and X (x86_64: eax and ebx; ARM: r4 and
// r5) as they were before it.
type Step struct {
	Offset int // in the image
	A, X   uint32
}

// WithTrace makes a machine that records what it executes, for [Machine.Trace].
// It is many times slower.
func WithTrace() Option { return func(o *options) { o.trace = true } }

// Trace runs the loaded image on one input and returns its steps, those of
// helper routines left out. A trace ends after 1<<18 steps.
func (m *Machine) Trace(input kernelabi.Input) ([]Step, Result, error) {
	if !m.opts.trace {
		return nil, Result{}, errors.New("the machine was not made to trace: give New the option WithTrace")
	}
	results, err := m.Run([]kernelabi.Input{input}, nil)
	if err != nil {
		return nil, Result{}, err
	}
	var steps []Step
	for _, s := range m.engine.Steps() {
		if m.image.Contains(s.Addr) {
			steps = append(steps, Step{int(s.Addr - m.image.Base), s.Regs[0], s.Regs[1]})
		}
	}
	return steps, results[0], nil
}
