package jitcheck_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/jitcheck"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// recorder is a T that keeps what is reported.
type recorder struct{ logs, errors []string }

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(f string, a ...any)   { r.logs = append(r.logs, fmt.Sprintf(f, a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }

func profile(t *testing.T, name string) *kernelabi.Profile {
	t.Helper()
	p, err := kernelabi.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compiler is the emitter of a name, on either architecture.
func compiler(t *testing.T, name string) jitcheck.Compiler {
	t.Helper()
	if e, err := jitx86.ByName(name); err == nil {
		return e.NewCompiler()
	}
	e, err := jitarm.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return e.NewCompiler()
}

// The correct emitters pass, with compilers that reuse their buffers.
func TestCheckPasses(t *testing.T) {
	for _, tt := range []struct {
		emitter, profile string
		kind             bpf.Kind
	}{
		{"linux-3.10", "linux-3.10-x86_64", bpf.Socket},
		{"inline", "inline-x86_64", bpf.Socket},
		{"kjit-arm", "kjit-armv5", bpf.Socket},
		{"kjit-arm", "kjit-armv7", bpf.Seccomp},
	} {
		r := &recorder{}
		jitcheck.Check(r, jitcheck.JIT{Name: tt.emitter, Compiler: compiler(t, tt.emitter), Profile: profile(t, tt.profile), Kind: tt.kind})
		t.Log(strings.Join(r.logs, "\n"))
		if len(r.errors) > 0 {
			t.Errorf("%s on %s filters:\n%s", tt.emitter, tt.kind, strings.Join(r.errors, "\n"))
		}
	}
}

// Faults are found without anybody naming a program.
func TestCheckFindsFaults(t *testing.T) {
	for _, tt := range []struct{ emitter, profile, says string }{
		{"x86-and-imm16", "linux-3.10-x86_64", "(value at and-k)"},
		{"x86-divk-reciprocal", "linux-3.10-x86_64", "(value at div-k)"},
		{"arm-rsh0", "kjit-armv5", "(value at rsh-k)"},
		{"arm-scratch-byte-offset", "kjit-armv7", "(value at st)"},
	} {
		r := &recorder{}
		jitcheck.Check(r, jitcheck.JIT{Compiler: compiler(t, tt.emitter), Profile: profile(t, tt.profile)})
		if all := strings.Join(r.errors, "\n"); !strings.Contains(all, tt.says) {
			t.Errorf("%s: %d reports, none %s:\n%s", tt.emitter, len(r.errors), tt.says, all)
		}
		if len(r.errors) > 5 {
			t.Errorf("%s: %d reports", tt.emitter, len(r.errors))
		}
	}
}

// compilers that do not do what one does.
type compilerFunc func(prog bpf.Program) (*kernelabi.Image, error)

func (f compilerFunc) Compile(prog bpf.Program, _ bpf.Kind, _ *kernelabi.Profile) (*kernelabi.Image, error) {
	return f(prog)
}

func TestCheckBadCompilers(t *testing.T) {
	ret := []byte{0x31, 0xc0, 0xc3}
	for _, tt := range []struct {
		desc    string
		compile compilerFunc
		says    string
	}{
		{"One that panics.", func(prog bpf.Program) (*kernelabi.Image, error) {
			return &kernelabi.Image{Code: ret[len(prog)+9:]}, nil
		}, "the compiler panics: runtime error: slice bounds"},
		{"One that fails.", func(bpf.Program) (*kernelabi.Image, error) { return nil, errors.New("out of luck") }, "the compiler fails: out of luck"},
		{"One that returns nothing.", func(bpf.Program) (*kernelabi.Image, error) { return nil, nil }, "gives no code, and no reason"},
		{"One with a map of another length.", func(bpf.Program) (*kernelabi.Image, error) { return &kernelabi.Image{Code: ret, PCMap: []int{0}}, nil }, "the image's PCMap has 1 offsets"},
		{"One with a map that leads out of the code.", func(prog bpf.Program) (*kernelabi.Image, error) {
			m := make([]int, len(prog)+1)
			m[len(prog)] = 9
			return &kernelabi.Image{Code: ret, PCMap: m}, nil
		}, "does not ascend"},
		{"One without a map that is wrong.", func(bpf.Program) (*kernelabi.Image, error) { return &kernelabi.Image{Code: ret}, nil }, "(value at unknown)"},
		{"One that loops.", func(bpf.Program) (*kernelabi.Image, error) { return &kernelabi.Image{Code: []byte{0xeb, 0xfe}}, nil }, "(timeout at"},
		{"One that leaves all to the interpreter.", func(bpf.Program) (*kernelabi.Image, error) {
			return nil, &kernelabi.Refusal{PC: -1, Reason: "not today"}
		}, "nothing was compared, the last because: not compiled: not today"},
	} {
		r := &recorder{}
		jitcheck.Check(r, jitcheck.JIT{Compiler: tt.compile, Profile: profile(t, "linux-3.10-x86_64")},
			bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.AddK, K: 1}, {Code: bpf.RetA}}, bpf.Program{{Code: bpf.RetK, K: 3}})
		if len(r.errors) != 1 || !strings.Contains(r.errors[0], tt.says) {
			t.Errorf("%s got %q, want %s", tt.desc, r.errors, tt.says)
		}
	}
	r := &recorder{}
	jitcheck.Check(r, jitcheck.JIT{})
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "needs a Compiler and a Profile") {
		t.Errorf("nothing to check: %q", r.errors)
	}
}

