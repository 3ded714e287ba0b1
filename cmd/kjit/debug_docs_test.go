package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateDocs = flag.Bool("update-docs", false, "rewrite the outputs in docs/debug.md")

// TestDebugDocs runs what docs/debug.md shows. In its blocks of console "$ cat
// FILE" makes the file of what is shown, and "$ kjit ..." has to print what is
// shown, of which the lines that begin with > are what it reads.
func TestDebugDocs(t *testing.T) {
	page, err := filepath.Abs("../../docs/debug.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var out []string
	shown, commands := false, 0
	lines := strings.Split(string(text), "\n")
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		out = append(out, line)
		shown = line == "```console" || shown && line != "```"
		command, ok := strings.CutPrefix(line, "$ ")
		if !shown || !ok {
			continue
		}
		end := slices.IndexFunc(lines, func(line string) bool { return line == "```" || strings.HasPrefix(line, "$ ") })
		want := lines[:end]
		lines = lines[end:]
		got := want
		if file, ok := strings.CutPrefix(command, "cat "); ok {
			if err := os.WriteFile(file, []byte(strings.Join(want, "\n")+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		} else {
			commands++
			got = runShown(t, command, want)
			if diff := cmp.Diff(want, got); diff != "" && !*updateDocs {
				t.Errorf("%s (-want +got):\n%s", command, diff)
			}
		}
		out = append(out, got...)
	}
	if commands < 3 {
		t.Errorf("only %d commands are shown", commands)
	}
	if *updateDocs {
		if err := os.WriteFile(page, []byte(strings.Join(out, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// runShown runs a command on the input among its shown lines.
func runShown(t *testing.T, command string, shown []string) []string {
	var input strings.Builder
	for _, line := range shown {
		if typed, ok := strings.CutPrefix(line, "> "); ok {
			input.WriteString(typed + "\n")
		}
	}
	args := words(command)
	if args[0] != "kjit" {
		t.Fatalf("%s is not run", command)
	}
	var out, errs bytes.Buffer
	if code := run(args[1:], streams{strings.NewReader(input.String()), &out, &errs}); code != exitOK || errs.Len() > 0 {
		t.Errorf("%s: exit code %d: %s", command, code, errs.String())
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// words splits a command at blanks outside of single quotes.
func words(command string) []string {
	var all []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}
