package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/judge"
)

// fuzzReport is the summary of a campaign, for people and programs.
type fuzzReport struct {
	Type     string        `json:"type"` // "fuzz"
	State    string        `json:"state"`
	Seed     uint64        `json:"seed"`
	Ranges   uint64        `json:"ranges"`
	Programs uint64        `json:"programs"`
	Insns    uint64        `json:"instructions"` // of the programs
	Pairs    uint64        `json:"pairs"`
	Seconds  float64       `json:"seconds"` // of this run of kjit
	Rate     float64       `json:"programs_per_second"`
	Same     float64       `json:"same_value"` // part of the runs that ended with the commonest value
	Coverage fuzzCoverage  `json:"coverage"`
	Corpus   int           `json:"corpus"` // programs
	Targets  []fuzzTarget  `json:"targets"`
	Findings []fuzzFinding `json:"findings"`
	More     uint64        `json:"more_findings,omitempty"` // divergences of still other signatures
}

type fuzzCoverage struct {
	Opcodes    int    `json:"opcodes"` // and ancillary loads
	AllOpcodes int    `json:"all_opcodes"`
	Rules      uint64 `json:"rules"` // of all targets together
	Edges      uint64 `json:"edges"`
}

type fuzzTarget struct {
	JIT string `json:"jit"`
	campaign.Tally
	Rules int `json:"rules"`
	Edges int `json:"edges"`
}

type fuzzFinding struct {
	Signature string     `json:"signature"`
	JIT       string     `json:"jit"`
	Rule      string     `json:"rule"`
	Kind      judge.Kind `json:"kind"`
	Case      uint64     `json:"case"`     // the first
	Programs  uint64     `json:"programs"` // of those that were looked at closely
	File      string     `json:"file"`
	Insns     int        `json:"instructions"` // in the file
	Bytes     int        `json:"bytes"`        // of its packet
	Want      string     `json:"want"`
	Got       string     `json:"got"`
	Story     string     `json:"story,omitempty"`
	Shows     bool       `json:"reproduced"`
	Shrunk    bool       `json:"shrunk"`
}

func coverageOf(cfg *campaign.Config, s *campaign.State) (c fuzzCoverage) {
	c.Opcodes, c.AllOpcodes = cfg.Opcodes(&s.Totals)
	for i := range cfg.Targets {
		_, rules, edges := s.Coverage(i)
		c.Rules += uint64(rules)
		c.Edges += uint64(edges)
	}
	return c
}

func newFuzzReport(dir string, cfg *campaign.Config, s *campaign.Summary) *fuzzReport {
	r := &fuzzReport{
		Type: "fuzz", State: dir, Seed: cfg.Seed, Ranges: s.Ranges, Programs: s.Programs, Insns: s.Insns, Pairs: s.Pairs,
		Seconds: s.Took.Seconds(), Rate: float64(s.Programs-s.Before.Programs) / max(s.Took.Seconds(), 0.001), Same: s.Same(),
		Coverage: coverageOf(cfg, s.State), Corpus: len(s.Corpus()), More: s.More, Findings: []fuzzFinding{},
	}
	for i, t := range cfg.Targets {
		_, rules, edges := s.Coverage(i)
		r.Targets = append(r.Targets, fuzzTarget{t.Name, s.Targets[i], rules, edges})
	}
	for _, f := range s.Reports {
		r.Findings = append(r.Findings, fuzzFinding{
			f.Signature().String(), f.Target, f.Rule, f.How, f.Case, f.Count, f.File, f.Insns, f.Bytes, f.Want, f.Got, f.Story, f.Shows, f.Shrunk,
		})
	}
	return r
}

// write writes the summary in one way or the other.
func (r *fuzzReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return r.writeJSON(w)
	}
	return r.writeText(w)
}

