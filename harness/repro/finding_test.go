package repro_test

import (
	"strings"
	"testing"

	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness/repro"
)

// TestFindings runs every file in corpus/findings again: it does what it says
// under "expect".
func TestFindings(t *testing.T) {
	all, err := corpus.Findings()
	if err != nil {
		t.Fatal(err)
	}
	expects := map[repro.Expect]int{}
	for _, f := range all {
		t.Run(strings.TrimSuffix(f.Name, repro.Extension), func(t *testing.T) {
			r, err := repro.Parse(f.Name, f.Data)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(r.JIT, "exec:") {
				t.Skipf("runs %s: kjit replay corpus/findings/%s does it where that is installed", r.JIT, f.Name)
			}
			expects[r.Expect]++
			checkRuns(t, f.Name, r)
		})
	}
	if expects[repro.Diverge] < 20 || expects[repro.Agree] == 0 {
		t.Errorf("only %v were run", expects)
	}
}
