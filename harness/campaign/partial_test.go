package campaign

import (
	"slices"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// few is the JIT of Linux 3.10 with few opcodes.
type few struct {
	*jitx86.Compiler
	codes []uint16
}

func (f few) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	for pc, in := range prog {
		if !slices.Contains(f.codes, in.Code) {
			return nil, &kernelabi.Refusal{PC: pc, Reason: "not yet"}
		}
	}
	return f.Compiler.Compile(prog, kind, p)
}

// TestPartial: of a JIT that takes few opcodes most programs are compared all the
// same, and all of these opcodes.
func TestPartial(t *testing.T) {
	for _, codes := range [][]uint16{
		{bpf.RetK},
		{bpf.RetA, bpf.LdImm, bpf.AddK, bpf.AndK},
		{bpf.RetK, bpf.LdHAbs, bpf.JeqK, bpf.LdMem},
	} {
		e, err := jitx86.ByName("linux-3.10")
		if err != nil {
			t.Fatal(err)
		}
		p, err := kernelabi.ProfileByName("linux-3.10-x86_64")
		if err != nil {
			t.Fatal(err)
		}
		s := Default()
		s.Seed, s.Size, s.JITs = seed(t, 1), 60, []string{"few"}
		cfg, err := NewConfig(s, Target{Name: "few", Profile: p, Open: func() (harness.Imager, error) {
			return harness.NewCompiled("few", few{e.NewCompiler(), codes}, p), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		state := NewState(&cfg.Settings)
		merge(t, state, newWorker(t, cfg))
		got := &state.Targets[0]
		if got.Agree < 9*got.NotRun || got.Agree < 100 || got.Diverge > 0 {
			t.Errorf("%d opcodes: %+v", len(codes), *got)
		}
		for _, code := range codes {
			// What a checker refuses everywhere else, such as a load of M[] that
			// nothing stored, does not come.
			if _, ok := slices.BinarySearch(state.Opcodes, uint32(code)); !ok && code != bpf.LdMem {
				t.Errorf("opcode %#x of %d did not run", code, len(codes))
			}
		}
	}
}