func (r *fuzzReport) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func (r *fuzzReport) writeText(w io.Writer) error {
	var b bytes.Buffer
	mean := float64(r.Insns) / float64(max(r.Programs, 1))
	fmt.Fprintf(&b, "%s: seed %d, %s programs of %.1f instructions on average, %s pairs compared\n",
		r.State, r.Seed, thousands(r.Programs), mean, thousands(r.Pairs))
	fmt.Fprintf(&b, "this run: %s, %s programs a second\n", time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond), thousands(uint64(r.Rate)))
	fmt.Fprintf(&b, "coverage: %d of %d opcodes and ancillary loads, %s emission rules, %s native edges; corpus: %s\n",
		r.Coverage.Opcodes, r.Coverage.AllOpcodes, thousands(r.Coverage.Rules), thousands(r.Coverage.Edges), plural(r.Corpus, "program"))
	fmt.Fprintf(&b, "the commonest return value came from %.0f %% of the runs (much more than 30 would mean that programs end early)\n\n", 100*r.Same)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "agree\tDIVERGE\tundefined\tnot run\trules\tedges\t  JIT")
	for i := range r.Targets {
		t := &r.Targets[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t  %s", thousands(t.Agree), thousands(t.Diverge), thousands(t.Undefined), thousands(t.NotRun), t.Rules, t.Edges, t.JIT)
		if t.Why != "" {
			fmt.Fprintf(table, " (not run, for one: %s)", t.Why)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	switch {
	case len(r.Findings) == 0:
		fmt.Fprintln(&b, "\nnothing was found")
	default:
		fmt.Fprintf(&b, "\n%s:\n", plural(len(r.Findings), "finding"))
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintln(&b, f.Signature)
		if f.File != "" {
			fmt.Fprintf(&b, "    %s\n", f.File)
		}
		fmt.Fprintf(&b, "    %s\n", f.story())
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "and divergences of other signatures in %s programs\n", thousands(r.More))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// story says what happens in a line.
func (f *fuzzFinding) story() string {
	text := f.Story
	if text == "" {
		text = fmt.Sprintf("it gives %s, the interpreter %s", f.Got, f.Want)
	}
	size := plural(f.Insns, "instruction")
	if f.Bytes > 0 {
		size += ", " + plural(f.Bytes, "byte")
	}
	text += " (" + size
	switch {
	case !f.Shows:
		text += "; does not show when it is run alone"
	case !f.Shrunk:
		text += "; not as small as can be"
	}
	return text + ")"
}

// ci is the summary for continuous integration: a test that fails for each
// finding, and one for each JIT that has none. What was counted is in properties.
func (r *fuzzReport) ci() *ciformat.Run {
	run := &ciformat.Run{Command: "fuzz", Name: r.State, Seconds: r.Seconds}
	count := func(name string, value any) {
		run.Properties = append(run.Properties, ciformat.Property{Name: name, Value: fmt.Sprint(value)})
	}
	count("seed", r.Seed)
	count("programs", r.Programs)
	count("pairs", r.Pairs)
	if r.More > 0 {
		count("programs that diverge with other signatures", r.More)
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		counts := fmt.Sprintf("%d agree, %d diverge, %d undefined, %d not run", t.Agree, t.Diverge, t.Undefined, t.NotRun)
		count(t.JIT, counts)
		if slices.ContainsFunc(r.Findings, func(f fuzzFinding) bool { return f.JIT == t.JIT }) {
			continue // its findings are there
		}
		res := ciformat.Result{Name: t.JIT, Message: strings.TrimSpace(counts + " " + t.Why)}
		switch {
		case t.Diverge > 0: // all of them of signatures beyond those that get findings
			res.Outcome, res.Rule, res.Kind = ciformat.Failed, "fuzz.no-finding", "no-finding"
			res.About = ciformat.About{
				Brief: "a JIT diverges, and none of its divergences is among the findings",
				Full:  "A campaign keeps so many findings and no more; those of other JITs came first.",
				Again: "Hunt in this JIT alone, with an empty folder: " + commandLine("fuzz", "--jit", t.JIT, "--state", "FOLDER"),
			}
		case t.Agree+t.Undefined == 0:
			res.Outcome, res.Message = ciformat.Skipped, "it ran nothing: "+t.Why
		}
		run.Add(res)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		again := replayAgain(f.JIT, f.File)
		res := ciformat.Result{
			Rule: f.Signature, Name: f.Signature, Class: f.JIT, Outcome: ciformat.Failed, Kind: string(f.Kind),
			About:   aboutDivergence(judge.Signature{Runner: f.JIT, Rule: f.Rule, Kind: f.Kind}, again),
			Message: f.JIT + ": " + f.story(), File: realFile(f.File),
		}
		if detail, err := os.ReadFile(f.File); err == nil {
			res.Detail = string(detail)
		}
		run.Add(res)
	}
	return run
}

// writeJUnit writes the summary as JUnit XML.
func (r *fuzzReport) writeJUnit(file string) error { return (&ciFlags{JUnit: file}).write(r.ci()) }
