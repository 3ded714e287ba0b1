package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/mutants"
	"github.com/kjit-project/kjit/kernelabi"
)

type mutantsCmd struct {
	Only     []string      `placeholder:"NAME" help:"Hunt only these mutants, which --list lists (default: all)."`
	Jobs     int           `default:"0" help:"Hunts at a time (default: one a processor)."`
	Seed     uint64        `default:"1" help:"Seed of the generator. The same seed finds the same."`
	Programs int           `default:"1000000" help:"Give a mutant up after so many programs."`
	Time     time.Duration `default:"60s" help:"Give a mutant up after this time."`
	Show     bool          `help:"Print the smallest program that shows each mutant, too."`
	List     bool          `help:"List the mutants and hunt none."`
	Clean    int           `placeholder:"PAIRS" help:"Hunt none: compare the JITs without a fault with the interpreter on so many pairs of program and input."`

	ciFlags
}

// Help explains the command's table.
func (mutantsCmd) Help() string {
	return "A mutant is a JIT with one fault that kernels shipped, or that people who write JITs easily make. " +
		"Each is hunted with the default campaign, which does not know what it hunts; exit code 1 means that one was not found. " +
		"In the table, \"check\" is what caught it, \"rule\" what was put the blame on and \"right\" whether that is what is faulty; " +
		"\"directed\" says whether directed tests, one for each instruction and boundary, find it as well."
}

func (c *mutantsCmd) Run(ctx context.Context, std streams, global *cli) error {
	for i, name := range c.Only {
		c.Only[i] = strings.TrimPrefix(name, harness.MutantPrefix) // as --jit has it
	}
	all, err := mutants.Select(c.Only...)
	switch {
	case err != nil:
		return badInput(fmt.Errorf("--only: %w", err))
	case c.Jobs < 0 || c.Programs < 1 || c.Time <= 0:
		return badInput(errors.New("--jobs, --programs and --time must be positive"))
	case c.ciFlags.wanted() && (c.List || c.Clean > 0):
		return badInput(errors.New("--junit and --sarif have what a hunt found: --list and --clean hunt none"))
	case c.List:
		return listMutants(std, global, all)
	case c.Clean < 0:
		return badInput(errors.New("--clean must be positive"))
	case c.Clean > 0:
		return c.clean(ctx, std, global)
	}
	if c.Jobs == 0 {
		c.Jobs = processors
	}
	spareThreads()
	if err := c.ciFlags.check(); err != nil {
		return err
	}
	report := mutantsReport{w: std.out, jsonLines: global.JSON, seed: c.Seed, show: c.Show, whole: len(c.Only) == 0}
	if err := report.begin(all); err != nil {
		return err
	}
	bar := newProgress(std.err, len(all), "mutants")
	began := time.Now()
	var writing error
	_, err = mutants.Run(ctx, mutants.Options{
		Only: c.Only, Seed: c.Seed, Programs: c.Programs, Time: c.Time, Jobs: c.Jobs,
		Each: func(r *mutants.Result) {
			bar.clear()
			writing = cmp.Or(writing, report.add(r))
			bar.addNow()
		},
	})
	bar.close()
	report.seconds = time.Since(began).Seconds()
	if err != nil && ctx.Err() == nil {
		return environment(err)
	}
	if err := cmp.Or(writing, report.end()); err != nil {
		return err
	}
	if err := c.ciFlags.write(report.ci()); err != nil {
		return err
	}
	switch {
	case err != nil:
		return err
	case report.missed() > 0:
		return errDiverged
	}
	return nil
}

// clean counts false alarms.
func (c *mutantsCmd) clean(ctx context.Context, std streams, global *cli) error {
	bar := newProgress(std.err, c.Clean, "pairs")
	began := time.Now()
	a, err := mutants.Clean(ctx, c.Seed, c.Clean, bar.add)
	bar.close()
	if err != nil && ctx.Err() == nil {
		return environment(err)
	}
	seconds := time.Since(began).Seconds()
	if global.JSON {
		err = cmp.Or(json.NewEncoder(std.out).Encode(struct {
			Type     string   `json:"type"`
			JITs     []string `json:"jits"`
			Programs int      `json:"programs"`
			Pairs    int      `json:"pairs"`
			Alarms   int      `json:"alarms"`
			Seed     uint64   `json:"seed"`
			Seconds  float64  `json:"seconds"`
		}{"clean", mutants.Correct, a.Programs, a.Pairs, len(a.Found), c.Seed, seconds}), err)
	} else {
		for i := range a.Found {
			fmt.Fprintln(std.out, &a.Found[i])
		}
		fmt.Fprintf(std.out, "%s, %s of %s: %s; seed %d, %.1f s\n", plural(a.Programs, "program"), plural(a.Pairs, "pair"),
			strings.Join(mutants.Correct, ", "), plural(len(a.Found), "false alarm"), c.Seed, seconds)
	}
	if err == nil && len(a.Found) > 0 {
		err = errDiverged
	}
	return err
}

