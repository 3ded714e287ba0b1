package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/harness/ciformat"
)

// ciFlags are about files for systems for continuous integration.
type ciFlags struct {
	JUnit string `name:"junit" placeholder:"FILE" help:"Also write what came of it as JUnit XML."`
	SARIF string `name:"sarif" placeholder:"FILE" help:"Also write what failed as SARIF 2.1.0, which code hosts show beside the code."`
}

// wanted reports whether any of the files is.
func (f *ciFlags) wanted() bool { return len(f.files()) > 0 }

// check finds mistakes before any work is done.
func (f *ciFlags) check() error {
	for i, file := range f.files() {
		flag, file := file.flag, file.name
		bad := func(format string, args ...any) error {
			return badInput(fmt.Errorf("%s %s: "+format, append([]any{flag, file}, args...)...))
		}
		switch {
		case file == "-":
			return bad("standard output has what the command prints: name a file")
		case i > 0 && file == f.JUnit:
			return bad("is the file of --junit, too: name another")
		}
		if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
			return bad("there is no such folder")
		}
		if err := (&output{name: file}).check(); err != nil {
			return badInput(fmt.Errorf("%s %w", flag, err))
		}
	}
	return nil
}

// ciFile is a file that is wanted.
type ciFile struct {
	flag, name string
	write      func(*ciformat.Run, io.Writer) error
}

// files are those that are wanted.
func (f *ciFlags) files() []ciFile {
	all := []ciFile{{"--junit", f.JUnit, (*ciformat.Run).WriteJUnit}, {"--sarif", f.SARIF, (*ciformat.Run).WriteSARIF}}
	return slices.DeleteFunc(all, func(file ciFile) bool { return file.name == "" })
}

// write writes the files.
func (f *ciFlags) write(run *ciformat.Run) error {
	run.Version = version()
	for _, file := range f.files() {
		var b bytes.Buffer
		err := file.write(run, &b)
		if err == nil {
			err = writeWhole(file.name, b.Bytes())
		}
		if err != nil {
			return environment(fmt.Errorf("%s: %w", file.flag, err))
		}
	}
	return nil
}

// realFile returns the name of what is a file, of what comes with kjit the name
// that it has in kjit's sources, and "" for what has a name of another kind, such
// as a filter expression.
func realFile(name string) string {
	if what, ok := strings.CutPrefix(name, corpusPrefix); ok {
		switch {
		case what == "packets":
			return "corpus/packets.pcapng"
		case isRepro(what):
			return "corpus/findings/" + what
		}
		return "corpus/programs/" + what + ".txt"
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return name
	}
	return ""
}
