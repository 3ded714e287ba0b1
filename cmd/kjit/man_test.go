package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func model(t *testing.T) *kong.Kong {
	t.Helper()
	return newParser(context.Background(), &cli{}, streams{nil, &bytes.Buffer{}, &bytes.Buffer{}})
}

// Every command's help has an example, and every example is a command line.
func TestExamples(t *testing.T) {
	app := model(t).Model
	seen := 0
	for _, leaf := range app.Leaves(true) {
		lines := 0
		for _, line := range strings.Split(leaf.Detail, "\n") {
			if !strings.HasPrefix(line, "  ") || !strings.Contains(line, "kjit ") {
				continue
			}
			for _, command := range kjitCommands(line) {
				lines++
				args := words(command)[1:]
				if _, err := model(t).Parse(args); err != nil {
					t.Errorf("%s: %s: %v", leaf.FullPath(), command, err)
				}
			}
		}
		if lines == 0 {
			t.Errorf("%s has no example", leaf.FullPath())
		}
		if examples[leaf.Path()] != "" {
			seen++
		}
	}
	if seen != len(examples) {
		t.Errorf("%d examples are of commands, of %d", seen, len(examples))
	}
}

// kjitCommands finds the command lines of kjit in a line of a shell: without
// comments, redirections and what else is in a pipe.
func kjitCommands(line string) (all []string) {
	line, _, _ = strings.Cut(line, "  #")
	for _, part := range regexp.MustCompile(`[|;&]|<\(`).Split(line, -1) {
		part = strings.TrimSuffix(strings.TrimSpace(regexp.MustCompile(`\s*>\s*\S+`).ReplaceAllString(part, "")), ")")
		if strings.HasPrefix(part, "kjit ") {
			all = append(all, part)
		}
	}
	return all
}

// Every command has a page, at which man finds nothing wrong.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	if code := run([]string{"man", "--dir", dir}, streams{nil, &out, &errs}); code != exitOK || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	app := model(t).Model
	want := 1
	_ = kong.Visit(app, func(n kong.Visitable, next kong.Next) error {
		if n, ok := n.(*kong.Node); ok && n.Type == kong.CommandNode && !n.Hidden {
			want++
		}
		return next(nil)
	})
	if len(pages) != want {
		t.Errorf("%d pages for %d commands", len(pages), want)
	}
	man, err := exec.LookPath("man")
	if err != nil {
		t.Skip("man is not installed: the pages are not formatted")
	}
	// As one document, which is much faster.
	var all bytes.Buffer
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	cmd := exec.Command(man, "--warnings", "-E", "UTF-8", "-Tutf8", "-l", "-")
	cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
	var formatted, warnings bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &all, &formatted, &warnings
	if err := cmd.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("man: %v\n%s", err, warnings.String())
	}
	plain := regexp.MustCompile(`.\x08|\x1b\[[0-9;]*m`).ReplaceAllString(formatted.String(), "")
	for _, text := range []string{"kjit seccomp diff docker-default pid:4711", "--check-accesses", "kjit-campaign-start(1)"} {
		if !strings.Contains(plain, text) {
			t.Errorf("the formatted pages do not have %q", text)
		}
	}
}
