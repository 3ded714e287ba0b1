package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/paper"
	"github.com/kjit-project/kjit/harness/repro"
)

// maxRecord bounds one line of JSON.
const maxRecord = 32 << 20

// Add adds what is in a file or a folder: a campaign's folder, a folder of
// findings, the file of a divergence (.txtar), or what kjit --json replay,
// verify, mutants, fuzz or bench paper printed. Errors are of type *Error, or of
// the file system.
func (r *Report) Add(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return r.addFolder(path)
	case strings.HasSuffix(path, repro.Extension):
		return r.addRepro(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.AddJSON(path, f)
}

// reader takes the lines of a file.
type reader struct {
	*Report
	name    string
	replay  *Replay
	checks  *Checks
	mutants *Mutants
	tables  []*paper.Table
}

// records are the types of lines, and what takes them.
var records = map[string]func(*reader, []byte) error{
	"packet":      (*reader).packet,
	"divergence":  (*reader).divergence,
	"interrupted": (*reader).interrupted,
	"repro":       (*reader).repro,
	"check":       (*reader).check,
	"mutant":      (*reader).mutant,
	"summary":     (*reader).summary,
	"fuzz":        (*reader).fuzz,
	"error":       (*reader).failure,
	"attribution": (*reader).attribution,
	"":            (*reader).table,
}

// AddJSON adds lines of JSON that kjit printed; name stands for them.
func (r *Report) AddJSON(name string, in io.Reader) error {
	rd := &reader{Report: r, name: line(name)}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), maxRecord)
	n, read := 0, 0
	for lines.Scan() {
		n++
		data := bytes.TrimSpace(lines.Bytes())
		if len(data) == 0 {
			continue
		}
		read++
		var kind struct{ Type string }
		err := json.Unmarshal(data, &kind)
		if err == nil {
			take := records[kind.Type]
			if take == nil {
				return &Error{name, n, fmt.Sprintf("nothing is known of records of type %.40q: want what kjit --json replay, verify, mutants, fuzz or bench paper prints", kind.Type)}
			}
			err = take(rd, data)
		}
		if err != nil {
			return &Error{name, n, fmt.Sprintf("no record: %v", err)}
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return &Error{name, n + 1, fmt.Sprintf("a line of more than %d MiB", maxRecord>>20)}
		}
		return err
	}
	if read == 0 {
		return &Error{name, 0, "there is nothing in it"}
	}
	rd.end()
	return nil
}

// end adds what the lines came to.
func (r *reader) end() {
	r.endReplay()
	r.endChecks()
	r.endMutants()
	if len(r.tables) > 0 {
		r.AddTables(r.name, r.tables...)
	}
}

// summary is the last line of several commands.
func (r *reader) summary(data []byte) error {
	var which struct {
		Runner  *string
		Passed  *int
		Mutants *int
	}
	if err := json.Unmarshal(data, &which); err != nil {
		return err
	}
	switch {
	case which.Runner != nil:
		return r.tally(data)
	case which.Passed != nil:
		return r.checked(data)
	case which.Mutants != nil:
		return r.hunted(data)
	}
	return errors.New("a summary of something unknown")
}

// attribution tells where a runner's instructions went, which the report of a replay
// has no room for.
func (r *reader) attribution(data []byte) error { return nil }

// failure is the error that ended a command.
func (r *reader) failure(data []byte) error {
	var e struct{ Message string }
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if len(r.problems) < maxRows {
		r.problems = append(r.problems, line(r.name+": "+e.Message))
	}
	return nil
}

// table is one of kjit bench paper, which has no type.
func (r *reader) table(data []byte) error {
	t := new(paper.Table)
	if err := json.Unmarshal(data, t); err != nil {
		return err
	}
	switch {
	case t.Name == "" || len(t.Columns) == 0:
		return errors.New("neither a record with a type nor a published table")
	case len(t.Columns) > 32 || len(t.Rows) > maxRows || len(t.Checks) > maxRows || len(t.Notes) > maxRows || len(r.tables) >= 32:
		return errors.New("a table of more columns or rows than any has")
	}
	for i := range t.Rows {
		if len(t.Rows[i].Cells) != len(t.Columns) {
			return fmt.Errorf("row %d has %d cells, and the table %d columns", i, len(t.Rows[i].Cells), len(t.Columns))
		}
	}
	for _, c := range t.Plot.Columns {
		if c < 0 || c >= len(t.Columns) {
			return fmt.Errorf("there is no column %d to plot", c)
		}
	}
	for i := range t.Columns {
		t.Columns[i].Decimals = min(max(t.Columns[i].Decimals, 0), 6)
	}
	r.tables = append(r.tables, t)
	return nil
}

// fuzz is the summary of a campaign without its folder.
func (r *reader) fuzz(data []byte) error {
	var f struct {
		State           string
		Seed            uint64
		Programs, Pairs uint64
		Corpus          int
		Targets         []struct {
			JIT                                 string
			Agree, Diverge, Undefined, Executed uint64
			NotRun                              uint64 `json:"not_run"`
			Why                                 string
			Rules, Edges                        uint64
		}
		Findings []struct {
			JIT, Rule    string
			Kind         judge.Kind
			Programs     uint64
			Instructions int
			Want, Got    string
		}
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if len(r.campaigns) >= maxRows || len(f.Targets) > maxRows {
		return errors.New("more campaigns or targets than can be shown")
	}
	c := &Campaign{Name: line(f.State), Facts: []Fact{
		{"seed", fmt.Sprint(f.Seed)}, {"programs", thousands(f.Programs)}, {"comparisons", thousands(f.Pairs)},
		{"working corpus", count(f.Corpus, "program")},
	}}
	for _, t := range f.Targets {
		c.Targets = append(c.Targets, Target{Name: line(t.JIT), Agree: thousands(t.Agree), Diverge: thousands(t.Diverge), Undefined: thousands(t.Undefined),
			NotRun: thousands(t.NotRun), Why: line(t.Why), Executed: thousands(t.Executed), Rules: thousands(t.Rules), Edges: thousands(t.Edges), Bad: t.Diverge > 0})
	}
	r.campaigns = append(r.campaigns, c)
	s := Source{Name: r.name, What: "campaign", Counts: count(f.Programs, "program") + ", " + count(f.Pairs, "comparison"), Verdict: "nothing found"}
	if len(f.Findings) > 0 {
		s.Bad, s.Verdict = true, count(len(f.Findings), "finding")
		c.More = fmt.Sprintf("%s: name the folder %s to have them told", s.Verdict, c.Name)
	}
	for _, f := range f.Findings {
		r.addListed(&Listed{Programs: thousands(f.Programs), Finding: &Finding{
			Signature: judge.Signature{Runner: line(f.JIT), Rule: line(f.Rule), Kind: judge.Kind(line(string(f.Kind)))},
			Want:      hexed(line(f.Want)), Got: hexed(line(f.Got)), insns: f.Instructions,
		}})
	}
	r.sources = append(r.sources, s)
	return nil
}
