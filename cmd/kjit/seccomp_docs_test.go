package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestSeccompDocs holds docs/seccomp.md against the script that runs its
// commands: "$ COMMAND" in a block of console has to stand in the script, with
// what is shown as its output, and "```text FILE" begins a file of it.
func TestSeccompDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/seccomp.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile("testdata/script/docs_seccomp.txtar")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{} // by file or command
	for _, f := range script.Files {
		shown[f.Name] = string(f.Data)
	}
	for _, step := range strings.Split(string(script.Comment), "\n\n") {
		command := ""
		for _, line := range strings.Split(step, "\n") {
			if rest, ok := strings.CutPrefix(strings.TrimPrefix(line, "! "), "exec "); ok {
				command = rest
			} else if words := strings.Fields(line); len(words) == 3 && words[0] == "cmp" {
				shown["$ "+command] += shown[words[2]]
			}
		}
	}
	blocks := strings.Split(string(page), "```")
	for i := 1; i < len(blocks); i += 2 {
		head, body, _ := strings.Cut(blocks[i], "\n")
		name, isFile := strings.CutPrefix(head, "text ")
		if !isFile {
			name, body, _ = strings.Cut(body, "\n")
		}
		want, ok := shown[name]
		if !ok {
			t.Errorf("the script has no %s", name)
		} else if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("%s (-script +page):\n%s", name, diff)
		}
	}
	if len(blocks) < 20 {
		t.Errorf("the page has %d pieces only", len(blocks))
	}
}
