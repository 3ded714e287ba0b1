package report

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/repro"
)

// Replay is what kjit --json replay printed.
type Replay struct {
	Name    string
	Runners []string
	Rows    []PacketRow // those on which something diverges, and the first of others
	More    int         // rows that are left out
	Tallies []Tally
	Notes   []string

	diverged int
	total    int
	told     bool // a divergence is among the report's findings
}

// PacketRow is a packet in every runner.
type PacketRow struct {
	Number    int
	File      string
	Len       string
	Reference string
	Cells     []RunCell
	Bad       bool
}

// RunCell is what a runner gave.
type RunCell struct {
	Text, Verdict string
	Bad           bool
}

// Tally is the summary of a runner.
type Tally struct {
	Name, Agree, Diverge, Undefined, NotRun, Why, Mean string
	Bad                                                bool
}

func (rep *Replay) note(text string) {
	if len(rep.Notes) < maxRows {
		rep.Notes = append(rep.Notes, line(text))
	}
}

// outcome is an outcome as records have it.
type outcome struct {
	Kind   string
	Value  *uint32
	Why    string
	Broken string
	Fault  *struct{ Kind, Access, Address, Where string }
}

func (o *outcome) String() string {
	text := o.Kind
	switch {
	case o.Value != nil:
		text = fmt.Sprint(*o.Value)
	case o.Fault != nil && o.Fault.Kind != "":
		text += ": " + o.Fault.Kind
	}
	if o.Broken != "" {
		text += ", " + o.Broken
	}
	return line(text)
}

// startReplay begins a replay, or goes on with it. Whatever comes behind the
// summaries is another one.
func (r *reader) startReplay() *Replay {
	if r.replay != nil && len(r.replay.Tallies) > 0 {
		r.endReplay()
	}
	if r.replay == nil {
		r.replay = &Replay{Name: r.name}
	}
	return r.replay
}

func (r *reader) packet(data []byte) error {
	var p struct {
		Packet  int
		File    string
		Len     uint64
		Runners map[string]struct {
			Want, Got outcome
			Verdict   string
		}
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	if len(p.Runners) > 64 {
		return fmt.Errorf("%d runners", len(p.Runners))
	}
	rep := r.startReplay()
	rep.total++
	if rep.Runners == nil {
		for name := range p.Runners {
			rep.Runners = append(rep.Runners, name)
		}
		slices.Sort(rep.Runners)
	}
	row := PacketRow{Number: p.Packet, File: line(p.File), Len: thousands(p.Len)}
	var wants []string
	for _, name := range rep.Runners {
		cell := p.Runners[name]
		bad := cell.Verdict == harness.Diverge.String()
		row.Bad = row.Bad || bad
		row.Cells = append(row.Cells, RunCell{cell.Got.String(), line(cell.Verdict), bad})
		if want := cell.Want.String(); !slices.Contains(wants, want) {
			wants = append(wants, want)
			if row.Reference != "" {
				row.Reference += " or "
			}
			row.Reference += want
		}
	}
	if row.Bad {
		rep.diverged++
	}
	if len(rep.Rows) < maxRows {
		rep.Rows = append(rep.Rows, row)
		return nil
	}
	rep.More++
	if row.Bad {
		// One that diverges is worth more than the last that does not.
		for i := len(rep.Rows) - 1; i >= 0; i-- {
			if !rep.Rows[i].Bad {
				rep.Rows = append(slices.Delete(rep.Rows, i, i+1), row)
				break
			}
		}
	}
	return nil
}

func (r *reader) divergence(data []byte) error {
	var d struct {
		Packet int
		Runner string
		How    string
		Repro  string // since kjit prints it, the file that runs it again
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	rep := r.startReplay()
	if d.Repro == "" {
		rep.note(fmt.Sprintf("packet %d, %s: %s", d.Packet, d.Runner, d.How))
		return nil
	}
	found, err := repro.Parse("repro", []byte(d.Repro))
	if err != nil {
		return err
	}
	f := newFinding(found, r.name, "", "")
	f.fact("input", fmt.Sprintf("number %d of the replay", d.Packet))
	r.addFinding(f)
	rep.told = true
	return nil
}

func (r *reader) interrupted(data []byte) error {
	var i struct{ Done, Total int }
	if err := json.Unmarshal(data, &i); err != nil {
		return err
	}
	r.startReplay().note(fmt.Sprintf("interrupted after %d of %s", i.Done, count(i.Total, "input")))
	return nil
}

// repro is what became of a recorded divergence.
func (r *reader) repro(data []byte) error {
	var p struct{ File, Signature, Status, Now, Why string }
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	if r.replay == nil {
		r.replay = &Replay{Name: r.name}
	}
	text := fmt.Sprintf("%s (%s): %s", p.File, p.Signature, p.Status)
	if p.Why != "" {
		text += ": " + p.Why
	}
	r.replay.note(text)
	return nil
}

// tally is the summary of a runner.
func (r *reader) tally(data []byte) error {
	var t harness.Tally
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	if r.replay == nil {
		r.replay = &Replay{Name: r.name}
	}
	out := Tally{Name: line(t.Runner), Agree: thousands(t.Agree), Diverge: thousands(t.Diverge), Undefined: thousands(t.Undefined), NotRun: thousands(t.NotRun), Why: line(t.Why), Mean: "–", Bad: t.Diverge > 0}
	if ran := t.Agree + t.Diverge + t.Undefined; ran > 0 && t.Executed > 0 {
		out.Mean = fmt.Sprintf("%.1f", float64(t.Executed)/float64(ran))
	}
	if len(r.replay.Tallies) < maxRows {
		r.replay.Tallies = append(r.replay.Tallies, out)
	}
	return nil
}

// endReplay adds a replay.
func (r *reader) endReplay() {
	rep := r.replay
	if rep == nil {
		return
	}
	r.replay = nil
	r.replays = append(r.replays, rep)
	s := Source{Name: rep.Name, What: "replay", Counts: fmt.Sprintf("%s in %s", count(rep.total, "input"), count(len(rep.Tallies), "runner")), Verdict: "all agree"}
	s.Bad = rep.diverged > 0 || slices.ContainsFunc(rep.Tallies, func(t Tally) bool { return t.Bad })
	switch {
	case rep.diverged > 0:
		s.Verdict = fmt.Sprintf("%s with a divergence", count(rep.diverged, "input"))
	case s.Bad:
		s.Verdict = "diverges"
	}
	if s.Bad && !rep.told {
		r.wrong.replays++
	}
	r.sources = append(r.sources, s)
}
