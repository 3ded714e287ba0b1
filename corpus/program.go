// Package corpus holds programs and packets worth running: one program for
// each thing a JIT can get wrong, the faults that kernels shipped, and a
// capture with packets of every shape that the programs look at. They are
// files in this folder, embedded, in the forms that tools print and people
// write.
package corpus

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
)

//go:embed programs/*.txt packets.pcapng
var files embed.FS

const (
	programDir = "programs"
	extension  = ".txt"
)

// Program is one program of the corpus. Its file starts with comment lines: what
// it shows, then what the other fields say, a line of "key: value" each.
type Program struct {
	Name     string // of the file, without folder and extension
	Kind     bpf.Kind
	Form     bpftext.Form
	Comments []string // what it shows, in lines
	Program  bpf.Program

	Refused []string // "refused": names of the bpf.Rules that do not accept it
	Mutant  string   // "mutant": the historic fault that it shows; "" if none
	Returns *uint32  // "returns": its value on every packet; nil if that depends on the packet
}

// RefusedBy reports whether a checker with these rules refuses the program.
func (p *Program) RefusedBy(rules bpf.Rules) bool { return slices.Contains(p.Refused, rules.Name) }

// Open opens a file of the corpus: "packets.pcapng", "programs/alu-k.txt".
func Open(name string) (fs.File, error) { return files.Open(name) }

// ProgramNames lists the programs in alphabetical order.
func ProgramNames() []string {
	entries, err := files.ReadDir(programDir)
	if err != nil {
		panic(err) // the folder is embedded
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), extension)
	}
	return names
}

// Programs returns all programs in the order of ProgramNames.
func Programs() ([]Program, error) {
	names := ProgramNames()
	programs := make([]Program, len(names))
	for i, name := range names {
		var err error
		if programs[i], err = ProgramByName(name); err != nil {
			return nil, err
		}
	}
	return programs, nil
}

// ProgramByName returns one program, or an error that names those like it.
func ProgramByName(name string) (Program, error) {
	if !slices.Contains(ProgramNames(), name) {
		return Program{}, fmt.Errorf("the corpus has no program %q: %s", name, suggestion(name))
	}
	file := path.Join(programDir, name+extension)
	data, err := files.ReadFile(file)
	if err != nil {
		return Program{}, err
	}
	listing, err := bpftext.Parse(file, data)
	if err != nil {
		return Program{}, err
	}
	p := Program{Name: name, Form: listing.Form, Program: listing.Program}
	for _, line := range listing.Comments {
		if err := p.comment(line); err != nil {
			return Program{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	return p, nil
}

// comment takes one comment line.
func (p *Program) comment(line string) error {
	key, value, _ := strings.Cut(line, ": ")
	switch key {
	case "kind":
		return p.Kind.UnmarshalText([]byte(value))
	case "refused":
		p.Refused = strings.Split(value, ", ")
	case "mutant":
		p.Mutant = value
	case "returns":
		var returns uint32
		if _, err := fmt.Sscan(value, &returns); err != nil {
			return fmt.Errorf("returns %q: want a number", value)
		}
		p.Returns = &returns
	default:
		p.Comments = append(p.Comments, line)
	}
	return nil
}

// suggestion names the programs that share a word with name, or all.
func suggestion(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == ' ' })
	alike := slices.DeleteFunc(ProgramNames(), func(known string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return len(word) > 1 && strings.Contains(known, word) })
	})
	if len(alike) == 0 {
		return "there are " + strings.Join(ProgramNames(), ", ")
	}
	return "do you mean " + strings.Join(alike, ", ") + "?"
}
