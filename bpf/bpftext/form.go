// Package bpftext reads and writes classic BPF programs in the forms that
// tools print and people paste: tcpdump -d, -dd and -ddd, bpf_asm source and
// both of its outputs, the iptables and ss forms, JSON, and the raw array.
//
// [Parse] finds out which form its input has. Every text form may carry comment
// lines, which begin with ";", "#" or "//"; they come back in
// [Listing.Comments]. What each reader tolerates stands at its source; none
// drops an instruction silently.
//
// All forms but [D] and [Asm] carry every field of every instruction. Those two
// lose the fields that an instruction does not use ([ZeroUnused]); [D] keeps
// nothing but the code, jt and jf of a code that libpcap does not know, and
// [Asm] refuses programs that bpf_asm has no words for ([FormatError]).
package bpftext

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// Form is a way to write a program down.
type Form uint8

const (
	D         Form = iota // tcpdump -d, libpcap's bpf_image: "(000) ldh      [12]"
	DD                    // tcpdump -dd: "{ 0x28, 0, 0, 0x0000000c },"; read with C around it
	DDD                   // tcpdump -ddd: a count line, then "40 0 0 12" lines
	Comma                 // bpf_asm: "2,40 0 0 12,6 0 0 0,", what bpf_dbg loads
	XT                    // iptables -m bpf --bytecode: the same with its limits and tolerances
	AsmC                  // bpf_asm -c: "{ 0x28,  0,  0, 0x0000000c },"
	Asm                   // bpf_asm source, read with the liberties in [Liberties]
	AsmStrict             // bpf_asm source, read exactly as the bpf_asm of Linux 6.1 does
	SS                    // ss -0b: "bpf filter (2):  0x28 0 0 12, 0x06 0 0 0,"
	JSON                  // "[[40,0,0,12],[6,0,0,0]]"
	Raw                   // struct sock_filter array, 8 bytes each, little endian
	RawBE                 // the same, big endian

	numForms
)

// forms is what there is to know of each form. Readers and writers see at most
// bpf.MaxInsns instructions and, in readers, at least one.
var forms = [numForms]struct {
	name, about string
	parse       func(name string, data []byte) (*Listing, error)
	format      func(bpf.Program) ([]byte, error)
}{
	D:         {"d", "tcpdump -d listing", parseD, formatD},
	DD:        {"dd", "tcpdump -dd C initialisers", parseC, formatDD},
	DDD:       {"ddd", "tcpdump -ddd decimal numbers", parseDDD, formatDDD},
	Comma:     {"comma", "bpf_asm output, one line of decimal numbers", parseComma, formatComma},
	XT:        {"xt", "iptables --bytecode", parseXT, formatXT},
	AsmC:      {"c", "bpf_asm -c C initialisers", parseC, formatAsmC},
	Asm:       {"asm", "bpf_asm source", parseAsmFriendly, formatAsm},
	AsmStrict: {"asm-strict", "bpf_asm source as bpf_asm itself takes it", parseAsmStrict, formatAsm},
	SS:        {"ss", "ss -0b bpf filter line", parseSS, formatSS},
	JSON:      {"json", "JSON [[code, jt, jf, k], ...]", parseJSON, formatJSON},
	Raw:       {"raw", "struct sock_filter array, little endian", parseRaw, formatRaw},
	RawBE:     {"raw-be", "struct sock_filter array, big endian", parseRawBE, formatRawBE},
}

// Forms returns every form, in the order of the constants.
func Forms() []Form {
	all := make([]Form, numForms)
	for f := range all {
		all[f] = Form(f)
	}
	return all
}

// String returns the short name that [FormByName] takes.
func (f Form) String() string {
	if f >= numForms {
		return fmt.Sprintf("form(%d)", uint8(f))
	}
	return forms[f].name
}

// About says in a few words what the form is.
func (f Form) About() string {
	if f >= numForms {
		return f.String()
	}
	return forms[f].about
}

