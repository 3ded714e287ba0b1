package repro_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/harness/shrink"
	"github.com/kjit-project/kjit/kernelabi"
)

var update = flag.Bool("update", false, "write the findings of mutants into the corpus")

// witnesses are the programs and packets that show historic faults, by name.
func witnesses(t *testing.T) map[string]kernelabi.MutantRecord {
	t.Helper()
	all := map[string]kernelabi.MutantRecord{}
	for _, file := range []string{"../../jitx86/testdata/mutants.jsonl", "../../jitarm/testdata/mutants.jsonl", "testdata/extra.jsonl"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var rec kernelabi.MutantRecord
			if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[rec.Name] = rec
		}
	}
	return all
}

// TestMutants judges the witness of every mutant: the divergence is found at the
// right instruction, and shrinks to no more than was measured; the repro of what
// is left shows it again.
func TestMutants(t *testing.T) {
	table, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	records, shown, written := witnesses(t), map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(table)) {
		cells := strings.Fields(line)
		if len(cells) == 0 || cells[0] == "#" {
			continue
		}
		rec, ok := records[cells[0]]
		if !ok || len(cells) != 6 {
			t.Fatalf("%q: no such record, or not six columns", line)
		}
		shown[cells[1]] = true
		p, err := harness.ProfileByName(cells[1])
		if err != nil {
			t.Fatal(err)
		}
		r, err := harness.NewJIT(p, emulator.WithBudget(1<<16))
		if err != nil {
			t.Fatal(err)
		}
		j := judge.New(r, judge.Options{})
		want := judge.Signature{Runner: cells[1], Rule: cells[2], Kind: judge.Kind(cells[3])}
		small := checkShrinks(t, j, want, rec, cells[4], cells[5])
		if small != nil && *update && !written[want.String()] {
			written[want.String()] = true
			small.Found = "from the record " + rec.Name + " of a historic fault, made smaller"
			if _, err := repro.Write("../../corpus/findings", small); err != nil {
				t.Fatal(err)
			}
		}
		j.Close()
		r.Close()
	}
	historic := 0
	for _, p := range harness.Mutants() {
		if shown[p.Name] {
			historic++
		} else {
			t.Logf("no line is about %s", p.Name)
		}
	}
	if historic < 20 {
		t.Errorf("only %d mutants have a witness", historic)
	}
}

// checkShrinks judges and shrinks a record, and returns the repro of what is
// left.
func checkShrinks(t *testing.T, j *judge.Judge, want judge.Signature, rec kernelabi.MutantRecord, insns, size string) *repro.Repro {
	t.Helper()
	d, err := j.Judge(rec.Program, rec.Input)
	if err != nil || d == nil {
		t.Errorf("%s on %s: does not show (%v)", rec.Name, want.Runner, err)
		return nil
	}
	if d.Signature != want {
		t.Errorf("%s: is %s, want %s (%s)", rec.Name, d.Signature, want, repro.New(d).How)
		return nil
	}
	shows := j.Shows(want)
	small := shrink.Shrink(rec.Program, rec.Input, shows, shrink.Options{Profile: j.Runner().Profile()})
	bytes := len(small.Input.(*kernelabi.Skb).Packet)
	t.Logf("%s: %s: %d instructions, now %d; %d bytes, now %d; %d tries", rec.Name, want, len(rec.Program), len(small.Program), len(rec.Input.Packet), bytes, small.Tries)
	if max, err := strconv.Atoi(insns); err != nil || len(small.Program) > max {
		t.Errorf("%s: %d instructions are left, want at most %s: %v", rec.Name, len(small.Program), insns, small.Program)
	}
	if max, err := strconv.Atoi(size); err != nil || bytes > max {
		t.Errorf("%s: %d bytes are left, want at most %s", rec.Name, bytes, size)
	}
	if !small.Complete || !shows(small.Program, small.Input) {
		t.Errorf("%s: what is left after %d tries does not show it", rec.Name, small.Tries)
	}
	if small.Tries < 500 {
		again := shrink.Shrink(rec.Program, rec.Input, shows, shrink.Options{Profile: j.Runner().Profile()})
		if diff := cmp.Diff(small, again); diff != "" {
			t.Errorf("%s: shrinks to something else the second time:\n%s", rec.Name, diff)
		}
	}
	if d, err = j.Judge(small.Program, small.Input); err != nil || d == nil {
		t.Errorf("%s: %v, %v", rec.Name, d, err)
		return nil
	}
	r := repro.New(d)
	checkRuns(t, rec.Name, roundTrip(t, r))
	return r
}

// roundTrip returns r as it is read from its file.
func roundTrip(t *testing.T, r *repro.Repro) *repro.Repro {
	t.Helper()
	path, err := repro.Write(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(path) != r.Name() || strings.ContainsAny(r.Name(), ": /") {
		t.Errorf("the file is %s", path)
	}
	again, err := repro.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("%s (-written +read):\n%s", path, diff)
	}
	return again
}

// checkRuns runs a repro and asserts that it meets what it expects.
func checkRuns(t *testing.T, name string, r *repro.Repro) {
	t.Helper()
	runner, err := r.Open()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer runner.Close()
	res, err := r.Run(runner)
	switch {
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case !r.Met(res):
		t.Errorf("%s: expects %s of %s at %s, and it is: %s %s", name, r.Expect, r.Divergence, r.Rule, res.Status, res.Why)
		if res.Divergence != nil {
			t.Logf("%s: %s", res.Divergence.Signature, repro.New(res.Divergence).How)
		}
	}
}
