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
	"strings"

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
	listed    []*Listed           // findings of which no program is known
	wrong     Wrong               // but for divergences and errors
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

// Wrong counts what is not as it should be.
type Wrong struct {
	Divergences int // different findings
	Facts       int // that do not hold
	Mutants     int // that were hunted and not found
	Errors      int // that commands ended with

	replays, checks int // that diverge, and nothing says where; that did not end
}

// Wrong counts what the page shows that is not as it should be.
func (r *Report) Wrong() Wrong {
	w := r.wrong
	w.Divergences, w.Errors = len(r.findings)+len(r.untold()), len(r.problems)
	return w
}

// String is what is wrong in words: "2 divergences, 1 wrong fact".
func (w Wrong) String() string {
	words := w.others()
	if w.Divergences > 0 || len(words) == 0 {
		words = slices.Insert(words, 0, count(w.Divergences, "divergence"))
	}
	return strings.Join(words, ", ")
}

// others are the counts but that of divergences.
func (w Wrong) others() (words []string) {
	for _, c := range []struct {
		n    int
		noun string // of one
		more string // of several, "" for the noun with an s
	}{
		{w.replays, "replay that diverges", "replays that diverge"},
		{w.Facts, "wrong fact", ""},
		{w.checks, "check of facts that did not end", "checks of facts that did not end"},
		{w.Mutants, "mutant not found", "mutants not found"},
		{w.Errors, "error", ""},
	} {
		switch {
		case c.n > 1 && c.more != "":
			words = append(words, thousands(c.n)+" "+c.more)
		case c.n == 1:
			words = append(words, "1 "+c.noun)
		case c.n > 1:
			words = append(words, count(c.n, c.noun))
		}
	}
	return words
}

// addListed adds a finding of which no program is known, once.
func (r *Report) addListed(l *Listed) {
	if len(r.listed) < maxFindings && !slices.ContainsFunc(r.listed, func(o *Listed) bool { return o.Signature == l.Signature }) {
		r.listed = append(r.listed, l)
	}
}

// untold are the findings of which nothing but the signature is known.
func (r *Report) untold() []*Listed {
	return slices.DeleteFunc(slices.Clone(r.listed), func(l *Listed) bool {
		return slices.ContainsFunc(r.findings, func(f *Finding) bool { return f.Signature == l.Signature })
	})
}

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
