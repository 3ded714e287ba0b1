// Package jittest holds what the tests of all emitters and encoders share.
package jittest

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

// Compiler is what emitters and their compilers have in common.
type Compiler interface {
	Compile(bpf.Program, bpf.Kind, *kernelabi.Profile) (*kernelabi.Image, error)
}

// Records reads a file with one JSON record a line.
func Records[T any](t testing.TB, file string) []T {
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

// Record returns the first golden record of a name for an architecture.
func Record(t testing.TB, file, name string, arch kernelabi.Arch) kernelabi.JITRecord {
	t.Helper()
	for _, r := range Records[kernelabi.JITRecord](t, file) {
		if r.Name == name && r.Arch == arch {
			return r
		}
	}
	t.Fatalf("%s has no record %s for %s", file, name, arch)
	panic("unreachable")
}

// Shared returns a file of recorded facts beside the checkout, or skips.
func Shared(t *testing.T, file string) string {
	if _, err := os.Stat(file); err != nil {
		t.Skip("the full set of records is not here; testdata has some of it")
	}
	return file
}

// Goldens compiles the programs of a file of golden records: an image has to be
// the kernel's, byte for byte, and a refusal the kernel's. A profile has what
// the record says and nothing else; it names the emitter and the checker.
func Goldens(t *testing.T, file string, atLeast int,
	profileOf func(*testing.T, kernelabi.JITRecord) *kernelabi.Profile,
	newCompiler func(emitter string) Compiler,
	checkMap func(*kernelabi.Image) string,
) {
	compilers := map[string]Compiler{}
	count := 0
	for _, r := range Records[kernelabi.JITRecord](t, file) {
		count++
		p := profileOf(t, r)
		// One compiler for all programs: nothing may stay from one to the next.
		if compilers[p.Emitter] == nil {
			compilers[p.Emitter] = newCompiler(p.Emitter)
		}
		image, problem := checkRecord(compilers[p.Emitter], r, p)
		if problem == "" && image != nil {
			problem = checkMap(image)
		}
		if problem != "" {
			t.Errorf("%s %s %s %s %+v: %s", r.Kernel, r.Arch, r.LayoutName, r.Name, r.Features, problem)
		}
	}
	if count < atLeast {
		t.Errorf("%s has %d records, want at least %d", file, count, atLeast)
	}
	t.Logf("%d records", count)
}

// checkRecord says in what compiling a record's program differs from it. It
// returns the image if there has to be one.
func checkRecord(c Compiler, r kernelabi.JITRecord, p *kernelabi.Profile) (*kernelabi.Image, string) {
	if err := bpf.Check(r.Program, r.Kind, p.Rules); err != nil || r.Result == kernelabi.ResultInvalid {
		if err == nil || r.Result != kernelabi.ResultInvalid {
			return nil, fmt.Sprintf("the checker says %v, want result %s", err, r.Result)
		}
		return nil, ""
	}
	image, err := c.Compile(r.Program, r.Kind, p)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, checkRefusal(refusal, r)
	case err != nil:
		return nil, err.Error()
	case image.Unfilled != (r.Result == kernelabi.ResultUnfilled):
		return nil, fmt.Sprintf("unfilled is %v, want result %s", image.Unfilled, r.Result)
	case r.Pass != 0 && image.Pass != r.Pass:
		return nil, fmt.Sprintf("written in pass %d, want %d", image.Pass, r.Pass)
	case image.Unfilled:
		return nil, ""
	case r.Image == nil:
		return nil, "there is an image, want result " + string(r.Result)
	case !image.BaseKnown || image.Base != p.Base:
		return nil, fmt.Sprintf("made for %#x (known: %v), want %#x", image.Base, image.BaseKnown, p.Base)
	case !bytes.Equal(image.Code, *r.Image):
		return nil, fmt.Sprintf("\ngot  %x\nwant %x", image.Code, []byte(*r.Image))
	}
	if mismatch := r.Note == "size-mismatch-warning"; mismatch != (len(image.Notes) > 0) {
		return nil, fmt.Sprintf("notes %q, want a size mismatch: %v", image.Notes, mismatch)
	}
	return image, ""
}

// checkRefusal: a record's note is the reason that no single instruction gives.
func checkRefusal(refusal *kernelabi.Refusal, r kernelabi.JITRecord) string {
	switch {
	case r.Result != kernelabi.ResultNoJIT:
		return refusal.Error() + ", want result " + string(r.Result)
	case r.Note != "" && hyphened(refusal.Reason) != r.Note:
		return fmt.Sprintf("refused because of %q, want %q", refusal.Reason, r.Note)
	case r.Note == "" && refusal.PC < 0:
		return fmt.Sprintf("refused because of %q, want an instruction without a rule", refusal.Reason)
	}
	return ""
}

// hyphened is a reason as records write it.
func hyphened(reason string) string { return strings.ReplaceAll(reason, " ", "-") }

// CheckMap says what is wrong with the map from instructions to code, whose
// places are multiples of align. Where it ends is the caller's to judge.
func CheckMap(image *kernelabi.Image, align int) string {
	if len(image.PCMap) != image.Insns+1 {
		return fmt.Sprintf("the map has %d places for %d instructions", len(image.PCMap), image.Insns)
	}
	for i, at := range image.PCMap[1:] {
		if at < image.PCMap[i] || at%align != 0 {
			return fmt.Sprintf("instruction %d starts at %#x and ends at %#x", i, image.PCMap[i], at)
		}
	}
	return ""
}

// Outcome is how an emitter's code ends on a packet.
type Outcome struct {
	Value   uint32
	Fault   bool // a crash, a breakpoint, an endless loop, an image never written
	Refused string
}

// Differs says in what an outcome is not what was measured. What a crash does
// depends on the memory around the code and packet: here it may be another
// wrong value.
func (got Outcome) Differs(measured kernelabi.Measured, want uint32) string {
	switch measured.Outcome {
	case "value":
		if value := uint32(*measured.Value); got != (Outcome{Value: value}) {
			return fmt.Sprintf("want value %#x", value)
		}
	case "fatal-error":
		if hyphened(got.Refused) != measured.Outcome {
			return "want a refusal: " + measured.Outcome
		}
	case "nojit":
		if got.Refused == "" {
			return "want a refusal"
		}
	case "crash":
		if got.Refused != "" || got == (Outcome{Value: want}) {
			return "want a crash"
		}
	case "int3", "endless-loop":
		if !got.Fault {
			return "want a fault"
		}
	default:
		return "cannot judge outcome " + measured.Outcome
	}
	return ""
}

// Run compiles a socket filter and executes its image.
func Run(t testing.TB, c Compiler, prog bpf.Program, p *kernelabi.Profile, execute func(*kernelabi.Image) (uint32, error)) (Outcome, error) {
	t.Helper()
	image, err := c.Compile(prog, bpf.Socket, p)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		return Outcome{Refused: refusal.Reason}, err
	case err != nil:
		t.Fatal(err)
	}
	value, err := execute(image)
	return Outcome{Value: value, Fault: err != nil}, err
}

// Reference is what the interpreter says.
func Reference(t testing.TB, prog bpf.Program, skb *kernelabi.Skb, p *kernelabi.Profile) bpf.Result {
	t.Helper()
	machine, err := bpf.Compile(prog, bpf.Socket, p.Rules)
	if err != nil {
		t.Fatal(err)
	}
	return machine.Run(skb.Under(p.Semantics))
}
