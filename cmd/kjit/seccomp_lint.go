package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/analysis"
)

type seccompLintCmd struct {
	Filters []string `arg:"" optional:"" help:"The filters of a task, in the order in which it installs them: program files in any form, -, corpus:NAME, profiles, docker-default, or pid:N."`
	Level   string   `enum:"note,warning,error" default:"note" help:"Print findings from this severity on: note, warning, error (${default})."`
	List    bool     `help:"List what is looked for."`

	profileFlags
}

// Help is the long help text.
func (c *seccompLintCmd) Help() string {
	return "Looks for what the author of a filter most probably did not want: ways around it, arguments compared wrongly, calls that fail so that libraries cannot cope, rules without effect. Each finding names the instruction or the rule, and shows inputs that prove it. Exits with 1 if there is a warning or an error."
}

func (c *seccompLintCmd) Run(ctx context.Context, std streams, global *cli) error {
	w := bufio.NewWriter(std.out)
	if c.List {
		if err := listChecks(w, global.JSON); err != nil {
			return err
		}
		return w.Flush()
	}
	loaded, err := loadChain(ctx, c.Filters, &c.profileFlags, std)
	if err != nil {
		return err
	}
	if _, err := newChain(loaded); err != nil {
		return err
	}
	var origins []*analysis.Origin
	for _, f := range loaded {
		origins = append(origins, f.origin())
	}
	found, err := analysis.Lint(plainFilters(loaded), origins)
	if err != nil {
		return analysisError(err)
	}
	var level analysis.Severity
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return badInput(err)
	}
	bad, shown := false, 0
	for _, f := range found {
		bad = bad || f.Severity >= analysis.Warning
		if f.Severity < level {
			continue
		}
		shown++
		if global.JSON {
			err = json.NewEncoder(w).Encode(newFindingJSON(loaded, f))
		} else {
			printFinding(w, loaded, f)
		}
		if err != nil {
			return err
		}
	}
	if !global.JSON && len(found) == 0 {
		fmt.Fprintln(w, "nothing found")
	} else if !global.JSON && shown < len(found) {
		fmt.Fprintf(w, "%s below --level %s not shown\n", plural(len(found)-shown, "finding"), c.Level)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad {
		return errDiverged
	}
	return nil
}

func listChecks(w io.Writer, asJSON bool) error {
	for _, check := range analysis.Checks() {
		if !asJSON {
			fmt.Fprintf(w, "%-20s %s\n", check.ID, check.About)
			continue
		}
		if err := json.NewEncoder(w).Encode(struct {
			Type  string `json:"type"` // "check"
			ID    string `json:"id"`
			About string `json:"about"`
		}{"check", check.ID, check.About}); err != nil {
			return err
		}
	}
	return nil
}

func printFinding(w io.Writer, loaded []*seccompFilter, f analysis.Finding) {
	fmt.Fprintf(w, "%s: %s", f.Severity, f.ID)
	if len(loaded) > 1 {
		fmt.Fprintf(w, ": filter %d (%s)", f.Filter, loaded[f.Filter].Source)
	}
	if f.PC >= 0 {
		fmt.Fprintf(w, ": instruction %d", f.PC)
	}
	fmt.Fprintf(w, ": %s\n", f.Sentence)
	if f.Rule != "" {
		fmt.Fprintf(w, "  rule %s\n", f.Rule)
	}
	for _, c := range f.Cases {
		fmt.Fprintf(w, "  %s\n", c)
	}
}

// findingJSON is a finding for programs.
type findingJSON struct {
	Type     string            `json:"type"` // "finding"
	ID       string            `json:"id"`
	Severity analysis.Severity `json:"severity"`
	Filter   int               `json:"filter"`
	Source   string            `json:"source"`
	PC       *int              `json:"pc,omitempty"`
	Rule     string            `json:"rule,omitempty"`
	Sentence string            `json:"sentence"`
	Cases    []caseJSON        `json:"cases,omitempty"`
}

type caseJSON struct {
	Call   seccompdata.Data `json:"call"`
	Ret    uint32           `json:"ret"`
	Action string           `json:"action"`
}

func newFindingJSON(loaded []*seccompFilter, f analysis.Finding) findingJSON {
	out := findingJSON{
		Type: "finding", ID: f.ID, Severity: f.Severity, Filter: f.Filter, Source: loaded[f.Filter].Source,
		Rule: f.Rule, Sentence: f.Sentence,
	}
	if f.PC >= 0 {
		out.PC = &f.PC
	}
	for _, c := range f.Cases {
		out.Cases = append(out.Cases, caseJSON{c.Call, c.Ret, seccompdata.ActionOf(c.Ret).String()})
	}
	return out
}

// analysisError makes the limits of the analysis the input's fault.
func analysisError(err error) error {
	var limit *paths.LimitError
	if errors.As(err, &limit) {
		return badInput(err)
	}
	return err
}
