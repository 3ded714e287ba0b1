package jitarm

import (
	"fmt"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

const (
	goldens      = "testdata/goldens.jsonl"                  // some of
	allGoldens   = "../../shared/data/jit-goldens/arm.jsonl" // these
	minimumOfAll = 786                                       // records that the full file is known to have
)

// TestGoldens compiles the programs of the golden records: the image has to be
// the kernel's, byte for byte, and a refusal the kernel's.
func TestGoldens(t *testing.T) { testGoldens(t, goldens, 100) }

func TestAllGoldens(t *testing.T) { testGoldens(t, jittest.Shared(t, allGoldens), minimumOfAll) }

func testGoldens(t *testing.T, file string, atLeast int) {
	newCompiler := func(emitter string) jittest.Compiler { return mustEmitter(t, emitter).NewCompiler() }
	jittest.Goldens(t, file, atLeast, recordProfile, newCompiler, checkMap)
}

// checkMap says what is wrong with the map from instructions to code.
func checkMap(image *kernelabi.Image) string {
	if problem := jittest.CheckMap(image, 4); problem != "" {
		return problem
	}
	if last := image.PCMap[image.Insns]; last >= len(image.Code) {
		return fmt.Sprintf("the map ends at %d, the code at %d", last, len(image.Code))
	}
	return ""
}

// recordProfile is a profile that has what the record says and nothing else.
func recordProfile(t *testing.T, r kernelabi.JITRecord) *kernelabi.Profile {
	name := map[string]string{"linux-3.12.9": "linux-3.12", "linux-4.5": "linux-4.5"}[r.Kernel]
	if name == "" {
		t.Fatalf("%s: no emitter for kernel %s", r.Name, r.Kernel)
	}
	p := r.Profile(&kernelabi.Profile{
		Name: r.Kernel, Arch: r.Arch, Emitter: name + "-arm", Symbols: map[string]uint64{},
		Rules: kernels[name].Rules,
	})
	p.Features = r.Features
	return p
}

// kernels are the kernels without a processor: the checkers that the recorded
// JITs stood behind, and what a program means there.
var kernels = map[string]kernelabi.Profile{
	"linux-3.12": {
		Rules:     bpf.Rules{Name: "linux-3.12", NewExtension: bpf.ExtRandom, AnyShift: true},
		Semantics: kernelabi.Semantics{VlanPresentInTCI: true},
	},
	"linux-4.5": {
		Rules:     bpf.Rules{Name: "linux-4.5", AnyShift: true},
		Semantics: kernelabi.Semantics{VlanPresentInTCI: true},
	},
}

func mustEmitter(t testing.TB, name string) *Emitter {
	t.Helper()
	return jittest.Emitter(t, ByName, name)
}
