package bpftext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kjit-project/kjit/bpf"
)

func formatJSON(prog bpf.Program) ([]byte, error) {
	b, err := json.Marshal(prog)
	return append(b, '\n'), err
}

// parseJSON reads [[code, jt, jf, k], ...]. Comment lines may stand around it.
func parseJSON(name string, data []byte) (*Listing, error) {
	src := newSource(name, data)
	dec := json.NewDecoder(bytes.NewReader([]byte(src.text)))
	lines := lineCounter{text: src.text}
	fail := func(what any) (*Listing, error) {
		off := int(dec.InputOffset())
		if what == io.EOF || what == io.ErrUnexpectedEOF {
			what, off = "the text ends early", len(src.text)
		}
		return nil, src.errorAt(lines.at(off), fmt.Sprintf("%v: want [[code, jt, jf, k], ...]", what))
	}
	if open, err := dec.Token(); err != nil {
		return fail(err)
	} else if open != json.Delim('[') {
		return fail(fmt.Sprintf("%.40v", open))
	}
	l := &Listing{Comments: src.comments}
	for dec.More() {
		var ins bpf.Instruction
		if len(l.Program) == bpf.MaxInsns {
			return nil, src.errorAt(lines.at(int(dec.InputOffset())), tooLong(fmt.Sprintf("more than %d", bpf.MaxInsns)))
		}
		if err := dec.Decode(&ins); err != nil {
			return fail(err)
		}
		l.Program = append(l.Program, ins)
		l.Lines = append(l.Lines, lines.at(int(dec.InputOffset())))
	}
	if _, err := dec.Token(); err != nil {
		return fail(err)
	}
	if rest := bytes.TrimSpace([]byte(src.text)[dec.InputOffset():]); len(rest) > 0 {
		return fail(fmt.Sprintf("%.40q after the program", rest))
	}
	if len(l.Program) == 0 {
		return fail("no instruction")
	}
	return l, nil
}
