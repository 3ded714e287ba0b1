package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kjit-project/kjit/seccompdata"
)

// FuzzParse: any bytes are a profile or an error, and a profile makes filters
// that say what it says.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/profiles/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"linux":{"seccomp":{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"name":"socket","action":"SCMP_ACT_KILL"}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("profile", data, Options{})
		if err != nil {
			var typed *ProfileError
			if !errors.As(err, &typed) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if len(p.Rules) > 200 {
			return
		}
		calls := p.Boundaries()
		agrees(t, p, CompileOptions{Enosys: true}, calls[:min(len(calls), 2000)])
	})
}

// FuzzHistogram: any bytes are a histogram or an error, and its costs are
// finite.
func FuzzHistogram(f *testing.F) {
	files, err := filepath.Glob("testdata/strace*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("read 1e18\nwrite 0\n"))
	p := &Policy{Name: "p", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Rules: []Rule{{ABI: seccompdata.X86_64, Nr: 39, Ret: 1}, {ABI: seccompdata.X86_64, Nr: 0, Ret: 2}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParseHistogram("h", data)
		if err != nil {
			return
		}
		agrees(t, p, CompileOptions{Histogram: h}, p.Boundaries())
		c, err := Compile(p, CompileOptions{Layout: Best, Histogram: h})
		if err != nil {
			t.Fatal(err)
		}
		cost, err := ExpectedCost(c.Program, seccompdata.X86_64, h)
		if err != nil || cost.Mean < 0 || cost.Mean > float64(len(c.Program)) {
			t.Errorf("%+v, %v", cost, err)
		}
	})
}