// MarshalText writes the short name.
func (f Form) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads a short name.
func (f *Form) UnmarshalText(text []byte) (err error) {
	*f, err = FormByName(string(text))
	return err
}

// FormByName finds a form by its short name: "d", "dd", "ddd", "comma", "xt",
// "c", "asm", "asm-strict", "ss", "json", "raw" or "raw-be".
func FormByName(name string) (Form, error) {
	for f := range forms {
		if forms[f].name == name {
			return Form(f), nil
		}
	}
	names := make([]string, numForms)
	for f := range forms {
		names[f] = forms[f].name
	}
	return 0, fmt.Errorf("form %q: want one of %s", name, strings.Join(names, ", "))
}

// Listing is a program as it was read.
type Listing struct {
	Program  bpf.Program
	Form     Form
	Comments []string // comment lines in order, without marker and outer blanks
	Lines    []int    // source line of each instruction, from 1; nil for Raw and RawBE
}

// Parse reads a program in whichever form data has. The name stands for the
// input in errors, which are all of type *Error.
func Parse(name string, data []byte) (*Listing, error) {
	if hasPrefix(data, utf16) {
		return nil, &Error{name, 0, "UTF-16 text: save it as UTF-8"}
	}
	form, ok := detect(data)
	if !ok {
		return nil, &Error{name, 0, "no program found: want tcpdump -d, -dd or -ddd text, bpf_asm source or output, an ss -0b filter, JSON [[code, jt, jf, k], ...] or a raw struct sock_filter array"}
	}
	return ParseAs(form, name, data)
}

// ParseAs reads a program in the given form.
func ParseAs(form Form, name string, data []byte) (*Listing, error) {
	if form >= numForms {
		return nil, &Error{name, 0, "unknown " + form.String()}
	}
	l, err := forms[form].parse(name, data)
	if err != nil {
		return nil, err
	}
	l.Form = form
	return l, nil
}

// Format writes a program. Errors are of type *FormatError: the program is
// empty or too long, or the form cannot say it.
func Format(form Form, prog bpf.Program) ([]byte, error) {
	if form >= numForms {
		return nil, &FormatError{form, -1, "no such form"}
	}
	switch {
	case len(prog) == 0:
		return nil, &FormatError{form, -1, "the program is empty"}
	case len(prog) > bpf.MaxInsns:
		return nil, &FormatError{form, -1, fmt.Sprintf("%d instructions are more than the %d of the longest program", len(prog), bpf.MaxInsns)}
	}
	return forms[form].format(prog)
}

// Error is input that is no program, at a place.
type Error struct {
	File   string // the name given to Parse
	Line   int    // from 1; 0 when no line is to blame
	Reason string // what is wrong and what was expected
}

func (e *Error) Error() string {
	file := e.File
	if file == "" {
		file = "input"
	}
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", file, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", file, e.Line, e.Reason)
}

// FormatError is a program that a form cannot express.
type FormatError struct {
	Form   Form
	PC     int // the instruction to blame; -1 for the whole program
	Reason string
}

func (e *FormatError) Error() string {
	if e.PC < 0 {
		return fmt.Sprintf("cannot write form %s: %s", e.Form, e.Reason)
	}
	return fmt.Sprintf("cannot write form %s: pc %d: %s", e.Form, e.PC, e.Reason)
}

// tooLong is the reason when a count, or what follows, is above the limit.
func tooLong(count string) string {
	return fmt.Sprintf("%s instructions: a program has at most %d", count, bpf.MaxInsns)
}

// appendEach writes one formatted piece per instruction.
func appendEach(prog bpf.Program, format string) []byte {
	var b bytes.Buffer
	for _, ins := range prog {
		fmt.Fprintf(&b, format, ins.Code, ins.JT, ins.JF, ins.K)
	}
	return b.Bytes()
}
