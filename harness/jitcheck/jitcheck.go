// Package jitcheck tests a BPF JIT that is written in Go, from a test in Go:
//
//	func TestMyJIT(t *testing.T) {
//		jitcheck.Check(t, jitcheck.JIT{Compiler: myjit.New(), Profile: profile})
//	}
//
// [Check] has the JIT compile programs, runs the code in an emulated kernel on
// inputs that are derived from each program, and compares with the reference
// interpreter. What differs it makes as small as it can, finds the instruction
// that is to blame, and reports it with the text of a file that can be kept: put
// into a folder of test data, [CheckFiles] runs it again.
//
// It is a package of its own, and not a function of package harness, because it
// is made of packages that import that one.
package jitcheck

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/harness/shrink"
	"github.com/kjit-project/kjit/kernelabi"
)

// T is what Check needs of a *testing.T.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Compiler is a JIT: it makes code of programs for the kernel of a profile. The
// least that an image needs is its code. With PCMap a divergence is traced to an
// instruction; see [kernelabi.Image] for what is expected of the registers then.
// A program that it leaves to the interpreter is the error *kernelabi.Refusal.
type Compiler = harness.Compiler

// JIT is what is checked.
type JIT struct {
	Name     string // for reports; "" is "jit"
	Compiler Compiler
	Profile  *kernelabi.Profile // the kernel that it emits for
	Kind     bpf.Kind           // of the programs

	// Generated is how many programs are made up when none are given: 300 if 0,
	// none if negative.
	Generated int

	// Options are for the emulated kernel: [emulator.WithAccessChecks] makes it
	// look at alignment and at the stack.
	Options []emulator.Option
}

const (
	defaultGenerated = 300
	defaultSeed      = 1
	maxReports       = 5
	budget           = 1 << 16 // blocks: soon over where code loops
)

// Check compares the JIT with the reference on the programs, or if there are
// none on those of the corpus and on generated ones, and fails the test with a
// report for each fault that it finds, up to five. Instructions for which the JIT
// gives a refusal with their PC are taken out of generated programs. Which programs are generated
// depends on the environment variable KJIT_SEED.
func Check(t T, jit JIT, programs ...bpf.Program) {
	t.Helper()
	c, err := newChecker(jit)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	defer c.close()
	for i, prog := range programs {
		c.check(t, fmt.Sprintf("program %d", i), prog)
	}
	if len(programs) == 0 {
		c.checkDefaults(t)
	}
	t.Logf("%s: %d programs compared on %d inputs; %d left to the interpreter%s", c.runner.Name(), c.compared, c.inputs, c.declined, c.lastReason())
	if c.compared == 0 {
		t.Errorf("%s: nothing was compared%s", c.runner.Name(), c.lastReason())
	}
}

// CheckFiles runs files that [Check] reported again, whatever JIT they name, and
// fails the test where the JIT still does not do what the reference does.
func CheckFiles(t T, jit JIT, files ...string) {
	t.Helper()
	c, err := newChecker(jit)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	defer c.close()
	for _, file := range files {
		r, err := repro.Read(file)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		d, err := c.judge.Judge(r.Program, r.Input)
		switch {
		case err != nil:
			t.Errorf("%s: %v", file, err)
		case d != nil:
			c.report(t, file, d)
		}
	}
}

// checker checks one JIT.
type checker struct {
	jit       JIT
	runner    *harness.JIT
	reference *harness.Interpreter
	judge     *judge.Judge
	solver    *generate.Solver
	generator *generate.Generator
	seed      uint64
	packets   []kernelabi.Input

	found                      []judge.Signature
	compared, inputs, declined int
	reason                     string // of the last that was declined
	want, got                  []harness.Outcome
}

func newChecker(jit JIT) (*checker, error) {
	if jit.Compiler == nil || jit.Profile == nil {
		return nil, fmt.Errorf("jitcheck: a JIT needs a Compiler and a Profile")
	}
	if jit.Name == "" {
		jit.Name = "jit"
	}
	if jit.Generated == 0 {
		jit.Generated = defaultGenerated
	}
	c := &checker{jit: jit, seed: defaultSeed}
	if text := os.Getenv("KJIT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("jitcheck: KJIT_SEED=%q: want a number", text)
		}
		c.seed = seed
	}
	// What the profile's own JIT declines this one may take, so that the
	// generator goes by the checker alone.
	open := *jit.Profile
	open.Emitter = ""
	config, err := generate.For(&open)
	if err != nil {
		return nil, fmt.Errorf("jitcheck: %w", err)
	}
	config.Seccomp = -1
	if jit.Kind == bpf.Seccomp {
		config.Seccomp = 100
	}
	packets, err := corpus.Packets()
	if err != nil {
		return nil, err
	}
	for _, p := range packets {
		c.packets = append(c.packets, p.Skb, p.Skb.Split(13, 1, 7, 30))
	}
	c.solver, c.generator = generate.NewSolver(config), generate.New(c.seed, config)
	c.runner = harness.NewCompiled(jit.Name, jit.Compiler, jit.Profile, append(slices.Clone(jit.Options), emulator.WithBudget(budget))...)
	c.reference = harness.NewInterpreter(jit.Profile)
	c.judge = judge.New(c.runner, judge.Options{})
	return c, nil
}