func listMutants(std streams, global *cli, all []harness.Mutant) error {
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, m := range all {
		if global.JSON {
			if err := json.NewEncoder(std.out).Encode(newMutantJSON(&m)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.Name, shipped(&m), m.Summary)
	}
	return table.Flush()
}

// shipped is which kernels had a fault.
func shipped(m *harness.Mutant) string {
	if m.Fault.Trap() {
		return "trap"
	}
	return m.Fault.Versions
}

// mutantsReport prints the table, a row as soon as it is known.
type mutantsReport struct {
	w         io.Writer
	jsonLines bool
	width     int // of the names
	results   []mutants.Result
	seconds   float64
	seed      uint64
	show      bool
	whole     bool // all mutants were hunted
}

func (r *mutantsReport) missed() (n int) {
	for i := range r.results {
		if !r.results[i].Found {
			n++
		}
	}
	return n
}

func (r *mutantsReport) directed() (n int) {
	for i := range r.results {
		if r.results[i].Directed != "" {
			n++
		}
	}
	return n
}

const mutantsRow = "%-*s  %-9s  %8v  %9v  %7v  %5v  %5v  %-9s  %-15s  %-5s  %s\n"

func (r *mutantsReport) begin(all []harness.Mutant) error {
	if r.jsonLines {
		return nil
	}
	for _, m := range all {
		r.width = max(r.width, len(m.Name))
	}
	_, err := fmt.Fprintf(r.w, mutantsRow, r.width, "mutant", "found", "programs", "pairs", "seconds", "insns", "bytes", "check", "rule", "right", "directed")
	return err
}

func (r *mutantsReport) add(m *mutants.Result) error {
	r.results = append(r.results, *m)
	if r.jsonLines {
		return r.addJSON(m)
	}
	found, directed := "found", "missed"
	insns, size := fmt.Sprint(len(m.Program)), fmt.Sprint(m.InputBytes())
	if !m.Found {
		found, insns, size = "NOT FOUND", "", ""
	}
	if m.Directed != "" {
		directed = "found"
	}
	_, err := fmt.Fprintf(r.w, mutantsRow, r.width, m.Mutant.Name, found, m.Programs, m.Pairs, fmt.Sprintf("%.2f", m.Time.Seconds()),
		insns, size, m.Kind, m.Rule, m.Located(), directed)
	return err
}

func (r *mutantsReport) end() error {
	if r.jsonLines {
		return r.endJSON()
	}
	w := r.w
	for i := range r.results {
		if m := &r.results[i]; r.show && m.Found {
			if err := r.showResult(w, m); err != nil {
				return err
			}
		}
	}
	if r.whole {
		fmt.Fprintln(w, "\nnot visible in what code does:")
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, i := range mutants.Invisibles() {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", i.Name, i.Versions, i.Why)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	n := len(r.results)
	_, err := fmt.Fprintf(w, "\n%d of %s found, directed tests find %d; seed %d, %.1f s\n", n-r.missed(), plural(n, "mutant"), r.directed(), r.seed, r.seconds)
	return err
}

// showResult prints what is left of a finding.
func (r *mutantsReport) showResult(w io.Writer, m *mutants.Result) error {
	fmt.Fprintf(w, "\n%s: %s\n  %s gives %s, the interpreter %s", m.Mutant.Name, m.Mutant.Summary, m.Runner, m.Got.Long(), m.Want.Long())
	if m.Directed != "" {
		fmt.Fprintf(w, "; directed test %q finds it too", m.Directed)
	}
	listing, err := bpftext.Format(bpftext.D, m.Program)
	if err != nil {
		return err
	}
	input, err := json.Marshal(m.Input)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n  on %s:\n    %s\n", input, strings.ReplaceAll(strings.TrimSpace(string(listing)), "\n", "\n    "))
	return err
}

// mutantJSON is a mutant for programs; the finding only if it was hunted.
type mutantJSON struct {
	Type     string   `json:"type"`
	Name     string   `json:"name"`
	Summary  string   `json:"summary"`
	Base     string   `json:"base"`
	Trap     bool     `json:"trap,omitempty"`
	Versions string   `json:"versions,omitempty"`
	Fixed    string   `json:"fixed,omitempty"`
	Rules    []string `json:"rules,omitempty"`

	*huntJSON
}

type huntJSON struct {
	Found    bool    `json:"found"`
	Programs int     `json:"programs"`
	Pairs    int     `json:"pairs"`
	Seconds  float64 `json:"seconds"`
	Directed string  `json:"directed,omitempty"` // the first test that finds it

	*foundJSON
}

type foundJSON struct {
	Case      uint64          `json:"case"`
	JIT       string          `json:"jit"`
	Check     string          `json:"check"`
	Rule      string          `json:"rule"`
	Right     string          `json:"right"` // "yes", "no", "-"
	Shrinking float64         `json:"shrinking_seconds"`
	Insns     int             `json:"insns"`
	Bytes     int             `json:"bytes"`
	Want      harness.Outcome `json:"want"`
	Got       harness.Outcome `json:"got"`
	Program   any             `json:"program"`
	Input     kernelabi.Input `json:"input"`
}

func newMutantJSON(m *harness.Mutant) mutantJSON {
	return mutantJSON{
		Type: "mutant", Name: m.Name, Summary: m.Summary, Base: m.Fault.Base, Trap: m.Fault.Trap(),
		Versions: m.Fault.Versions, Fixed: m.Fault.Fixed, Rules: m.Fault.Rules,
	}
}

func (r *mutantsReport) addJSON(m *mutants.Result) error {
	out := newMutantJSON(&m.Mutant)
	out.huntJSON = &huntJSON{Found: m.Found, Programs: m.Programs, Pairs: m.Pairs, Seconds: m.Time.Seconds(), Directed: m.Directed}
	if m.Found {
		out.foundJSON = &foundJSON{
			Case: m.Case, JIT: m.Runner, Check: string(m.Kind), Rule: m.Rule, Right: string(m.Located()), Shrinking: m.Shrinking.Seconds(),
			Insns: len(m.Program), Bytes: m.InputBytes(), Want: m.Want, Got: m.Got, Program: m.Program, Input: m.Input,
		}
	}
	return json.NewEncoder(r.w).Encode(out)
}

func (r *mutantsReport) endJSON() error {
	var invisible []mutants.Invisible
	if r.whole {
		invisible = mutants.Invisibles()
	}
	return json.NewEncoder(r.w).Encode(struct {
		Type      string              `json:"type"`
		Mutants   int                 `json:"mutants"`
		Found     int                 `json:"found"`
		Directed  int                 `json:"directed"`
		Seed      uint64              `json:"seed"`
		Seconds   float64             `json:"seconds"`
		Invisible []mutants.Invisible `json:"invisible,omitempty"`
	}{"summary", len(r.results), len(r.results) - r.missed(), r.directed(), r.seed, r.seconds, invisible})
}

// ci has a test for each mutant, which fails if it was not found.
func (r *mutantsReport) ci() *ciformat.Run {
	run := &ciformat.Run{Command: "mutants", Seconds: r.seconds, Properties: []ciformat.Property{{Name: "seed", Value: fmt.Sprint(r.seed)}}}
	for i := range r.results {
		m := &r.results[i]
		res := ciformat.Result{Name: m.Mutant.Name, Seconds: m.Time.Seconds()}
		if m.Found {
			res.Message = fmt.Sprintf("%s after %d programs", m.Signature, m.Programs)
		} else {
			res.Rule, res.Outcome, res.Kind = "mutant."+m.Mutant.Name, ciformat.Failed, "missed"
			res.Message = fmt.Sprintf("not found in %d programs: %s", m.Programs, m.Mutant.Summary)
			res.About = ciformat.About{
				Brief: "the campaign does not find the fault " + m.Mutant.Name,
				Full:  "A JIT with this fault passes for one without: " + m.Mutant.Summary + ".",
				Again: commandLine("mutants", "--only", m.Mutant.Name, "--seed", fmt.Sprint(r.seed)),
			}
		}
		run.Add(res)
	}
	return run
}
