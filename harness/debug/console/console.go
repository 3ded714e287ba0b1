// Package console is the debugger as commands on lines, in the style of bpf_dbg:
// for terminals that are no screens, and for scripts.
package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/kernelabi"
)

// Opener reads what the commands name.
type Opener interface {
	// Program reads a program in any form: the text itself, or the name of
	// a file or of one that comes with kjit. The kind is nil if that is not known.
	Program(ctx context.Context, text string) (name string, prog bpf.Program, kind *bpf.Kind, err error)
	// Inputs reads packets or system calls.
	Inputs(ctx context.Context, name string) ([]kernelabi.Input, error)
	// Target opens a JIT. It is the opener that closes it.
	Target(ctx context.Context, name string) (harness.Imager, error)
}

// Console runs commands. It belongs to one goroutine; Close frees its session.
type Console struct {
	Open Opener
	Out  io.Writer
	JSON bool // an object for each command in place of text
	Echo bool // write each line of a script before it is run

	config  debug.Config
	session *debug.Session // nil until there is a program
	found   int            // the packet whose divergence was gone to, or -1
}

// New returns a console for what is known already: config needs no program and
// no inputs. A program without inputs is run on [harness.DefaultInputs].
func New(config debug.Config, open Opener, out io.Writer) (*Console, error) {
	c := &Console{Open: open, Out: out, config: config, found: -1}
	if config.Program == nil {
		return c, nil
	}
	return c, c.renew(config)
}

// Session returns the session, nil if there is none yet.
func (c *Console) Session() *debug.Session { return c.session }

// Close frees the session.
func (c *Console) Close() error {
	if c.session == nil {
		return nil
	}
	return c.session.Close()
}

// renew starts a session for another config. After an error all is as before.
func (c *Console) renew(config debug.Config) (err error) {
	use := config
	if len(use.Inputs) == 0 {
		if use.Inputs, err = harness.DefaultInputs(use.Program, use.Kind); err != nil {
			return err
		}
	}
	s, err := debug.New(use)
	if err != nil {
		return err
	}
	if c.session != nil {
		c.session.Close()
	}
	c.config, c.session, c.found = config, s, -1
	return nil
}

// Error is a command that failed.
type Error struct {
	Line int // of the script, from 1
	Text string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s: %v", e.Line, e.Text, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// maxLine is how long a line of a script may be: the longest program on one
// fits.
const maxLine = 1 << 20

// Run runs the lines of a script up to its end, a "quit", or the first command
// that fails, which is the *Error that it returns. Empty lines and lines that
// begin with # are passed over.
func (c *Console) Run(ctx context.Context, script io.Reader) error {
	lines := bufio.NewScanner(script)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if c.Echo && !c.JSON {
			fmt.Fprintf(c.Out, "> %s\n", line)
		}
		quit, err := c.Do(ctx, line)
		if err != nil {
			return &Error{n, line, err}
		}
		if quit {
			return nil
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return &Error{n + 1, "...", fmt.Errorf("the line has more than %d characters", maxLine)}
	} else if err != nil {
		return err
	}
	return nil
}

// Do runs one line, and reports whether it asks for the end.
func (c *Console) Do(ctx context.Context, line string) (quit bool, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return false, nil
	}
	word, rest, _ := strings.Cut(line, " ")
	cmd, err := find("command", commands(), word)
	if err != nil {
		return false, err
	}
	if cmd.name == "quit" {
		return true, nil
	}
	if cmd.session && c.session == nil {
		return false, errors.New("no program loaded: load bpf PROGRAM")
	}
	var text strings.Builder
	p := &printer{c: c, w: &text, s: c.session}
	if err := cmd.run(ctx, p, strings.TrimSpace(rest)); err != nil {
		return false, err
	}
	if c.JSON {
		return false, c.encode(line, text.String())
	}
	_, err = io.WriteString(c.Out, text.String())
	return false, err
}

// Greet tells what the session is about.
func (c *Console) Greet() error {
	if c.JSON {
		return nil
	}
	if c.session == nil {
		_, err := fmt.Fprintln(c.Out, "no program loaded: load bpf PROGRAM (help lists the commands)")
		return err
	}
	p := &printer{c: c, w: c.Out, s: c.session}
	p.about()
	return nil
}
