package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/harness"
)

// textReport prints a table with a row per packet, then each divergence with
// its story, then a summary line per runner.
type textReport struct {
	w        *bufio.Writer
	cmd      *replayCmd
	inputs   *inputSet
	prog     *source
	runners  []harness.Runner
	rows     string // all, diverging or none
	widths   []int
	header   bool
	stories  []story
	diverged int
	locator  harness.Locator
}

// story is the text about a divergence. A runner that failed is told of once for
// each reason, not for every packet: what it fails on is the program.
type story struct {
	text   string
	failed string // the runner and why, if it failed
	again  int    // further packets with the same failure
}

func newTextReport(w io.Writer, cmd *replayCmd, prog *source, inputs *inputSet, runners []harness.Runner) *textReport {
	r := &textReport{w: bufio.NewWriter(w), cmd: cmd, inputs: inputs, prog: prog, runners: runners, rows: cmd.Rows}
	if r.rows == "auto" {
		r.rows = "diverging"
		if len(inputs.Inputs) <= autoRows {
			r.rows = "all"
		}
	}
	r.widths = []int{6, 6, 11}
	for _, runner := range runners {
		r.widths = append(r.widths, max(10, len(runner.Name())))
	}
	fmt.Fprintf(r.w, "%s: %s; %s\n", prog.Name, plural(len(prog.Program), "instruction"), inputs.describe())
	return r
}

// cells prints right-aligned columns.
func (r *textReport) cells(cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		if i > 0 {
			line.WriteString("  ")
		}
		fmt.Fprintf(&line, "%*s", r.widths[i], cell)
	}
	fmt.Fprintln(r.w, strings.TrimRight(line.String(), " "))
}

// marks make a verdict visible without colour.
var marks = map[harness.Verdict]string{harness.Diverge: " !", harness.Undefined: " ?"}

func (r *textReport) row(row *harness.Row) error {
	diverges := false
	for i, v := range row.Verdicts {
		if v != harness.Diverge {
			continue
		}
		diverges = true
		r.tell(row, i)
	}
	if r.rows == "none" || r.rows == "diverging" && !diverges {
		return nil
	}
	if !r.header {
		r.header = true
		head := []string{"input", "len", "interpreter"}
		if r.inputs.noun() == "packet" {
			head[0] = "packet"
		}
		for _, runner := range r.runners {
			head = append(head, runner.Name())
		}
		r.cells(head)
	}
	cells := []string{strconv.Itoa(row.Index + 1), strconv.Itoa(int(inputLen(row.Input))), r.reference(row)}
	for i, got := range row.Got {
		mark := marks[row.Verdicts[i]]
		if row.Verdicts[i] == harness.Undefined && r.cmd.Undefined == "skip" {
			mark = ""
		}
		cells = append(cells, got.Short()+mark)
	}
	r.cells(cells)
	return nil
}

// tell keeps the story of a divergence, up to the limit.
func (r *textReport) tell(row *harness.Row, i int) {
	failed := ""
	if row.Got[i].Kind == harness.Failed {
		failed = row.Runners[i] + ": " + row.Got[i].Why
		for n := range r.stories {
			if s := &r.stories[n]; s.failed == failed {
				s.again++
				return
			}
		}
	}
	r.diverged++
	if len(r.stories) < r.cmd.Limit {
		r.stories = append(r.stories, story{r.story(row, i), failed, 0})
	}
}

// reference is what the interpreter gave. Kernels between which Linux changed
// the meaning have different right answers: then all are shown.
func (r *textReport) reference(row *harness.Row) string {
	var texts []string
	for _, want := range row.Want {
		if want.Kind == harness.Rejected {
			continue
		}
		if s := want.String(); !slices.Contains(texts, s) {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, " or ")
}

// story tells one divergence: what, on which packet, and where.
func (r *textReport) story(row *harness.Row, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "packet %d (%s): %s gives %s, the interpreter %s\n",
		row.Index+1, r.inputs.Files[row.Index], row.Runners[i], row.Got[i].Long(), row.Want[i].Long())
	if row.Got[i].Kind == harness.Failed {
		return b.String() // there is no code
	}
	place, err := r.locator.Locate(r.runners[i], r.prog.Program, row.Input)
	if err != nil {
		fmt.Fprintf(&b, "  (no listing: %v)\n", err)
		return b.String()
	}
	place.Print(&b)
	return b.String()
}

func (r *textReport) summary(tallies []harness.Tally, done int) error {
	r.locator.Close()
	for _, s := range r.stories {
		fmt.Fprintf(r.w, "\n%s", s.text)
		if s.again > 0 {
			fmt.Fprintf(r.w, "  (the same on %s more)\n", plural(s.again, r.inputs.noun()))
		}
	}
	if more := r.diverged - len(r.stories); more > 0 && r.cmd.Limit > 0 {
		fmt.Fprintf(r.w, "\n(and %s more: --limit N shows more of them)\n", plural(more, "divergence"))
	}
	fmt.Fprintln(r.w)
	if total := len(r.inputs.Inputs); done < total {
		fmt.Fprintf(r.w, "interrupted after %d of %s\n", done, plural(total, r.inputs.noun()))
	}
	width := 0
	for _, t := range tallies {
		width = max(width, len(t.Runner))
	}
	for _, t := range tallies {
		fmt.Fprintf(r.w, "%-*s  %s\n", width, t.Runner, r.tally(t))
	}
	return r.w.Flush()
}

// tally is one runner's summary in words.
func (r *textReport) tally(t harness.Tally) string {
	parts := []string{fmt.Sprintf("%d agree", t.Agree)}
	if t.Diverge > 0 {
		parts = append(parts, fmt.Sprintf("%d DIVERGE", t.Diverge))
	}
	if t.Undefined > 0 {
		parts = append(parts, fmt.Sprintf("%d undefined (shift by X >= 32)", t.Undefined))
	}
	if t.NotRun > 0 {
		parts = append(parts, fmt.Sprintf("%d not run: %s", t.NotRun, t.Why))
	}
	if ran := t.Agree + t.Diverge + t.Undefined; ran > 0 && t.Executed > 0 { // a live kernel counts none
		about := ""
		if t.Inexact {
			about = "about "
		}
		parts = append(parts, fmt.Sprintf("%s%.1f instructions a %s", about, float64(t.Executed)/float64(ran), r.inputs.noun()))
	}
	if t.StackUnaligned > 0 {
		parts = append(parts, fmt.Sprintf("%d with helpers called on a stack not aligned to 8", t.StackUnaligned))
	}
	return strings.Join(parts, ", ")
}
