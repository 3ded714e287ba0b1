package seccompdata

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

var sample = Data{
	Nr: 0xffffffff, Arch: 0xc000003e, IP: 0x1122334455667788,
	Args: [6]uint64{0x0102030405060708, 1, 2, 3, 4, 0xfedcba9876543210},
}

// Every word that a filter can load is the word of the struct in memory.
func TestLoadsAreTheStruct(t *testing.T) {
	memory := sample.Append(nil)
	if len(memory) != Size {
		t.Fatalf("%d bytes", len(memory))
	}
	for off := uint32(0); off < Size; off += 4 {
		got, ok := sample.Load(off, 4)
		if want := binary.LittleEndian.Uint32(memory[off:]); !ok || got != want {
			t.Errorf("load at %d: %#x, %v, want %#x", off, got, ok, want)
		}
	}
	for _, bad := range []struct {
		off  uint32
		size int
	}{{64, 4}, {62, 4}, {2, 4}, {0, 2}, {0, 1}, {0xfffffffc, 4}} {
		if _, ok := sample.Load(bad.off, bad.size); ok {
			t.Errorf("a load of %d bytes at %#x gives something", bad.size, bad.off)
		}
	}
}

func TestFiltersRun(t *testing.T) {
	for _, tt := range []struct {
		desc string
		load bpf.Instruction
		want uint32
	}{
		{"The number is loaded in host order.", bpf.Instruction{Code: bpf.LdWAbs, K: OffNr}, 0xffffffff},
		{"The low half of an argument comes first.", bpf.Instruction{Code: bpf.LdWAbs, K: OffArgs}, 0x05060708},
		{"The high half of the last argument is the last word.", bpf.Instruction{Code: bpf.LdWAbs, K: 60}, 0xfedcba98},
		{"The length is that of the struct.", bpf.Instruction{Code: bpf.LdLen}, 64},
	} {
		m, err := bpf.Compile(bpf.Program{tt.load, {Code: bpf.RetA}}, bpf.Seccomp, bpf.RulesCurrent)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Run(&sample).Value; got != tt.want {
			t.Errorf("%s got %#x, want %#x", tt.desc, got, tt.want)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	text, err := json.Marshal(sample)
	if err != nil {
		t.Fatal(err)
	}
	var again Data
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample, again); diff != "" {
		t.Errorf("%s\n%s", text, diff)
	}
}

const text = `{"nr":-1,"arch":"0x1","ip":"0x2","args":["0x0","0x1","0x2","0x3","0x4","0x5"]}`

func TestJSONErrors(t *testing.T) {
	for _, tt := range []struct{ desc, old, new, want string }{
		{"A missing number is named.", `"nr":-1,`, ``, "nr: is missing"},
		{"A number beyond 32 bits is named.", `-1`, `4294967296`, "nr: 4294967296"},
		{"A fraction is no number.", `-1`, `1.5`, "nr: cannot be a number 1.5"},
		{"An architecture beyond 32 bits is named.", `"0x1"`, `"0x100000000"`, "arch: 0x100000000"},
		{"Five arguments are too few.", `,"0x5"`, ``, "args: 5 arguments"},
		{"Seven arguments are too many.", `"0x5"`, `"0x5","0x6"`, "args: 7 arguments"},
		{"An unknown field is named.", `"ip"`, `"pc"`, `"pc"`},
		{"Numbers are written with 0x.", `"0x2"`, `"2"`, "want 0x"},
	} {
		var d Data
		err := json.Unmarshal([]byte(strings.Replace(text, tt.old, tt.new, 1)), &d)
		var typed *DataError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q in a *DataError", tt.desc, err, tt.want)
		}
	}
}

// FuzzJSON: any bytes give a system call that survives a round trip, or an error.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again Data
		if d.UnmarshalJSON(data) != nil {
			return
		}
		out, err := d.MarshalJSON()
		if err == nil {
			err = again.UnmarshalJSON(out)
		}
		if err != nil || d != again {
			t.Errorf("%s became %s (%v)", data, out, err)
		}
	})
}
