package kernelabi

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// sharedData is the folder of recorded facts beside a checkout.
const sharedData = "../../shared/data"

// shared returns the path of a file of recorded facts, or skips the test.
func shared(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(sharedData, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the recorded facts are not here: %v", err)
	}
	return path
}

// readRecords reads a file of one JSON record a line.
func readRecords[T any](t *testing.T, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		var record T
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		records = append(records, record)
	}
	if err := lines.Err(); err != nil || len(records) == 0 {
		t.Fatalf("%s: %d records, error %v", path, len(records), err)
	}
	return records
}

func TestJITRecordRoundTrip(t *testing.T) { roundTrip[JITRecord](t, "testdata/goldens.jsonl") }

func TestMutantRecordRoundTrip(t *testing.T) { roundTrip[MutantRecord](t, "testdata/mutants.jsonl") }

func roundTrip[T any](t *testing.T, path string) {
	for _, record := range readRecords[T](t, path) {
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		var again T
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(record, again); diff != "" {
			t.Errorf("a record changed by writing and reading it:\n%s", diff)
		}
	}
}

func TestSharedRecordsAreRead(t *testing.T) {
	for _, name := range []string{"x86_64.jsonl", "arm.jsonl"} {
		path := shared(t, "jit-goldens/"+name)
		t.Logf("%s: %d records", name, len(readRecords[JITRecord](t, path)))
	}
	path := shared(t, "jit-goldens/mutants.jsonl")
	t.Logf("mutants: %d records", len(readRecords[MutantRecord](t, path)))
}

func TestRecordErrors(t *testing.T) {
	const golden = `{"name":"n","kernel":"k","arch":"x86_64","kind":"socket","program":[[6,0,0,0]],"base":null,"symbols":{},"layout":{},"layout_name":"","features":{},"result":"ok","image":"c3"}`
	const mutant = `{"name":"n","type":"trap","mutant":"m","arch":"any","program":[[6,0,0,0]],"packet":"00","headlen":1,"skb":{},"want":"0x0","measured":{},"evidence":""}`
	for _, test := range []struct {
		desc, text, old, new, want string
		into                       any
	}{
		{"a golden with an unknown field names it", golden, `"name"`, `"nome"`, `unknown field "nome"`, new(JITRecord)},
		{"a golden with a bad hex digit says where", golden, `"c3"`, `"c3x0"`, "character 2", new(JITRecord)},
		{"a golden that is ok has an image", golden, `"c3"`, `null`, "do not fit together", new(JITRecord)},
		{"a golden with an unknown result lists them", golden, `"ok"`, `"fine"`, "want ok, nojit", new(JITRecord)},
		{"a golden's code that does not fit in 16 bits", golden, `[[6,`, `[[65536,`, "code = 65536", new(JITRecord)},
		{"a mutant with an unknown field names it", mutant, `"mutant"`, `"mutunt"`, `unknown field "mutunt"`, new(MutantRecord)},
		{"a mutant with a bad packet says where", mutant, `"packet":"00"`, `"packet":"0"`, "packet: character 1", new(MutantRecord)},
		{"a mutant's unknown metadata is an error", mutant, `"skb":{}`, `"skb":{"colour":1}`, `unknown field "colour"`, new(MutantRecord)},
		{"a mutant is a mutant or a trap", mutant, `"trap"`, `"bug"`, "want mutant or trap", new(MutantRecord)},
		{"a result has 32 bits", mutant, `"0x0"`, `"0x100000000"`, "32 bits", new(MutantRecord)},
		{"a number without 0x is refused", mutant, `"0x0"`, `"12"`, "want 0x", new(MutantRecord)},
	} {
		t.Run(test.desc, func(t *testing.T) {
			if err := json.Unmarshal([]byte(test.text), test.into); err != nil {
				t.Fatalf("the record without the fault: %v", err)
			}
			err := json.Unmarshal([]byte(strings.Replace(test.text, test.old, test.new, 1)), test.into)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// The expected results of the mutant records hold for the interpreter on an Skb.
func TestMutantsWanted(t *testing.T) { checkWanted(t, "testdata/mutants.jsonl") }

func TestSharedMutantsWanted(t *testing.T) { checkWanted(t, shared(t, "jit-goldens/mutants.jsonl")) }

func checkWanted(t *testing.T, path string) {
	for _, r := range readRecords[MutantRecord](t, path) {
		machine, err := bpf.Compile(r.Program, bpf.Socket, bpf.RulesLinux3_10)
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		if got := machine.Run(r.Input.Under(semantics3)).Value; got != r.Want {
			t.Errorf("%s: got %#x, want %#x", r.Name, got, r.Want)
		}
	}
}

// kernelRecord holds what these tests need of a record of a running kernel.
type kernelRecord struct {
	Name    string
	Kind    bpf.Kind
	Program bpf.Program
	Inputs  []json.RawMessage
	Results []uint32
	Errno   int
}

// The recorded results of the kernel images hold for the interpreter on an Skb.
// They come from another interpreter, which the images were compared with; those
// of ARM differ from it for some shifts by X. Seccomp filters have no packets.
func TestKernelImagePackets(t *testing.T) {
	runs := checkKernelRecords(t, "testdata/kernel-images.jsonl")
	if runs < 50 {
		t.Errorf("%d runs are too few for the subset of records", runs)
	}
}

func TestSharedKernelImagePackets(t *testing.T) {
	for _, name := range []string{"6.18-x86_64", "6.1-amd64", "6.1-armv7", "6.1-armv6", "6.1-armv5"} {
		path := shared(t, "kernel-images/"+name+".jsonl")
		t.Logf("%s: %d runs", name, checkKernelRecords(t, path))
	}
}

func checkKernelRecords(t *testing.T, path string) (runs int) {
	for _, r := range readRecords[kernelRecord](t, path) {
		if r.Kind != bpf.Socket || len(r.Inputs) == 0 {
			continue
		}
		machine, err := bpf.Compile(r.Program, r.Kind, bpf.RulesCurrent)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		for i, text := range r.Inputs {
			var skb Skb
			if err := json.Unmarshal(text, &skb); err != nil {
				t.Fatalf("%s: input %d: %v", r.Name, i, err)
			}
			// These kernels took negative offsets from the linear part only.
			sem := Current().Semantics
			sem.NegativeOffsetsReachFrags = false
			if got := machine.Run(skb.Under(sem)).Value; got != r.Results[i] {
				t.Errorf("%s: input %d %s: got %#x, want %#x", r.Name, i, text, got, r.Results[i])
			}
			runs++
		}
	}
	return runs
}
