package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
)

// Mutants are what kjit --json mutants printed.
type Mutants struct {
	Name      string
	Rows      []Mutant
	Found     int
	Directed  int
	Right     int // put down to the rule that is faulty
	WithRule  int // of those that have one
	Seed      string
	Seconds   string
	Invisible []Invisible

	hunted bool
}

// Mutant is a row.
type Mutant struct {
	Name, Summary, Versions              string
	Found, Hunted, Directed              bool
	Programs, Seconds, Size, Check, Rule string
	Right                                string
	Program                              []string
	Input                                string
	MoreInsns                            int
}

// Invisible is a fault that code does not show.
type Invisible struct{ Name, Versions, Why string }

func (r *reader) mutant(data []byte) error {
	var m struct {
		Name, Summary, Versions string
		Trap                    bool
		Found                   *bool
		Programs                uint64
		Seconds                 float64
		Directed                string
		Check, Rule, Right      string
		Insns, Bytes            int
		Program                 json.RawMessage
		Input                   json.RawMessage
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	if r.mutants == nil {
		r.mutants = &Mutants{Name: r.name}
	}
	if len(r.mutants.Rows) >= 5*maxRows {
		return errors.New("more mutants than can be shown")
	}
	out := Mutant{Name: line(m.Name), Summary: line(m.Summary), Versions: line(m.Versions), Hunted: m.Found != nil, Directed: m.Directed != ""}
	if m.Trap {
		out.Versions = "trap"
	}
	if out.Hunted {
		r.mutants.hunted = true
		out.Found = *m.Found
		out.Programs, out.Seconds = thousands(m.Programs), strconv.FormatFloat(m.Seconds, 'f', 2, 64)
	}
	if out.Directed {
		r.mutants.Directed++
	}
	if out.Found {
		r.mutants.Found++
		out.Size = fmt.Sprintf("%d / %d", m.Insns, m.Bytes)
		out.Check, out.Rule, out.Right = line(m.Check), line(m.Rule), line(m.Right)
		if m.Right != "-" {
			r.mutants.WithRule++
			if m.Right == "yes" {
				r.mutants.Right++
			}
		}
		var prog bpf.Program
		if listing, err := bpftext.ParseAs(bpftext.JSON, "program", m.Program); err == nil {
			prog = listing.Program
		}
		for pc, ins := range prog {
			if pc == 64 {
				out.MoreInsns = len(prog) - pc
				break
			}
			out.Program = append(out.Program, bpftext.FormatInstruction(pc, ins))
		}
		out.Input = cut(string(m.Input), maxLine)
	}
	r.mutants.Rows = append(r.mutants.Rows, out)
	return nil
}

// hunted is the summary of kjit mutants.
func (r *reader) hunted(data []byte) error {
	var s struct {
		Seed      uint64
		Seconds   float64
		Invisible []Invisible
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if r.mutants == nil {
		r.mutants = &Mutants{Name: r.name}
	}
	r.mutants.Seed, r.mutants.Seconds = fmt.Sprint(s.Seed), strconv.FormatFloat(s.Seconds, 'f', 1, 64)
	for _, i := range s.Invisible {
		if len(r.mutants.Invisible) < maxRows {
			r.mutants.Invisible = append(r.mutants.Invisible, Invisible{line(i.Name), line(i.Versions), line(i.Why)})
		}
	}
	r.endMutants()
	return nil
}

func (r *reader) endMutants() {
	m := r.mutants
	if m == nil {
		return
	}
	r.mutants = nil
	r.Report.mutants = append(r.Report.mutants, m)
	s := Source{Name: m.Name, What: "mutants", Counts: count(len(m.Rows), "mutant"), Verdict: fmt.Sprintf("%d found", m.Found), Bad: m.Found < len(m.Rows)}
	switch {
	case !m.hunted:
		s.Verdict, s.Bad = "a list: none was hunted", false
	case s.Bad:
		s.Verdict = fmt.Sprintf("%d not found", len(m.Rows)-m.Found)
		r.wrong.Mutants += len(m.Rows) - m.Found
	}
	r.sources = append(r.sources, s)
}
