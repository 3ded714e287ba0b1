package uc

import (
	"os"
	"regexp"
	"testing"
)

// TestLinkVersion: the library is built from the source of the module that
// go.mod names, into a folder of that version.
func TestLinkVersion(t *testing.T) {
	version := func(file, pattern string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(pattern).FindSubmatch(b)
		if m == nil {
			t.Fatalf("%s has no %s", file, pattern)
		}
		return string(m[1])
	}
	want := version("../../../go.mod", `github.com/unicorn-engine/unicorn (v\S+)`)
	if got := version("link.go", `\.unicorn/(\S+) -lunicorn`); got != want {
		t.Errorf("link.go links %s, go.mod requires %s", got, want)
	}
}
