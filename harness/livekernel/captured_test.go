package livekernel

import (
	"os"
	"testing"

	"github.com/kjit-project/kjit/harness/verify"
)

// TestCaptured has records checked that kjit captured elsewhere: among them a
// load at X+K that wraps, whose offset reaches the kernel's routine with a 33rd
// bit.
func TestCaptured(t *testing.T) {
	const file = "testdata/captured.jsonl"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checker, err := verify.NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	passed := 0
	err = checker.File(file, f, func(res verify.Result) error {
		if res.Err != nil || res.Skip != "" {
			t.Errorf("%s:%d: %s: %v %s", res.File, res.Line, res.Name, res.Err, res.Skip)
		}
		passed++
		return nil
	})
	if err != nil || passed < 5 {
		t.Errorf("%d records checked, %v", passed, err)
	}
}
