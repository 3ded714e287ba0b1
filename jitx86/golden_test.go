package jitx86

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
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

func TestAllGoldens(t *testing.T) {
	if _, err := os.Stat(allGoldens); err != nil {
		t.Skip("the full set of golden images is not here; testdata has some of it")
	}
	testGoldens(t, allGoldens, minimumOfAll)
}

func testGoldens(t *testing.T, file string, atLeast int) {
	compilers := map[string]*Compiler{}
	count := 0
	for _, r := range readRecords[kernelabi.JITRecord](t, file) {
		count++
		name := emitterOf(t, r)
		// One compiler for all programs: nothing may stay from one to the next.
		if compilers[name] == nil {
			e, err := ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			compilers[name] = e.NewCompiler()
		}
		if problem := checkRecord(compilers[name], r); problem != "" {
			t.Errorf("%s %s %s: %s", r.Kernel, r.LayoutName, r.Name, problem)
		}
	}
	if count < atLeast {
		t.Errorf("%s has %d records, want at least %d", file, count, atLeast)
	}
	t.Logf("%d records", count)
}

// checkRecord says in what compiling a record's program differs from it.
func checkRecord(c *Compiler, r kernelabi.JITRecord) string {
	rules := bpf.RulesLinux3_10
	if c.emitter.Name == "linux-3.0" {
		rules = bpf.RulesLinux3_0
	}
	accepted := bpf.Check(r.Program, r.Kind, rules) == nil
	if r.Result == kernelabi.ResultInvalid || !accepted {
		if accepted || r.Result != kernelabi.ResultInvalid {
			return fmt.Sprintf("the checker accepts it: %v, want result %s", accepted, r.Result)
		}
		return ""
	}
	image, err := c.Compile(r.Program, bpf.Socket, recordProfile(r))
	var refusal *kernelabi.Refusal
	if errors.As(err, &refusal) {
		switch {
		case r.Result != kernelabi.ResultNoJIT:
			return err.Error() + ", want result " + string(r.Result)
		case r.Note != "" && strings.ReplaceAll(refusal.Reason, " ", "-") != r.Note:
			return fmt.Sprintf("refused because of %q, want %q", refusal.Reason, r.Note)
		case r.Note == "" && refusal.PC < 0:
			return fmt.Sprintf("refused because of %q, want an instruction without a rule", refusal.Reason)
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if image.Unfilled != (r.Result == kernelabi.ResultUnfilled) {
		return fmt.Sprintf("unfilled is %v, want result %s", image.Unfilled, r.Result)
	}
	if r.Pass != 0 && image.Pass != r.Pass {
		return fmt.Sprintf("written in pass %d, want %d", image.Pass, r.Pass)
	}
	if image.Unfilled {
		return ""
	}
	if r.Image == nil {
		return "there is an image, want result " + string(r.Result)
	}
	if !bytes.Equal(image.Code, *r.Image) {
		return fmt.Sprintf("\ngot  %x\nwant %x", image.Code, []byte(*r.Image))
	}
	if mismatch := r.Note == "size-mismatch-warning"; mismatch != (len(image.Notes) > 0) {
		return fmt.Sprintf("notes %q, want a size mismatch: %v", image.Notes, mismatch)
	}
	return checkMap(image)
}

// checkMap says what is wrong with the map from instructions to code.
func checkMap(image *kernelabi.Image) string {
	if len(image.PCMap) != image.Insns+1 {
		return fmt.Sprintf("the map has %d places for %d instructions", len(image.PCMap), image.Insns)
	}
	for i, at := range image.PCMap[1:] {
		if at < image.PCMap[i] {
			return fmt.Sprintf("instruction %d starts behind its end", i)
		}
	}
	if last := image.PCMap[image.Insns]; last != len(image.Code) {
		return fmt.Sprintf("the map ends at %d, the code at %d", last, len(image.Code))
	}
	return ""
}

// emitterOf returns the emitter that reproduces a record.
func emitterOf(t *testing.T, r kernelabi.JITRecord) string {
	switch {
	case r.Kernel == "linux-3.0.1", r.Note == "linux-3.0 form":
		return "linux-3.0"
	case r.Kernel == "linux-3.10.99", r.Note == "linux-3.10 form":
		return "linux-3.10"
	}
	t.Fatalf("%s: no emitter for kernel %s, note %q", r.Name, r.Kernel, r.Note)
	return ""
}

// recordProfile is a profile that has what the record says and nothing else.
func recordProfile(r kernelabi.JITRecord) *kernelabi.Profile {
	return r.Profile(&kernelabi.Profile{
		Name: r.Kernel, Arch: kernelabi.X86_64, Symbols: map[string]uint64{},
	})
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
