package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// The examples of docs/plugin.md, and what builds them.
var examples = []struct {
	name     string
	build    []string // the file to make comes last
	profiles []string
}{
	{"tinyjit-c", []string{"cc", "-std=c99", "-O2", "-Wall", "-Werror", "../../docs/plugin/c/tinyjit.c", "-o"},
		[]string{"linux-3.0-x86_64", "linux-3.10-x86_64"}},
	{"tinyjit-go", []string{"go", "build", "-o"},
		[]string{"linux-3.12-armv5", "linux-4.5-armv7"}},
}

// examplePrograms use all that the examples have rules for.
var examplePrograms = []bpf.Program{
	{{Code: bpf.RetK, K: 0xfffffffe}},
	{{Code: bpf.LdLen}, {Code: bpf.RetA}},
	{{Code: bpf.LdImm, K: 5}, {Code: bpf.Tax}, {Code: bpf.AddK, K: 0xfffffffd}, {Code: bpf.AddX}, {Code: bpf.SubK, K: 1}, {Code: bpf.OrK, K: 0x80000000}, {Code: bpf.RetA}},
	{{Code: bpf.LdxImm, K: 9}, {Code: bpf.Txa}, {Code: bpf.RetA}},
	{{Code: bpf.LdBAbs, K: 0}, {Code: bpf.JsetK, JT: 1, K: 1}, {Code: bpf.Ja, K: 1}, {Code: bpf.RetK, K: 3}, {Code: bpf.RetA}},
	{{Code: bpf.LdHAbs, K: 12}, {Code: bpf.JeqK, JF: 4, K: 0x800}, {Code: bpf.LdWAbs, K: 26}, {Code: bpf.AndK, K: 0xffffff00}, {Code: bpf.JgtK, JF: 1, K: 0x0a000000}, {Code: bpf.RetK, K: 1}, {Code: bpf.RetK}},
	{{Code: bpf.LdWAbs, K: 50}, {Code: bpf.JgeK, JT: 1, K: 0x80000000}, {Code: bpf.RetK, K: 2}, {Code: bpf.RetA}},
}

// Every example compiles the programs so that they do on all packets of the
// corpus, with their fragments, what the interpreter does, and refuses others.
func TestExamples(t *testing.T) {
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for i := range packets {
		inputs = append(inputs, packets[i].Skb, packets[i].Skb.Split(13, 14))
	}
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			binary := buildExample(t, e.name, e.build)
			for _, name := range e.profiles {
				p, err := kernelabi.ProfileByName(name)
				if err != nil {
					t.Fatal(err)
				}
				r, err := New(context.Background(), []string{binary}, Options{Profile: p})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if r.Name() != "exec:"+e.name {
					t.Errorf("it calls itself %s", r.Name())
				}
				for _, prog := range examplePrograms {
					testExample(t, r, prog, inputs)
				}
				testRefusals(t, r)
			}
		})
	}
}

func buildExample(t *testing.T, name string, build []string) string {
	t.Helper()
	if _, err := exec.LookPath(build[0]); err != nil {
		t.Skipf("no compiler: %v", err)
	}
	binary := filepath.Join(t.TempDir(), name)
	args := append(build[1:len(build):len(build)], binary)
	if build[0] == "go" {
		args = append(args, "../../docs/plugin/go")
	}
	if out, err := exec.Command(build[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(build, " "), err, out)
	}
	return binary
}

func testExample(t *testing.T, r *Runner, prog bpf.Program, inputs []kernelabi.Input) {
	t.Helper()
	replay := harness.Replay{Program: prog, Runners: []harness.Runner{r}, Each: func(row *harness.Row) error {
		if row.Verdicts[0] != harness.Agree {
			t.Errorf("%s, program %v, input %d: %s, the interpreter %s", r.Profile().Name, prog, row.Index, row.Got[0].Long(), row.Want[0].Long())
		}
		return nil
	}}
	tallies, err := replay.Run(context.Background(), inputs)
	if err != nil || tallies[0].Agree < len(inputs) {
		t.Errorf("%s, program %v: %+v, error %v", r.Profile().Name, prog, tallies, err)
	}
}

func testRefusals(t *testing.T, r *Runner) {
	t.Helper()
	for _, tt := range []struct {
		prog bpf.Program
		kind bpf.Kind
		want string
	}{
		{bpf.Program{{Code: bpf.LdImm}, {Code: bpf.DivK, K: 2}, {Code: bpf.RetA}}, bpf.Socket, "not compiled: instruction 1: no rule for this opcode"},
		{bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtMark.K()}, {Code: bpf.RetA}}, bpf.Socket, "not compiled: instruction 0: a negative offset or an ancillary load"},
		{bpf.Program{{Code: bpf.RetK}}, bpf.Seccomp, "not compiled: a seccomp filter"},
	} {
		if bpf.Check(tt.prog, tt.kind, r.Profile().Rules) != nil {
			continue // Linux 3.0 has no seccomp filters
		}
		if _, err := r.Image(tt.prog, tt.kind); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", r.Profile().Name, err, tt.want)
		}
	}
}

// The lines that docs/plugin.md shows are those that go over the wire.
func TestDocumentedLines(t *testing.T) {
	doc, err := os.ReadFile("../../docs/plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	shows := func(v any) {
		t.Helper()
		line, err := json.Marshal(v)
		if err != nil || !strings.Contains(string(doc), "\n    "+string(line)+"\n") {
			t.Errorf("error %v; docs/plugin.md does not show\n%s", err, line)
		}
	}
	shows(helloRequest{0, "hello", Protocol})
	p := &kernelabi.Profile{
		Name: "linux-3.10-x86_64", Arch: kernelabi.X86_64, Base: 0xffffffffa00b5000, Features: kernelabi.Features{SMP: true},
		Symbols: map[string]uint64{"skb_copy_bits": 0xffffffff8143f6a0}, Layout: kernelabi.Layout{"sk_buff.len": 104},
		Semantics: kernelabi.Semantics{VlanPresentInTCI: true},
	}
	prog := bpf.Program{{Code: bpf.LdHAbs, K: 12}, {Code: bpf.JeqK, JF: 1, K: 0x800}, {Code: bpf.RetK, K: 65535}, {Code: bpf.RetK}}
	shows(newCompileRequest(1, prog, bpf.Socket, p))

	answers := 0
	for line := range strings.Lines(string(doc)) {
		line, indented := strings.CutPrefix(line, "    {")
		if !indented || strings.Contains(line, `"op"`) {
			continue
		}
		answers++
		line = strings.Replace("{"+line, "...", "", 1) // the image is cut
		_, hello := decodeHello([]byte(line), 0)
		_, compile := decodeCompile([]byte(line), 1, prog, p)
		var refusal *kernelabi.Refusal
		var itself *said
		if hello != nil && compile != nil && !errors.As(compile, &refusal) && !errors.As(compile, &itself) && !strings.HasPrefix(compile.Error(), "pc_map") {
			t.Errorf("%s\nis no answer: %v; %v", line, hello, compile)
		}
	}
	if answers != 4 {
		t.Errorf("%d answers are shown, want hello's and three to compile", answers)
	}
}
