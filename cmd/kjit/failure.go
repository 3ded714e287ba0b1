package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/capture"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/harness/verify"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/kernelabi/btflayout"
	"github.com/kjit-project/kjit/kernelabi/imagefile"
)

// failureJSON is the error that ends a command, for programs.
type failureJSON struct {
	Type    string `json:"type"` // "error"
	Exit    int    `json:"exit"`
	File    string `json:"file,omitempty"` // where in the input, if the error is about a place there
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// fail tells why a command fails and returns its exit code: on standard error,
// and with --json an object for each error on standard output as well, unless
// the output says it already.
func fail(err error, std streams, asJSON bool) int {
	code := exitCode(err)
	var coded *codedError
	known := errors.As(err, &coded) && coded.told
	enc := json.NewEncoder(std.out)
	for _, err := range flat(err) {
		text := strings.TrimSuffix(err.Error(), "\n")
		if text == "" {
			continue
		}
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(std.err, "kjit: %s\n", line)
		}
		if asJSON && !known {
			file, line := placeOf(err)
			enc.Encode(failureJSON{"error", code, file, line, text})
		}
	}
	return code
}

// flat takes errors apart that were joined.
func flat(err error) []error {
	if coded, ok := err.(*codedError); ok {
		err = coded.error
	}
	joined, ok := err.(interface{ Unwrap() []error })
	// An error that wraps several in a sentence of its own is one.
	if !ok || err.Error() != errors.Join(joined.Unwrap()...).Error() {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flat(e)...)
	}
	return all
}

// placeOf is the file and line that an error is about.
func placeOf(err error) (file string, line int) {
	var (
		text   *bpftext.Error
		image  *imagefile.Error
		symbol *kernelabi.SymbolError
		layout *kernelabi.LayoutError
		btf    *btflayout.Error
		packet *capture.Error
		bad    *verify.Bad
		found  *repro.Error
	)
	switch {
	case errors.As(err, &text):
		return text.File, text.Line
	case errors.As(err, &image):
		return image.File, image.Line
	case errors.As(err, &symbol):
		return symbol.File, symbol.Line
	case errors.As(err, &layout):
		return layout.File, 0
	case errors.As(err, &btf):
		return btf.File, 0
	case errors.As(err, &packet):
		return packet.File, 0
	case errors.As(err, &bad):
		return bad.File, bad.Line
	case errors.As(err, &found):
		return found.File, found.Line
	}
	return "", 0
}

// wantsJSON reports whether --json is among arguments that could not be parsed.
func wantsJSON(args []string) bool {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	return slices.Contains(args[:end], "--json")
}
