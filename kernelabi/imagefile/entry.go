// Package imagefile reads machine code of BPF JITs as kernels and tools leave
// it behind: kernel logs, dumps of bpftool, listings, records, hex and raw bytes.
package imagefile

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kjit-project/kjit/kernelabi"
)

// Form is a kind of file.
type Form string

const (
	Log     Form = "kernel log"
	Bpftool Form = "dump of bpftool"
	Records Form = "record"
	Listing Form = "listing"
	Hex     Form = "hex text"
	Binary  Form = "file of raw bytes"
)

// MaxImage bounds the bytes of one image, as the kernel's bpf_jit_disasm does.
const MaxImage = 1000000

// Entry is one image in a file.
type Entry struct {
	File string
	Line int // where it begins, from 1; 0 in files without lines
	// Number counts the images of the file from 1, those among them that could
	// not be read.
	Number int
	Form   Form
	Name   string // of a record, or of a function; "" elsewhere

	Code []byte
	// Printed is the address that the file gives. In a kernel log it may be a
	// hash, or the address of a copy; see kernelabi.Profile.LogsCopy. 0: none.
	Printed uint64

	Insns int    // instructions of the program as the kernel counts them; 0 unknown
	Pass  int    // 0 unknown
	Comm  string // process that loaded the program, "" unknown
	PID   int

	// Record is what the image is part of, or nil. It may be a refusal; then
	// there is no Code.
	Record *kernelabi.KernelImageRecord
}

// String says where the image is from: "dmesg.txt:12".
func (e *Entry) String() string {
	switch {
	case e.Name != "":
		return e.File + ": " + e.Name
	case e.Line > 0:
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return e.File
}

// Error is a fault of a file of images.
type Error struct {
	File   string
	Line   int // 0: no line in particular
	Reason string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// pattern is a regular expression that is compiled at its first use: most
// commands read no images.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// readers are the readers of each form.
var readers = map[Form]func(file string, data []byte) ([]Entry, error){
	Log: ReadLog, Bpftool: ReadBpftool, Records: ReadRecords, Listing: ReadListing, Hex: ReadHex, Binary: ReadBinary,
}

// Read reads a file in whatever form it is. Errors are *Error, joined if there
// are several; the images that could be read are returned all the same.
func Read(file string, data []byte) ([]Entry, error) {
	entries, err := readers[Detect(data)](file, data)
	for i := range entries {
		if entries[i].Number == 0 {
			entries[i].Number = i + 1
		}
	}
	return entries, err
}

// Detect tells what form data has.
func Detect(data []byte) Form {
	text := bytes.TrimSpace(data)
	switch {
	case bytes.Contains(data, []byte(dumpMark)), bytes.Contains(data, []byte("flen=")) && bytes.Contains(data, []byte("proglen=")):
		return Log
	case len(text) > 0 && text[0] == '{' && printable(text):
		return Records
	case len(text) > 0 && text[0] == '[' && printable(text):
		return Bpftool
	case printable(text) && isListing(text):
		return Listing
	case printable(text):
		return Hex
	}
	return Binary
}

// printable reports whether data looks like text.
func printable(data []byte) bool {
	return utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool {
		return !unicode.IsPrint(r) && !unicode.IsSpace(r)
	})
}
