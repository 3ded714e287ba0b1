package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/alecthomas/kong"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/capture"
	"github.com/kjit-project/kjit/kernelabi"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitDiverged    = 1 // a divergence, or a recorded fact that does not hold
	exitBadInput    = 2 // bad input or usage
	exitEnvironment = 3 // the machine lacks something; the message has the command that mends it
	exitInterrupted = 130
)

// codedError is an error with its exit code.
type codedError struct {
	error
	code int
	told bool // standard output says it already, with --json
}

func (e *codedError) Unwrap() error { return e.error }

func badInput(err error) error    { return &codedError{err, exitBadInput, false} }
func environment(err error) error { return &codedError{err, exitEnvironment, false} }

// usageError is for a command line that cannot be parsed: it names the help of
// the command that was meant, as far as that is known.
func usageError(err error) error {
	path, list := "kjit", "the commands and flags"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context.Selected() != nil {
		node := parse.Context.Selected()
		path = node.FullPath()
		if len(node.Children) == 0 {
			list = "the arguments and flags"
		}
		if hint := usageHints[node.Path()]; hint != "" {
			list += "; " + hint
		}
	}
	return badInput(fmt.Errorf("%w (%s --help lists %s)", err, path, list))
}

// usageHints say what people look for in a command when they get it wrong.
var usageHints = map[string]string{
	"mutants": "--only NAME hunts one mutant",
}

// told is for an error that the record on standard output says as well.
func told(err error, code int) error { return &codedError{err, code, true} }

// errDiverged ends a command whose output has already told the story.
var errDiverged = told(errors.New(""), exitDiverged)

// exitCode finds the code for an error that reached the top. Errors that name
// a place in the user's input are bad input wherever they came from.
func exitCode(err error) int {
	var (
		coded *codedError
		text  *bpftext.Error
		form  *bpftext.FormatError
		check *bpf.CheckError
		code  *kernelabi.CodeError
		pcap  *capture.Error
		path  *fs.PathError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &code), errors.As(err, &text), errors.As(err, &form), errors.As(err, &check), errors.As(err, &pcap), errors.As(err, &path):
		return exitBadInput
	}
	return exitEnvironment
}
