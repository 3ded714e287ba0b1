package mutants

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// suite is the directed tests, and what JITs without a fault make of them.
type suite struct {
	tests []corpus.DirectedTest

	mu     sync.Mutex
	passed map[string][]bool // by profile: which tests they pass
}

func newSuite() (*suite, error) {
	tests, err := corpus.DirectedTests()
	return &suite{tests: tests, passed: map[string][]bool{}}, err
}

// finds returns the name of the first test that the mutant fails on one of its
// kernels and the emitter that it is made of passes, "" if there is none.
//
// A test looks at what it can see in a kernel: the value, and whether the kernel
// is still alive. That a JIT leaves a program to the interpreter, or returns the
// right value with a register of its caller lost, it does not see.
func (s *suite) finds(m *harness.Mutant) (string, error) {
	for _, base := range m.Bases() {
		right, err := s.base(base)
		if err != nil {
			return "", err
		}
		passed, err := s.run(m.On(base))
		if err != nil {
			return "", err
		}
		for i := range passed {
			if right[i] && !passed[i] {
				return s.tests[i].Name, nil
			}
		}
	}
	return "", nil
}

// base returns what the emitter without a fault passes.
func (s *suite) base(p *kernelabi.Profile) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if passed, ok := s.passed[p.Name]; ok {
		return passed, nil
	}
	passed, err := s.run(p)
	s.passed[p.Name] = passed
	return passed, err
}

// run returns which tests the JIT of a profile passes. What it declines it passes.
func (s *suite) run(p *kernelabi.Profile) (passed []bool, err error) {
	jit, err := harness.NewJIT(p, emulator.WithBudget(budget))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, jit.Close()) }()
	var out []harness.Outcome
	for _, test := range s.tests {
		out, err = jit.Run(test.Program, bpf.Socket, []kernelabi.Input{test.Packet}, out[:0])
		if err != nil {
			return nil, fmt.Errorf("directed test %s: %w", test.Name, err)
		}
		ok := true
		switch out[0].Kind {
		case harness.Value:
			ok = !test.Rejected && out[0].Value == test.Value
		case harness.Fault, harness.Timeout:
			ok = false
		}
		passed = append(passed, ok)
	}
	return passed, nil
}
