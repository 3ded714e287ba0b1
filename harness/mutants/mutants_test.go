package mutants

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/judge"
)

// seed is KJIT_SEED if that is set.
func seed(t *testing.T) uint64 {
	n, err := strconv.ParseUint(os.Getenv("KJIT_SEED"), 0, 64)
	if err != nil {
		n = 1
	}
	t.Logf("KJIT_SEED=%d", n)
	return n
}

// quick are mutants that are found at once, one for each way in which they show.
var quick = []struct {
	name     string
	kind     judge.Kind
	insns    int // most that are left
	directed bool
}{
	{"x86-and-imm16", judge.Value, 3, false},
	{"x86-ifindex-no-device", judge.Fault, 2, true},
	{"x86-rbx-unsaved", judge.Broken, 2, false},
	{"x86-seccomp-halves", judge.Value, 3, false},
	{"arm-rsh0", judge.Value, 3, true},
	{"arm-no-xor-vlan", judge.Refusal, 2, false},
	{"arm-shift-x-32", judge.Undefined, 4, false},
	{"arm-msh-negative", judge.Fault, 2, true},
}

// The quick mutants are found and put down to the rule that is faulty; what is
// left of the programs is small, and the same the second time.
func TestQuick(t *testing.T) {
	var names []string
	for _, q := range quick {
		names = append(names, q.name)
	}
	o := Options{Only: names, Seed: seed(t), Programs: 20_000, Time: 10 * time.Minute, Jobs: 2}
	results, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		q := quick[i]
		t.Logf("%s: %v after %d programs, %d pairs, %v; %d instructions; %s; directed %q",
			q.name, r.Found, r.Programs, r.Pairs, r.Time, len(r.Program), r.Signature, r.Directed)
		if r.Mutant.Name != q.name || !r.Found || r.Kind != q.kind || len(r.Program) > q.insns || r.Located() == Wrong {
			t.Errorf("%s: found %v, kind %q, rule %q, %d instructions: want %q, at most %d instructions", q.name, r.Found, r.Kind, r.Rule, len(r.Program), q.kind, q.insns)
		}
		if (r.Directed != "") != q.directed {
			t.Errorf("%s: directed test %q, want one: %v", q.name, r.Directed, q.directed)
		}
	}
	o.Only, o.Jobs = names[:2], 1
	again, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range again {
		again[i].Time, again[i].Shrinking = results[i].Time, results[i].Shrinking
		if diff := cmp.Diff(results[i], again[i]); diff != "" {
			t.Errorf("the second time (-first +second):\n%s", diff)
		}
	}
}

// Every mutant has a base, kernels, and names of rules that there are.
func TestTable(t *testing.T) {
	all, err := Select()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range all {
		if names[m.Name] || m.Summary == "" || strings.HasSuffix(m.Summary, ".") {
			t.Errorf("%s: the name is taken, or the summary is no line: %q", m.Name, m.Summary)
		}
		names[m.Name] = true
		if len(m.Bases()) == 0 {
			t.Errorf("%s: no kernel has %s", m.Name, m.Fault.Base)
		}
		for _, base := range m.Bases() {
			p, err := harness.ProfileByName(m.On(base).Name)
			if err != nil || p.Emitter != m.Name {
				t.Errorf("%s on %s: %v", m.Name, base.Name, err)
			}
		}
		if m.Fault.Trap() && m.Fault.Fixed != "" {
			t.Errorf("%s: a trap was fixed", m.Name)
		}
	}
	for _, i := range Invisibles() {
		if names[i.Name] {
			t.Errorf("%s is visible", i.Name)
		}
	}
}

// A mutant that shows in no program of the budget is not found, and says so.
func TestNotFound(t *testing.T) {
	results, err := Run(context.Background(), Options{Only: []string{"x86-converge-last"}, Seed: 1, Programs: 5})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Found || r.Programs != 5 || r.Pairs == 0 || r.Located() != NotFound {
		t.Errorf("%+v", r)
	}
}

func TestSelect(t *testing.T) {
	for name, want := range map[string]string{
		"x86-nonsense":     "no mutant",
		"x86-neg-size-reg": "the emitted code is right",
	} {
		if _, err := Select(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if results, err := Run(ctx, Options{}); err != context.Canceled || len(results) > 0 {
		t.Errorf("%d results, %v", len(results), err)
	}
}

// The JITs without a fault agree with the interpreter on pairs without end. make
// clean-pairs compares more.
func TestClean(t *testing.T) {
	pairs := 200_000
	if testing.Short() {
		pairs = 20_000
	}
	a, err := Clean(context.Background(), seed(t), pairs, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if a.Pairs < pairs || len(a.Found) > 0 {
		t.Errorf("%d programs, %d pairs, alarms: %v", a.Programs, a.Pairs, a.Found[:min(5, len(a.Found))])
	}
}

// The directed tests pass on JITs without a fault.
func TestDirected(t *testing.T) {
	s, err := newSuite()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Correct {
		p, err := harness.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		passed, err := s.run(p)
		if err != nil {
			t.Fatal(err)
		}
		for i, ok := range passed {
			if !ok {
				t.Errorf("%s: directed test %s fails", name, s.tests[i].Name)
			}
		}
		if !slices.Contains(passed, true) {
			t.Errorf("%s passes nothing", name)
		}
	}
}

// README.md says how many mutants the directed tests find.
func TestDocsCountDirected(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: takes seconds")
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSuite()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range harness.AllMutants() {
		name, err := s.finds(&m)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			found++
		}
	}
	row := regexp.MustCompile(`(?m)^\| faults found, of \d+ \| \d+ \| (\d+) \|$`).FindSubmatch(text)
	if row == nil || string(row[1]) != strconv.Itoa(found) {
		t.Errorf("README.md: %q: the directed tests find %d", row, found)
	}
}
