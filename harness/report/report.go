// Package report makes one HTML file of what kjit found: campaigns, replays,
// checks of records, mutants, published tables and recorded divergences. The
// file needs no network and no script, and is the same for the same input.
//
// What is shown was read from files, which may come from anywhere: all of it is
// text to the templates, and how much of it is shown is bounded.
package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/harness/paper"
)

// Options bound a report.
type Options struct {
	Title    string   // "" for a title of its own
	Versions []string // of what made it: "kjit v1.2.0", "Unicorn 2.1.4"
	Limit    int      // findings that are told in full; DefaultLimit if 0
}

// The bounds of what is shown; what is left out is counted.
const (
	DefaultLimit = 50
	maxFindings  = 1000 // in the list of all
	maxRows      = 200  // of packets, failed checks, mutants and other tables
	maxListing   = 400  // rows of a listing
	maxInput     = 2048 // bytes of a packet
	maxLine      = 1000 // bytes of a text that is a line
	maxBlock     = 16 << 10
)

// Report collects what goes into the file. The zero value is not ready: see New.
type Report struct {
	options   Options
	sources   []Source
	campaigns []*Campaign
	replays   []*Replay
	checks    []*Checks
	mutants   []*Mutants
	tables    []*paper.Table
	findings  []*Finding
	known     map[string]*Finding // by signature and program
	problems  []string            // errors that commands ended with
}

// New returns an empty report.
func New(o Options) *Report {
	o.Limit = cmp.Or(o.Limit, DefaultLimit)
	o.Title = cmp.Or(o.Title, "What kjit found")
	return &Report{options: o, known: map[string]*Finding{}}
}

// Source is one thing that ran, for the summary.
type Source struct {
	Name    string // of the file or folder
	What    string // "campaign", "replay"
	Counts  string // what it did, in numbers
	Verdict string // "agrees", "3 divergences"
	Bad     bool
	Version string // of the kjit that ran, if that is known
}

// AddTables adds published tables with kjit's counts.
func (r *Report) AddTables(name string, tables ...*paper.Table) {
	held, all := 0, 0
	for _, t := range tables {
		for _, c := range t.Checks {
			all++
			if c.OK {
				held++
			}
		}
	}
	r.tables = append(r.tables, tables...)
	// A check that does not hold has its reason beside it: it is no fault.
	s := Source{Name: name, What: "published tables", Counts: count(len(tables), "table"), Verdict: fmt.Sprintf("%d of %s hold", held, count(all, "check"))}
	r.sources = append(r.sources, s)
}

// addFinding adds a finding. One that the report has, of the same program and
// signature, is counted.
func (r *Report) addFinding(f *Finding) {
	if known := r.known[f.key]; known != nil {
		known.Again++
		return
	}
	r.known[f.key] = f
	f.ID = fmt.Sprintf("finding-%d", len(r.findings)+1)
	r.findings = append(r.findings, f)
}

// Findings is the number of different findings.
func (r *Report) Findings() int { return len(r.findings) }

// Bad reports whether something that was read is not as it should be.
func (r *Report) Bad() bool {
	return len(r.problems) > 0 || slices.ContainsFunc(r.sources, func(s Source) bool { return s.Bad })
}

// Empty reports whether there is nothing to report.
func (r *Report) Empty() bool { return len(r.sources)+len(r.problems) == 0 }

// Error is input that is nothing to report on.
type Error struct {
	File   string
	Line   int // from 1; 0 when no line is to blame
	Reason string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
	}
	return e.File + ": " + e.Reason
}
