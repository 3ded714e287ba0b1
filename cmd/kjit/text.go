package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
)

// asmCmd, disasmCmd and convertCmd are one operation, read a form and write a
// form, under the names people look for.
type asmCmd struct {
	File string `arg:"" optional:"" default:"-" help:"bpf_asm source, or FILE.txtar for the program of a recorded divergence (default: standard input)."`
	To   string `default:"comma" placeholder:"FORM" help:"Form to write: ${forms} (default ${default}, what bpf_asm prints)."`
}

type disasmCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Program in any form, corpus:NAME, or FILE.txtar for that of a recorded divergence (default: standard input)."`
}

type convertCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Program in any form, corpus:NAME, or FILE.txtar for that of a recorded divergence (default: standard input)."`
	From string `placeholder:"FORM" help:"Form to read (default: seen from the content)."`
	To   string `required:"" placeholder:"FORM" help:"Form to write: ${forms}."`
}

func (c *asmCmd) Run(std streams, global *cli) error {
	return convert(std, global, c.File, bpftext.Asm.String(), c.To)
}

func (c *disasmCmd) Run(std streams, global *cli) error {
	return convert(std, global, c.File, "", bpftext.D.String())
}

func (c *convertCmd) Run(std streams, global *cli) error {
	return convert(std, global, c.File, c.From, c.To)
}

// convert writes the program of a file in another form, whole or not at all.
func convert(std streams, global *cli, file, from, to string) error {
	target, err := bpftext.FormByName(to)
	if err != nil {
		return badInput(fmt.Errorf("--to: %w", err))
	}
	prog, err := readProgram(file, from, std.in)
	if err != nil {
		return err
	}
	out, err := bpftext.Format(target, prog.Program)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", prog.Name, err))
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(struct {
			Form    string      `json:"form"`
			Program bpf.Program `json:"program"`
			Text    string      `json:"text,omitempty"` // not of raw forms
		}{target.String(), prog.Program, textOf(target, out)})
	}
	_, err = std.out.Write(out)
	return err
}

// textOf is what was written, if it is text.
func textOf(form bpftext.Form, out []byte) string {
	if form == bpftext.Raw || form == bpftext.RawBE {
		return ""
	}
	return string(out)
}

// readProgram reads the program in a file, in the form from, or in any for "". A
// recorded divergence has its program in a form of its own.
func readProgram(file, from string, stdin io.Reader) (*source, error) {
	if isRepro(file) {
		return reproProgram(file)
	}
	name, data, err := readFile(file, stdin)
	if err != nil {
		return nil, err
	}
	var l *bpftext.Listing
	if from == "" {
		l, err = bpftext.Parse(name, data)
	} else {
		var form bpftext.Form
		if form, err = bpftext.FormByName(from); err != nil {
			return nil, badInput(fmt.Errorf("--from: %w", err))
		}
		l, err = bpftext.ParseAs(form, name, data)
	}
	if err != nil {
		return nil, badInput(err)
	}
	return &source{Name: name, Listing: l}, nil
}

// readFile reads a program file, one of the corpus, or standard input for "-".
func readFile(file string, stdin io.Reader) (name string, data []byte, err error) {
	if file == "-" {
		data, err = readAll("standard input", stdin, maxText)
		return "standard input", data, err
	}
	if name, ok := strings.CutPrefix(file, corpusPrefix); ok {
		if _, err := corpus.ProgramByName(name); err != nil {
			return "", nil, badInput(err)
		}
		f, err := corpus.Open("programs/" + name + ".txt")
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		data, err = readAll(file, f, maxText)
		return file, data, err
	}
	data, err = readWhole(file, maxText)
	return file, data, err
}

type checkCmd struct {
	Programs []string `arg:"" help:"Programs: files in any form, -, corpus:NAME, FILE.txtar for that of a recorded divergence, filter expressions."`
	Rules    string   `default:"current" placeholder:"RULES" help:"Whose checker: ${rules} (default ${default})."`
	Kind     string   `placeholder:"KIND" help:"What it is attached to: socket or seccomp (default: as the program says, or socket)."`
	DLT      string   `name:"dlt" default:"EN10MB" placeholder:"TYPE" help:"Link type for filter expressions (default ${default})."`
}

func (c *checkCmd) Run(ctx context.Context, std streams, global *cli) error {
	rules, err := bpf.RulesByName(c.Rules)
	if err != nil {
		return badInput(fmt.Errorf("--rules: %w", err))
	}
	refused := 0
	var unread []error
	for _, arg := range c.Programs {
		prog, err := loadProgram(ctx, arg, c.DLT, std.in)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		kind, err := chooseKind(c.Kind, prog, &inputSet{})
		if err != nil {
			return err
		}
		err = bpf.Check(prog.Program, kind, rules)
		if err != nil {
			refused++
		}
		if global.JSON {
			out := struct {
				Program string `json:"program"`
				Insns   int    `json:"insns"`
				Form    string `json:"form"`
				OK      bool   `json:"ok"`
				PC      *int   `json:"pc,omitempty"`   // the instruction to blame
				Line    int    `json:"line,omitempty"` // of the source
				Reason  string `json:"reason,omitempty"`
			}{Program: prog.Name, Insns: len(prog.Program), Form: prog.Form.String(), OK: err == nil}
			var check *bpf.CheckError
			if errors.As(err, &check) {
				out.Reason = check.Reason
				if check.PC >= 0 {
					out.PC, out.Line = &check.PC, prog.line(check.PC)
				}
			}
			if err := json.NewEncoder(std.out).Encode(out); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			fmt.Fprintf(std.out, "%s (refused)\n", place(prog, err))
		} else {
			fmt.Fprintf(std.out, "%s: accepted: %s, %s\n", prog.Name, plural(len(prog.Program), "instruction"), prog.Form)
		}
	}
	if len(unread) > 0 {
		return errors.Join(unread...)
	}
	if refused > 0 {
		return badInput(fmt.Errorf("%s refused by the %s rules", plural(refused, "program"), c.Rules))
	}
	return nil
}

// line is the source line of an instruction, 0 where the form has no lines.
func (s *source) line(pc int) int {
	if pc < 0 || pc >= len(s.Lines) {
		return 0
	}
	return s.Lines[pc]
}

// place is a checker's error with the program's name and, where the form has
// lines, that of the instruction.
func place(prog *source, err error) string {
	var check *bpf.CheckError
	if errors.As(err, &check) && prog.line(check.PC) > 0 {
		return fmt.Sprintf("%s:%d: %v", prog.Name, prog.line(check.PC), err)
	}
	return fmt.Sprintf("%s: %v", prog.Name, err)
}
