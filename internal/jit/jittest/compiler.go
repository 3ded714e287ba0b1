package jittest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// An ErrorCase is a program that cannot be compiled for a profile.
type ErrorCase = struct {
	Desc    string
	Prog    bpf.Program
	Kind    bpf.Kind
	Profile *kernelabi.Profile
	Refused bool   // by the kernel: the error is a refusal
	Want    string // in the error's text
}

// TestErrors compiles programs that no emitter takes for a profile without the
// optional fields and without helpers, and those of cases. The compiler is one
// for all: no error may stay from one to the next.
func TestErrors(t *testing.T, c Compiler, bare *kernelabi.Profile, cases []ErrorCase) {
	ret := bpf.Instruction{Code: bpf.RetA}
	ext := func(e bpf.Extension) bpf.Instruction { return bpf.Instruction{Code: bpf.LdWAbs, K: e.K()} }
	for _, test := range append([]ErrorCase{
		{"a program of no instructions", nil, bpf.Socket, bare, false, "0 instructions"},
		{"a program that is too long", make(bpf.Program, 4097), bpf.Socket, bare, false, "4097 instructions"},
		{"a program whose end can be passed", bpf.Program{{Code: bpf.LdLen}}, bpf.Socket, bare, false,
			"instruction 0: the last instruction does not return"},
		{"a jump out of the program", bpf.Program{{Code: bpf.Ja, K: 1}, ret}, bpf.Socket, bare, false,
			"instruction 0: jumps out"},
		{"a jump that wraps", bpf.Program{{Code: bpf.Ja, K: 0xffffffff}, ret}, bpf.Socket, bare, false,
			"instruction 0: jumps out"},
		{"a conditional jump out of the program", bpf.Program{{Code: bpf.JeqK, JF: 1}, ret}, bpf.Socket, bare, false,
			"instruction 0: jumps out"},
		{"a cell that does not exist", bpf.Program{{Code: bpf.St, K: 16}, ret}, bpf.Socket, bare, false, "M[16]"},
		{"a load behind the data of a system call", bpf.Program{{Code: bpf.LdWAbs, K: 64}, ret}, bpf.Seccomp, bare, false,
			"instruction 0: loads at 64"},
		{"a field that the layout lacks", bpf.Program{ext(bpf.ExtMark), ret}, bpf.Socket, bare, false,
			"instruction 0: the layout has no sk_buff.mark: add it with --layout sk_buff.mark=OFFSET"},
		{"an ancillary load without a rule", bpf.Program{ext(bpf.ExtNlattr), ret}, bpf.Socket, bare, true,
			"instruction 0: no rule for nla"},
		{"an unknown opcode", bpf.Program{{Code: 0xff}, ret}, bpf.Socket, bare, true, "instruction 0: no rule for opcode 0xff"},
		{"an opcode above a byte", bpf.Program{{Code: 0x1234}, ret}, bpf.Socket, bare, true, "no rule for opcode 0x1234"},
		{"a refusal behind a missing field: the kernel's answer comes first", bpf.Program{
			ext(bpf.ExtMark), ext(bpf.ExtRandom), ret}, bpf.Socket, bare, true, "instruction 1: no rule for rand"},
	}, cases...) {
		image, err := c.Compile(test.Prog, test.Kind, test.Profile)
		if err == nil || !strings.Contains(err.Error(), test.Want) {
			t.Errorf("%s: got %v, %v; want error %q", test.Desc, image, err, test.Want)
		}
		var refusal *kernelabi.Refusal
		if errors.As(err, &refusal) != test.Refused {
			t.Errorf("%s: %v is a refusal: %v, want %v", test.Desc, err, !test.Refused, test.Refused)
		}
	}
}

// Emitter is byName for a name that has to be there.
func Emitter[E any](t testing.TB, byName func(string) (E, error), name string) E {
	t.Helper()
	e, err := byName(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestByName finds every emitter of a list and the one that it is based on,
// which is "" for those without a fault.
func TestByName[E interface {
	comparable
	fmt.Stringer
}](t *testing.T, emitters []E, byName func(string) (E, error), base func(E) string) {
	for _, e := range emitters {
		if got, err := byName(e.String()); got != e || err != nil {
			t.Errorf("ByName(%q) = %v, %v", e, got, err)
		}
		if base := base(e); base != "" {
			if _, err := byName(base); err != nil {
				t.Errorf("%s is made of an emitter that does not exist: %v", e, err)
			}
		}
	}
	_, err := byName("linux-2.6")
	for _, e := range emitters {
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(e.String())) {
			t.Errorf("an unknown emitter gave %v, want an error that lists %s", err, e)
		}
	}
}

// TestAllocations compiles the programs of some records for a profile again and
// again. Refusals and remarks do allocate, and are left out; of the others
// there have to be some.
func TestAllocations(t *testing.T, emitter string, c Compiler, records []kernelabi.JITRecord, p *kernelabi.Profile, atLeast int) {
	var compiled []kernelabi.JITRecord
	for _, r := range records {
		if image, err := c.Compile(r.Program, r.Kind, p); err == nil && len(image.Notes) == 0 {
			compiled = append(compiled, r)
		}
	}
	if len(compiled) < atLeast {
		t.Errorf("%s on %s compiled %d programs only, want %d", emitter, p.Name, len(compiled), atLeast)
	}
	allocs := testing.AllocsPerRun(5, func() {
		for _, r := range compiled {
			if _, err := c.Compile(r.Program, r.Kind, p); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%s on %s: %v allocations for %d programs, want 0", emitter, p.Name, allocs, len(compiled))
	}
}

// LongProgram is a program of 1000 instructions.
func LongProgram() (prog bpf.Program) {
	for len(prog) < 999 {
		prog = append(prog,
			bpf.Instruction{Code: bpf.LdHAbs, K: 12}, bpf.Instruction{Code: bpf.JeqK, JF: 3, K: 0x800},
			bpf.Instruction{Code: bpf.LdxMsh, K: 14}, bpf.Instruction{Code: bpf.LdWInd, K: 16},
			bpf.Instruction{Code: bpf.AndK, K: 0xffffff00}, bpf.Instruction{Code: bpf.AddX},
			bpf.Instruction{Code: bpf.St, K: 3}, bpf.Instruction{Code: bpf.JgtX, JT: 1}, bpf.Instruction{Code: bpf.Txa})
	}
	return append(prog, bpf.Instruction{Code: bpf.RetA})
}

// Benchmark reports the time per BPF instruction, all passes together. It skips
// a program that the kernel does not compile.
func Benchmark(b *testing.B, c Compiler, prog bpf.Program, p *kernelabi.Profile) {
	if _, err := c.Compile(prog, bpf.Socket, p); err != nil {
		b.Skip(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Compile(prog, bpf.Socket, p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(prog)), "ns/insn")
}
