package bpf_test

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/kjit-project/kjit/bpf"
)

// records reads a file of JSON lines.
func records[T any](tb testing.TB, path string) []T {
	tb.Helper()
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var rows []T
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			tb.Fatalf("%s:%d: %v", path, n, err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	if len(rows) == 0 {
		tb.Fatalf("%s is empty", path)
	}
	return rows
}

const sharedData = "../../shared/data"

// bothData runs a test on the records kept here, and on the files of all of
// them where their folder is.
func bothData(t *testing.T, kept string, test func(t *testing.T, path string), all ...string) {
	t.Helper()
	t.Run("testdata/"+kept, func(t *testing.T) { test(t, "testdata/"+kept) })
	for _, path := range all {
		t.Run(path, func(t *testing.T) {
			if _, err := os.Stat(sharedData); err != nil {
				t.Skipf("the full record files are not here: %v", err)
			}
			test(t, sharedData+"/"+path)
		})
	}
}

// seed returns the seed of a random test: KJIT_SEED, or a new one, which the
// test prints if it fails.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if env := os.Getenv("KJIT_SEED"); env != "" {
		var err error
		if n, err = strconv.ParseUint(env, 0, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", n)
	return n
}

// programRecord is a program with what kernels did with it.
type programRecord struct {
	Name    string
	Kind    bpf.Kind
	Program bpf.Program
	Errno   int
	Inputs  []anyInput
	Results []uint32
}
