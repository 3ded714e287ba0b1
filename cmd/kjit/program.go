package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
)

// maxText bounds what is read as a program: the longest program in the
// wordiest form is well below it.
const maxText = 4 << 20

// source is a program as the user named it.
type source struct {
	Name string    // as shown to people
	Kind *bpf.Kind // what it is for, where that is known
	*bpftext.Listing
}

// chooseKind is what a program is attached to: what --kind asks for, else what the
// program itself knows, else what the inputs are for, which must not be for
// another.
func chooseKind(flag string, prog *source, inputs *inputSet) (bpf.Kind, error) {
	kind, err := inputs.kind()
	if err != nil {
		return kind, err
	}
	asked := kind
	switch {
	case flag != "":
		if err := asked.UnmarshalText([]byte(flag)); err != nil {
			return kind, badInput(fmt.Errorf("--kind: %w", err))
		}
	case prog.Kind != nil:
		asked = *prog.Kind
	}
	if len(inputs.Inputs) > 0 && asked != kind {
		return kind, badInput(fmt.Errorf("%s is a %s filter, and the inputs are for %s filters", prog.Name, asked, kind))
	}
	return asked, nil
}

// loadProgram finds the program that arg names: "-" is standard input,
// "corpus:NAME" a program that comes with kjit, a file, or else a filter
// expression, which an installed tcpdump compiles for the link type dlt. Of a
// recorded divergence it is the program in it.
func loadProgram(ctx context.Context, arg, dlt string, stdin io.Reader) (*source, error) {
	switch {
	case arg == "-":
		return parseProgram("standard input", stdin)
	case isRepro(arg):
		return reproProgram(arg)
	case strings.HasPrefix(arg, corpusPrefix):
		return corpusProgram(strings.TrimPrefix(arg, corpusPrefix))
	}
	f, err := os.Open(arg)
	if err == nil {
		defer f.Close()
		return parseProgram(arg, f)
	}
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) || looksLikePath(arg) {
		return nil, badInput(err)
	}
	return compileExpression(ctx, arg, dlt)
}

const corpusPrefix = "corpus:"

func corpusProgram(name string) (*source, error) {
	p, err := corpus.ProgramByName(name)
	if err != nil {
		return nil, badInput(err)
	}
	return &source{corpusPrefix + name, &p.Kind, &bpftext.Listing{Program: p.Program, Form: p.Form, Comments: p.Comments}}, nil
}

// reproProgram is the program of a recorded divergence.
func reproProgram(name string) (*source, error) {
	r, err := readRepro(name)
	if err != nil {
		return nil, badInput(err)
	}
	return &source{name, &r.Kind, &bpftext.Listing{Program: r.Program, Form: bpftext.Asm}}, nil
}

func parseProgram(name string, r io.Reader) (*source, error) {
	data, err := readAll(name, r, maxText)
	if err != nil {
		return nil, err
	}
	l, err := bpftext.Parse(name, data)
	if err != nil {
		return nil, err
	}
	return &source{Name: name, Listing: l}, nil
}

// readAll reads r to its end, or fails when there is more than limit bytes.
func readAll(name string, r io.Reader, limit int64) ([]byte, error) {
	tooMuch := badInput(fmt.Errorf("%s: more than %d MiB: not what this command reads", name, limit>>20))
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
			return nil, tooMuch
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", name, err))
	}
	if int64(len(data)) > limit {
		return nil, tooMuch
	}
	return data, nil
}

// readWhole reads a file of at most limit bytes.
func readWhole(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, badInput(err)
	}
	defer f.Close()
	return readAll(name, f, limit)
}

// isExpression reports whether loadProgram takes arg for a filter expression.
func isExpression(arg string) bool {
	if arg == "-" || strings.HasPrefix(arg, corpusPrefix) || strings.HasPrefix(arg, imagePrefix) {
		return false
	}
	_, err := os.Stat(arg)
	return err != nil && !looksLikePath(arg)
}

// looksLikePath tells a mistyped file name from a filter expression.
func looksLikePath(arg string) bool {
	if strings.ContainsAny(arg, " ()") {
		return false
	}
	return strings.ContainsRune(arg, '/') || strings.Contains(arg, ".")
}

// compileExpression has tcpdump compile a filter expression.
func compileExpression(ctx context.Context, expr, dlt string) (*source, error) {
	tcpdump, err := exec.LookPath("tcpdump")
	if err != nil {
		return nil, environment(fmt.Errorf("%q is no file, so it is taken as a filter expression, and those need tcpdump, which is not installed: run: apt-get install tcpdump (macOS has it); or give a program file", expr))
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, tcpdump, "-y", dlt, "-ddd", "--", expr)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, badInput(fmt.Errorf("%q is no file, and tcpdump does not compile it for link type %s: %s", expr, dlt, tcpdumpSays(stderr.String(), err)))
	}
	l, err := bpftext.ParseAs(bpftext.DDD, "tcpdump -ddd", out)
	if err != nil {
		return nil, err
	}
	return &source{Name: fmt.Sprintf("%q compiled by tcpdump for %s", expr, dlt), Listing: l}, nil
}

// tcpdumpSays is the last line of tcpdump's complaint, without its name.
func tcpdumpSays(stderr string, err error) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.TrimPrefix(lines[len(lines)-1], "tcpdump: ")
	if last == "" {
		return err.Error()
	}
	return last
}

func plural(n int, one string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %ss", n, one)
}
