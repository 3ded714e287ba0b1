package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/judge"
)

func TestBlamed(t *testing.T) {
	for rule, want := range map[string]string{
		"div-k": "div #k", "lsh-x": "lsh x", "ret-a": "ret a", "ldh-ind": "ldh [x + k]", "ldx-msh": "ldx 4*([k]&0xf)", "ld-data": "ld [k] of seccomp data",
		"tax": "tax", "vlan_tci": "vlan_tci", "entry-a": "the prologue (a)", "native-mov": "the machine instruction mov",
		"unwritten-image": "unwritten-image", campaign.Unreproduced: "a program that alone does not show it",
	} {
		if got := blamed(rule); got != want {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
}

// Every kind of divergence is told in words.
func TestKindsInWords(t *testing.T) {
	for _, kind := range judge.Kinds() {
		about := aboutDivergence(judge.Signature{Runner: "j", Rule: "r", Kind: kind}, "")
		if inWords[kind] == "" || !strings.Contains(about.Brief, inWords[kind]) {
			t.Errorf("%s: %+v", kind, about)
		}
	}
}

// What comes with kjit has the names that it has in the sources.
func TestRealFile(t *testing.T) {
	for name, want := range map[string]string{
		"ci_about_test.go": "ci_about_test.go", "-": "", ".": "", "ip[0] = 1": "", "corpus:packets": "corpus/packets.pcapng",
		"corpus:alu-k": "corpus/programs/alu-k.txt", "corpus:linux-3.0-x86_64.fatal-error.refusal.txtar": "corpus/findings/linux-3.0-x86_64.fatal-error.refusal.txtar",
	} {
		if got := realFile(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if file, ok := strings.CutPrefix(want, "corpus/"); ok {
			if _, err := os.Stat("../../corpus/" + file); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{commandLine("replay", "a b", "", "it's"), `kjit replay 'a b' 'it'\''s'`},
		{replayAgain("linux-3.0-x86_64", "st/x.txtar"), "kjit replay st/x.txtar"},
		{replayAgain("exec:./jit -v", "x.txtar"), "kjit replay x.txtar --jit 'exec:./jit -v'"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// A JIT that diverges never looks as if it passed: its findings stand for it, or
// where a campaign had no room for them a failure of its own.
func TestFuzzCI(t *testing.T) {
	r := &fuzzReport{
		State: "st", More: 7,
		Targets: []fuzzTarget{
			{JIT: "found", Tally: campaign.Tally{Agree: 5, Diverge: 2}}, {JIT: "refused", Tally: campaign.Tally{Agree: 5, NotRun: 2}},
			{JIT: "crowded out", Tally: campaign.Tally{Agree: 5, Diverge: 2}}, {JIT: "good", Tally: campaign.Tally{Agree: 7}},
			{JIT: "idle", Tally: campaign.Tally{NotRun: 7, Why: "no rule"}},
		},
		Findings: []fuzzFinding{{Signature: "found.r.value", JIT: "found"}, {Signature: "refused.r.refusal", JIT: "refused"}},
	}
	outcomes := map[string]ciformat.Outcome{}
	for _, res := range r.ci().Results {
		outcomes[res.Name] = res.Outcome
	}
	want := map[string]ciformat.Outcome{
		"crowded out": ciformat.Failed, "good": ciformat.Passed, "idle": ciformat.Skipped, "found.r.value": ciformat.Failed, "refused.r.refusal": ciformat.Failed,
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Error(diff)
	}
	properties := map[string]string{}
	for _, p := range r.ci().Properties {
		properties[p.Name] = p.Value
	}
	for _, target := range r.Targets {
		if properties[target.JIT] == "" {
			t.Errorf("no counts of %s in %v", target.JIT, properties)
		}
	}
}
