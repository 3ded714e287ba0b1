package kjit_test

import (
	"os"
	"regexp"
	"testing"
)

// The cgo line names the folder that ci/setup.sh builds the library into; both
// have to mean the version in go.mod.
func TestLinkVersion(t *testing.T) {
	version := find(t, "go.mod", `github.com/unicorn-engine/unicorn (\S+)`)
	linked := find(t, "emulator/internal/uc/link.go", `/\.unicorn/(\S+)`)
	if version != linked {
		t.Errorf("go.mod has Unicorn %s, emulator/internal/uc/link.go links %s", version, linked)
	}
}

func find(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	return string(m[1])
}
