package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/analysis"
)

type seccompDiffCmd struct {
	A     string `arg:"" help:"A program file in any form, -, corpus:NAME, a profile, docker-default, or pid:N, whose filters are taken together."`
	B     string `arg:"" help:"Another."`
	Limit int    `default:"100" placeholder:"N" help:"Print at most so many differences, 0 for all (${default})."`

	profileFlags
}

// Help is the long help text.
func (c *seccompDiffCmd) Help() string {
	return "Finds the system calls that two filters treat differently, by executing both for all inputs at once. That there is no difference is proved, not tried; where a filter compares other things than words with constants, what could not be proved is said. Inputs that no kernel makes, such as arguments of more than 32 bits from i386, do not count. Exits with 0 if the filters are equal, 1 if they are not."
}

func (c *seccompDiffCmd) Run(ctx context.Context, std streams, global *cli) error {
	var chains [2][]*seccompdata.Filter
	for i, arg := range []string{c.A, c.B} {
		loaded, err := loadChain(ctx, []string{arg}, &c.profileFlags, std)
		if err != nil {
			return err
		}
		chains[i] = plainFilters(loaded)
	}
	d, err := analysis.Diff(chains[0], chains[1])
	if err != nil {
		return analysisError(err)
	}
	w := bufio.NewWriter(std.out)
	if global.JSON {
		err = c.printJSON(w, d)
	} else {
		c.print(w, d)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil && !d.Equal {
		err = errDiverged
	}
	return err
}

func (c *seccompDiffCmd) print(w io.Writer, d *analysis.Difference) {
	if d.Equal {
		fmt.Fprintln(w, "equal: the same verdict for every input that a kernel can make")
		return
	}
	undecided := 0
	for i, g := range d.Groups {
		if g.Undecided {
			undecided++
		}
		if c.Limit > 0 && i >= c.Limit {
			continue
		}
		fmt.Fprintf(w, "%s\n  %s -> %s", g.Where(), g.A, g.B)
		switch ret := seccompdata.FormatRet; {
		case g.Undecided:
			fmt.Fprint(w, "; no input was found that shows it, and no proof that there is none")
		case ret(g.RetA) == g.A && ret(g.RetB) == g.B:
			fmt.Fprintf(w, ", as for %s", analysis.CallText(&g.Witness))
		default:
			fmt.Fprintf(w, ", as for %s: %s -> %s", analysis.CallText(&g.Witness), ret(g.RetA), ret(g.RetB))
		}
		fmt.Fprintln(w)
	}
	if c.Limit > 0 && len(d.Groups) > c.Limit {
		fmt.Fprintf(w, "... and %d more (--limit 0 prints all)\n", len(d.Groups)-c.Limit)
	}
	if undecided == len(d.Groups) {
		fmt.Fprintf(w, "no difference found, but equality is not proved\n")
	} else {
		fmt.Fprintln(w, plural(len(d.Groups)-undecided, "difference"))
	}
	for _, why := range d.Why {
		fmt.Fprintf(w, "not exact because of the comparison %s\n", why)
	}
}

// diffJSON is a group of calls for programs; the last line is a summary.
type diffJSON struct {
	Type      string            `json:"type"` // "difference"
	ABIs      []string          `json:"abis"`
	Numbers   [][2]uint32       `json:"numbers"` // first and last of each range, without the x32 bit
	Calls     []string          `json:"calls,omitempty"`
	When      []string          `json:"when,omitempty"`
	A         string            `json:"a"`
	B         string            `json:"b"`
	Undecided bool              `json:"undecided,omitempty"`
	Witness   *seccompdata.Data `json:"witness,omitempty"`
	RetA      *uint32           `json:"ret_a,omitempty"`
	RetB      *uint32           `json:"ret_b,omitempty"`
}

type diffSummary struct {
	Type   string   `json:"type"` // "summary"
	Equal  bool     `json:"equal"`
	Exact  bool     `json:"exact"`
	Why    []string `json:"why,omitempty"`
	Groups int      `json:"groups"`
}

func (c *seccompDiffCmd) printJSON(w io.Writer, d *analysis.Difference) error {
	enc := json.NewEncoder(w)
	for _, g := range d.Groups {
		row := diffJSON{Type: "difference", ABIs: g.ABIs, Calls: g.Calls, When: g.When, A: g.A, B: g.B, Undecided: g.Undecided}
		row.Numbers = pairs(g.Numbers)
		if !g.Undecided {
			row.Witness, row.RetA, row.RetB = &g.Witness, &g.RetA, &g.RetB
		}
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return enc.Encode(diffSummary{"summary", d.Equal, d.Exact, d.Why, len(d.Groups)})
}

func pairs(runs []paths.Run) [][2]uint32 {
	var out [][2]uint32
	for _, r := range runs {
		out = append(out, [2]uint32{r.Lo, r.Hi})
	}
	return out
}
