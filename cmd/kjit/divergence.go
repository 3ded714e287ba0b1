package main

import (
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/plugin"
	"github.com/kjit-project/kjit/harness/repro"
)

// divergenceOf looks closely at what runner i of a row does. The error says why
// it has no place.
func divergenceOf(l *harness.Locator, runner harness.Runner, prog *source, row *harness.Row, i int) (*judge.Divergence, error) {
	place, err := l.Locate(runner, prog.Program, row.Input)
	if err != nil {
		place = nil
	}
	return judge.Describe(runner, prog.Program, row.Input, row.Want[i], row.Got[i], place), err
}

// maxProgramNotes is how many comments of a program its repro has.
const maxProgramNotes = 8

// reproOf is the file of a divergence that a replay showed, with what its program
// says of itself. A plugin stands there as the command that started it, which is
// what --jit takes.
func reproOf(d *judge.Divergence, runner harness.Runner, prog *source) *repro.Repro {
	r := repro.New(d)
	if p, ok := runner.(*plugin.Runner); ok {
		r.JIT = execPrefix + plugin.FormatCommand(p.Command())
		r.Comments = []string{"kjit replay FILE --jit '" + r.JIT + "' runs this again: a command must be named, no file is trusted to."}
	}
	r.Found = "kjit replay " + prog.Name
	for _, c := range prog.Comments[:min(len(prog.Comments), maxProgramNotes)] {
		r.Comments = append(r.Comments, "of the program: "+c)
	}
	return r
}