// A report is a file that fails the JIT it was found in and passes another.
func TestCheckFiles(t *testing.T) {
	r, p := &recorder{}, profile(t, "linux-3.10-x86_64")
	faulty := jitcheck.JIT{Compiler: compiler(t, "x86-and-imm16"), Profile: p}
	jitcheck.Check(r, faulty, bpf.Program{{Code: bpf.LdImm, K: 0x12345678}, {Code: bpf.AndK, K: 0xffff0000}, {Code: bpf.RetA}})
	if len(r.errors) != 1 {
		t.Fatalf("%q", r.errors)
	}
	_, text, _ := strings.Cut(r.errors[0], ":\n\n")
	file := filepath.Join(t.TempDir(), "jit.and-k.value.txtar")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	again := &recorder{}
	jitcheck.CheckFiles(again, faulty, file)
	if len(again.errors) != 1 || !strings.Contains(again.errors[0], "(value at and-k)") {
		t.Errorf("the faulty JIT: %q", again.errors)
	}
	good := &recorder{}
	jitcheck.CheckFiles(good, jitcheck.JIT{Compiler: compiler(t, "linux-3.10"), Profile: p}, file)
	if len(good.errors) != 0 {
		t.Errorf("the correct JIT: %q", good.errors)
	}
	missing := &recorder{}
	jitcheck.CheckFiles(missing, faulty, file+".none")
	if len(missing.errors) != 1 {
		t.Errorf("a file that is not there: %q", missing.errors)
	}
}

// A JIT that takes a handful of opcodes is checked on them all the same: of
// programs with all opcodes hardly one has no others.
func TestCheckPartial(t *testing.T) {
	whole, p := compiler(t, "x86-neg-not"), profile(t, "linux-3.10-x86_64")
	partial := compilerFunc(func(prog bpf.Program) (*kernelabi.Image, error) {
		for pc, in := range prog {
			switch in.Code {
			case bpf.LdImm, bpf.AddK, bpf.Neg, bpf.RetA:
			default:
				return nil, &kernelabi.Refusal{PC: pc, Reason: "no rule"}
			}
		}
		return whole.Compile(prog, bpf.Socket, p)
	})
	r := &recorder{}
	jitcheck.Check(r, jitcheck.JIT{Compiler: partial, Profile: p})
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "(value at neg)") {
		t.Errorf("%q, %q", r.errors, r.logs)
	}
}
