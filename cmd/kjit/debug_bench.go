package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug/console"
	"github.com/kjit-project/kjit/kernelabi"
)

// debugBench reads and opens what the debugger's commands name.
type debugBench struct {
	cmd     *debugCmd
	std     streams
	link    string // of the last captures
	closers []func()
}

func (b *debugBench) close() {
	for _, c := range slices.Backward(b.closers) {
		c()
	}
}

// typed is the name of a program on the line.
const typed = "load bpf"

var errNoStdin = errors.New("standard input is for the debugger's commands: name a file")

// Program reads a program as bpf_dbg takes it, 1,6 0 0 5, or as loadProgram does.
func (b *debugBench) Program(ctx context.Context, text string) (string, bpf.Program, *bpf.Kind, error) {
	if text == "-" {
		return "", nil, nil, errNoStdin
	}
	var (
		prog *source
		err  error
	)
	if _, missing := os.Stat(text); missing != nil && text[0] >= '0' && text[0] <= '9' && strings.Contains(text, ",") {
		prog, err = parseProgram(typed, strings.NewReader(text))
	} else {
		prog, err = loadProgram(ctx, text, cmp.Or(b.cmd.DLT, b.link, "EN10MB"), b.std.in)
	}
	if err != nil {
		return "", nil, nil, err
	}
	if prog.Name == typed {
		prog.Name = "the program"
	}
	return prog.Name, prog.Program, prog.Kind, nil
}

// Inputs reads packets or system calls.
func (b *debugBench) Inputs(ctx context.Context, name string) ([]kernelabi.Input, error) {
	if name == "-" {
		return nil, errNoStdin
	}
	set, err := loadInputs(ctx, []string{name}, nil, &b.cmd.metadata, b.cmd.KeepGoing, b.std)
	if err != nil {
		return nil, err
	}
	if _, err := set.kind(); err != nil {
		return nil, err
	}
	b.link = set.linkType()
	return set.Inputs, nil
}

// Target opens a JIT, a mutant or a plugin.
func (b *debugBench) Target(ctx context.Context, name string) (harness.Imager, error) {
	r := replayCmd{pluginFlags: b.cmd.pluginFlags, imageFlags: imageFlags{Profile: b.cmd.Profile}}
	runner, err := r.openRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() { runner.Close() })
	return runner.(harness.Imager), nil
}

// converse reads commands from a terminal, where errors are told and no end.
func converse(ctx context.Context, c *console.Console, in, out *os.File) error {
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "> ")
	screen.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		full := console.Complete(line[:pos])
		return full + line[pos:], len(full), true
	}
	if err := c.Greet(); err != nil {
		return err
	}
	for {
		line, err := readLine(screen, in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		quit, err := c.Do(ctx, line)
		if quit || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			io.WriteString(out, err.Error()+"\n")
		}
	}
}

// readLine reads one line with editing and history. The terminal is raw only
// meanwhile, so that Ctrl-C ends a command that takes too long.
func readLine(screen *term.Terminal, in *os.File) (string, error) {
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(in.Fd()), old)
	if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
		screen.SetSize(width, height)
	}
	line, err := screen.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}
