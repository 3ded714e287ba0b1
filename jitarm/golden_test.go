package jitarm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/kjit-project/kjit/bpf"
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

func TestAllGoldens(t *testing.T) { testGoldens(t, shared(t, allGoldens), minimumOfAll) }

// shared returns a file of recorded facts beside the checkout, or skips.
func shared(t *testing.T, file string) string {
	if _, err := os.Stat(file); err != nil {
		t.Skip("the full set of records is not here; testdata has some of it")
	}
	return file
}

func testGoldens(t *testing.T, file string, atLeast int) {
	compilers := map[string]*Compiler{}
	count := 0
	for _, r := range readRecords[kernelabi.JITRecord](t, file) {
		count++
		p := recordProfile(t, r)
		// One compiler for all programs: nothing may stay from one to the next.
		if compilers[p.Emitter] == nil {
			compilers[p.Emitter] = mustEmitter(t, p.Emitter).NewCompiler()
		}
		if problem := checkRecord(compilers[p.Emitter], r, p); problem != "" {
			t.Errorf("%s %s %s %+v: %s", r.Kernel, r.Arch, r.Name, r.Features, problem)
		}
	}
	if count < atLeast {
		t.Errorf("%s has %d records, want at least %d", file, count, atLeast)
	}
	t.Logf("%d records", count)
}

// checkRecord says in what compiling a record's program differs from it.
func checkRecord(c *Compiler, r kernelabi.JITRecord, p *kernelabi.Profile) string {
	if err := bpf.Check(r.Program, r.Kind, p.Rules); err != nil || r.Result == kernelabi.ResultInvalid {
		if err == nil || r.Result != kernelabi.ResultInvalid {
			return fmt.Sprintf("the checker says %v, want result %s", err, r.Result)
		}
		return ""
	}
	image, err := c.Compile(r.Program, r.Kind, p)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		if r.Result != kernelabi.ResultNoJIT {
			return err.Error() + ", want result " + string(r.Result)
		}
		return ""
	case err != nil:
		return err.Error()
	case r.Image == nil:
		return "there is an image, want result " + string(r.Result)
	case !bytes.Equal(image.Code, *r.Image):
		return fmt.Sprintf("\ngot  %x\nwant %x", image.Code, []byte(*r.Image))
	}
	return checkMap(image)
}

// checkMap says what is wrong with the map from instructions to code.
func checkMap(image *kernelabi.Image) string {
	if len(image.PCMap) != image.Insns+1 {
		return fmt.Sprintf("the map has %d places for %d instructions", len(image.PCMap), image.Insns)
	}
	for i, at := range image.PCMap[1:] {
		if at < image.PCMap[i] || at%4 != 0 {
			return fmt.Sprintf("instruction %d starts at %#x and ends at %#x", i, image.PCMap[i], at)
		}
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
	e, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// readRecords reads a file with one JSON record a line.
func readRecords[T any](t testing.TB, file string) []T {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r T
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s:%d: %v", file, n, err)
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return records
}