func (c *checker) close() {
	c.judge.Close()
	c.runner.Close()
}

// checkDefaults checks the programs of the corpus and generated ones.
func (c *checker) checkDefaults(t T) {
	t.Helper()
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	for _, p := range programs {
		if p.Kind == c.jit.Kind {
			c.check(t, "corpus program "+p.Name, p.Program)
		}
	}
	for i := range max(c.jit.Generated, 0) {
		if k := c.generator.At(uint64(i)); k.Kind == c.jit.Kind {
			c.check(t, fmt.Sprintf("generated program %d of KJIT_SEED=%d", i, c.seed), c.accepted(k.Program))
		}
	}
}

// accepted takes out of a program the instructions that the JIT refuses, so that
// one that compiles few of them yet is checked on more than the few programs
// that have no others. If nothing of that helps it is the program as it was.
func (c *checker) accepted(prog bpf.Program) bpf.Program {
	for rest := prog; ; {
		var refusal *kernelabi.Refusal
		switch err := c.compile(rest); {
		case !errors.As(err, &refusal):
			return rest
		case refusal.PC < 0 || refusal.PC >= len(rest) || len(rest) == 1:
			return prog
		}
		rest = shrink.Without(rest, refusal.PC)
		if !bpf.IsRet(rest[len(rest)-1].Code) {
			rest[len(rest)-1] = bpf.Instruction{Code: bpf.RetA}
		}
		if bpf.Check(rest, c.jit.Kind, c.jit.Profile.Rules) != nil {
			return prog
		}
	}
}

// compile asks the JIT; what else goes wrong than a refusal the runner tells.
func (c *checker) compile(prog bpf.Program) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	_, err = c.jit.Compiler.Compile(prog, c.jit.Kind, c.jit.Profile)
	return err
}

// check compares one program on its inputs and reports the first divergence of a
// kind that is not known yet.
func (c *checker) check(t T, name string, prog bpf.Program) {
	t.Helper()
	if len(c.found) >= maxReports {
		return
	}
	if err := bpf.Check(prog, c.jit.Kind, c.jit.Profile.Rules); err != nil {
		c.declined, c.reason = c.declined+1, fmt.Sprintf("%s is refused by the checker of %s: %v", name, c.jit.Profile.Rules, err)
		return
	}
	inputs := c.solver.Solve(prog, c.jit.Kind, c.seed)
	if c.jit.Kind == bpf.Socket {
		inputs = slices.Concat(inputs, c.packets)
	}
	var err error
	if c.want, err = c.reference.Run(prog, c.jit.Kind, inputs, c.want[:0]); err == nil {
		c.got, err = c.runner.Run(prog, c.jit.Kind, inputs, c.got[:0])
	}
	if err != nil {
		t.Errorf("%s: %s: %v", c.runner.Name(), name, err)
		return
	}
	if c.got[0].Kind == harness.Refused {
		c.declined, c.reason = c.declined+1, c.got[0].Why
		return
	}
	c.compared++
	c.inputs += len(inputs)
	for i, in := range inputs {
		if c.judge.KindOf(c.want[i], c.got[i]) == "" {
			continue
		}
		d, err := c.judge.Judge(prog, in)
		switch {
		case err != nil:
			t.Errorf("%s: %s: %v", c.runner.Name(), name, err)
			return
		case d == nil:
			continue // undefined
		case slices.Contains(c.found, d.Signature):
			return
		}
		c.report(t, name, d)
		return
	}
}

// report makes a divergence small and tells it.
func (c *checker) report(t T, name string, d *judge.Divergence) {
	t.Helper()
	c.found = append(c.found, d.Signature)
	small := shrink.Shrink(d.Program, d.Input, c.judge.Shows(d.Signature), shrink.Options{Profile: c.jit.Profile})
	if smaller, err := c.judge.Judge(small.Program, small.Input); err == nil && smaller != nil {
		d = smaller
	}
	r := repro.New(d)
	r.Found = name
	r.Comments = []string{"Found by jitcheck.Check; jitcheck.CheckFiles runs this file again."}
	text, err := r.Format()
	if err != nil {
		t.Errorf("%s: %s: %s: %v", c.runner.Name(), name, d.Signature, err)
		return
	}
	t.Errorf("%s gives %s where the interpreter gives %s (%s at %s)\n%s; in a file %s:\n\n%s",
		c.runner.Name(), d.Got.Long(), d.Want.Long(), d.Kind, d.Rule, r.How, r.Name(), strings.TrimSuffix(string(text), "\n"))
}

func (c *checker) lastReason() string {
	if c.reason == "" {
		return ""
	}
	return ", the last because: " + c.reason
}
