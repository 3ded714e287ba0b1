package jitx86

import (
	"fmt"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

const (
	goldens      = "testdata/goldens.jsonl"                      // some of
	allGoldens   = "../../shared/data/jit-goldens/x86_64.jsonl"  // these
	allMutants   = "../../shared/data/jit-goldens/mutants.jsonl" // programs that show faults
	minimumOfAll = 600                                           // records that the full file is known to have
)

// TestGoldens compiles the programs of the golden records: the image has to be
// the kernel's, byte for byte, and a refusal the kernel's.
func TestGoldens(t *testing.T) { testGoldens(t, goldens, 20) }

func TestAllGoldens(t *testing.T) { testGoldens(t, jittest.Shared(t, allGoldens), minimumOfAll) }

func testGoldens(t *testing.T, file string, atLeast int) {
	newCompiler := func(emitter string) jittest.Compiler { return mustEmitter(t, emitter).NewCompiler() }
	jittest.Goldens(t, file, atLeast, recordProfile, newCompiler, checkMap)
}

// checkMap says what is wrong with the map from instructions to code.
func checkMap(image *kernelabi.Image) string {
	if problem := jittest.CheckMap(image, 1); problem != "" {
		return problem
	}
	if last := image.PCMap[image.Insns]; last != len(image.Code) {
		return fmt.Sprintf("the map ends at %d, the code at %d", last, len(image.Code))
	}
	return ""
}

// recordProfile is a profile that has what the record says and nothing else. It
// names the emitter that reproduces the record, and the checker in front of it.
func recordProfile(t *testing.T, r kernelabi.JITRecord) *kernelabi.Profile {
	p := &kernelabi.Profile{Name: r.Kernel, Arch: kernelabi.X86_64, Symbols: map[string]uint64{}}
	switch {
	case r.Kernel == "linux-3.0.1", r.Note == "linux-3.0 form":
		p.Emitter, p.Rules = "linux-3.0", bpf.RulesLinux3_0
	case r.Kernel == "linux-3.10.99", r.Note == "linux-3.10 form":
		p.Emitter, p.Rules = "linux-3.10", bpf.RulesLinux3_10
	default:
		t.Fatalf("%s: no emitter for kernel %s, note %q", r.Name, r.Kernel, r.Note)
	}
	return r.Profile(p)
}

func mustEmitter(t testing.TB, name string) *Emitter {
	t.Helper()
	return jittest.Emitter(t, ByName, name)
}
