package corpus

import (
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// The values of the directed tests are those of the reference, under every kernel
// but the oldest whose checker takes the program. Today's takes all but those
// marked.
func TestDirectedTests(t *testing.T) {
	all, err := DirectedTests()
	if err != nil {
		t.Fatal(err)
	}
	names, codes, exts := map[string]bool{}, map[uint16]bool{}, map[bpf.Extension]bool{}
	for _, test := range all {
		if names[test.Name] {
			t.Errorf("there are two of %q", test.Name)
		}
		names[test.Name] = true
		for _, p := range append(kernelabi.Profiles(), kernelabi.Current()) {
			if p.Rules == bpf.RulesLinux3_0 {
				continue // takes ancillary loads that it does not know for ordinary ones
			}
			m, err := bpf.Compile(test.Program, bpf.Socket, p.Rules)
			if err != nil {
				if !test.Rejected && p.Rules == bpf.RulesCurrent {
					t.Errorf("%s: %v", test.Name, err)
				}
				continue
			}
			if got := m.Run(test.Packet.Under(p.Semantics)); test.Rejected || got.Value != test.Value && !differs(test.Name, p) {
				t.Errorf("%s: on %s the interpreter gives %#x; the test says %#x, rejected: %v", test.Name, p.Name, got.Value, test.Value, test.Rejected)
			}
		}
		for _, ins := range test.Program {
			if ext, ok := ins.Extension(); ok {
				exts[ext] = true
			} else if !test.Rejected {
				codes[ins.Code] = true
			}
		}
	}
	if len(all) < 500 {
		t.Errorf("only %d directed tests", len(all))
	}
	for code := range uint16(0x100) {
		if bpf.RulesCurrent.Accepts(code, bpf.Socket) && !codes[code] {
			t.Errorf("no directed test has opcode %#x", code)
		}
	}
	for ext := bpf.Extension(0); ext <= bpf.ExtPayOffset; ext += 4 {
		if ext != bpf.ExtNlattrN && !exts[ext] {
			t.Errorf("no directed test has the ancillary load %s", ext)
		}
	}
}

// differs: what kernels disagree about.
func differs(name string, p *kernelabi.Profile) bool {
	return strings.HasSuffix(name, "without a device") && p.Semantics.NoDeviceKeepsA ||
		strings.HasPrefix(name, "nlattr") && p.Semantics.NlattrFailLoads0
}

func TestDirectedSyntax(t *testing.T) {
	for line, want := range map[string]string{
		"no program":                       "want NAME: PROGRAM | PACKET | VALUE",
		"a: ret #1 | 2":                    "want NAME: PROGRAM | PACKET | VALUE",
		"a: rot #1 | | 2":                  "no program found",
		"a: ret #1 | colour=3 | 2":         "no property",
		"a: ret #1 | hex=0 | 2":            "odd length",
		"a: ret #1 | mark=x | 2":           "mark",
		"a: ret #1 | | x":                  "x",
		"a: ret #1 | seq=4 head=9 net=1|x": "x",
	} {
		if _, err := parseDirected(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", line, err, want)
		}
	}
}
