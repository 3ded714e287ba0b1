package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/analysis"
)

type seccompVerdictsCmd struct {
	taskFlags
	callFlags
	Action []string `placeholder:"NAME" help:"Only verdicts with these actions, such as ERRNO or UNKNOWN."`
	Args   []string `sep:"none" placeholder:"A,B,..." help:"Up to six arguments to try with every call, in place of those that the filters' comparisons suggest (repeatable)."`
	Rows   string   `enum:"all,different,zero" default:"different" help:"Of the arguments that are tried with a call: all; different, one for each verdict and place of decision; or zero, only 0 (${default})."`

	profileFlags
}

// Help is the long help text.
func (c *seccompVerdictsCmd) Help() string {
	return "Lists what filters say to every system call that has a name, of every ABI of the machine: the action, where it was decided, and how many instructions were executed. Each call is tried with all arguments 0 and with arguments on both sides of every comparison that the filters make; numbers without a name that filters compare with are tried, too. Where there are several filters, the place of the decision is FILTER:INSTRUCTION, the oldest filter being 0."
}

func (c *seccompVerdictsCmd) Run(ctx context.Context, std streams, global *cli) error {
	k, err := c.kernel(seccompdata.CurrentKernel)
	if err != nil {
		return err
	}
	report := verdictReport{cmd: c, kernel: k, reportWriter: newReportWriter(std.out, global.JSON), counts: map[seccompdata.Action]int{}}
	if report.callSelection, err = c.selection(); err != nil {
		return err
	}
	if report.actions, err = parseActions(c.Action); err != nil {
		return err
	}
	tried, err := parseArgs(c.Args)
	if err != nil {
		return err
	}
	if report.chain, err = c.load(ctx, &c.profileFlags, std); err != nil {
		return err
	}
	report.on(machineOf(report.chain))
	inputs, err := c.inputs(report.chain, report.abis, k, report.numbers(), tried)
	if err != nil {
		return err
	}
	for i := range inputs {
		if ctx.Err() != nil {
			break
		}
		report.call(&inputs[i])
	}
	if report.inputs == 0 && len(report.filters) > 0 && ctx.Err() == nil {
		return report.nothing(k)
	}
	report.summary()
	return cmp.Or(report.w.Flush(), ctx.Err())
}

// inputs are the system calls to try, those with the numbers in also among them:
// for each ABI by number, and for each number all arguments 0 first.
func (c *seccompVerdictsCmd) inputs(chain seccompdata.Chain, abis []*seccompdata.ABI, k seccompdata.Kernel, also map[*seccompdata.ABI][]uint32, tried [][6]uint64) ([]seccompdata.Data, error) {
	var all []seccompdata.Data
	for _, abi := range abis {
		for _, nr := range append(abi.Calls(k), also[abi]...) {
			all = append(all, seccompdata.Data{Nr: nr, Arch: abi.Arch})
			for _, args := range tried {
				all = append(all, seccompdata.Data{Nr: nr, Arch: abi.Arch, Args: args})
			}
		}
	}
	if len(tried) == 0 && c.Rows != "zero" {
		var filters []*seccompdata.Filter
		for _, f := range chain.Filters() {
			filters = append(filters, f.Filter)
		}
		boundaries, err := analysis.Inputs(filters, analysis.InputOptions{Calls: abis})
		if err != nil {
			return nil, badInput(fmt.Errorf("%w: --args tries arguments of your own", err))
		}
		for _, d := range boundaries {
			if abi := seccompdata.ABIOf(d.Arch, d.Nr); slices.Contains(abis, abi) {
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b seccompdata.Data) int {
		return cmp.Or(
			cmp.Compare(abiOrder(abis, a), abiOrder(abis, b)),
			cmp.Compare(a.Nr, b.Nr),
			slices.Compare(a.Args[:], b.Args[:]),
			cmp.Compare(a.IP, b.IP),
		)
	})
	return slices.Compact(all), nil
}

func abiOrder(abis []*seccompdata.ABI, d seccompdata.Data) int {
	return slices.Index(abis, seccompdata.ABIOf(d.Arch, d.Nr))
}

// actionFilter is what --action asks for.
type actionFilter struct {
	known   []seccompdata.Action
	unknown bool
}

func parseActions(names []string) (f actionFilter, err error) {
	for _, name := range names {
		if strings.EqualFold(name, "unknown") {
			f.unknown = true
			continue
		}
		a, err := seccompdata.ParseAction(name)
		if err != nil {
			return f, badInput(fmt.Errorf("--action: %w, UNKNOWN", err))
		}
		f.known = append(f.known, a)
	}
	return f, nil
}

func (f actionFilter) matches(a seccompdata.Action) bool {
	return len(f.known) == 0 && !f.unknown || slices.Contains(f.known, a) || f.unknown && !a.Known()
}

// verdictReport prints the table.
type verdictReport struct {
	cmd    *seccompVerdictsCmd
	chain  seccompdata.Chain
	kernel seccompdata.Kernel
	callSelection
	actions actionFilter
	reportWriter
	header bool

	last seccompdata.Data
	seen map[verdictKey]bool // verdicts of the present call

	inputs, rows int
	counts       map[seccompdata.Action]int
}

// verdictKey is what makes verdicts of a call different.
type verdictKey struct {
	ret        uint32
	filter, pc int
}

// verdictRow is one input.
type verdictRow struct {
	Type     string             `json:"type"` // "verdict"
	ABI      string             `json:"abi"`
	Call     string             `json:"call,omitempty"` // "" for a number without a name
	Input    seccompdata.Data   `json:"input"`
	Ret      uint32             `json:"ret"`
	Action   string             `json:"action"`
	Data     uint32             `json:"data"`
	Effect   seccompdata.Effect `json:"effect"`
	Exempt   bool               `json:"exempt,omitempty"`
	Filter   int                `json:"filter"` // where it was decided, 0 is the oldest filter; -1: nobody was asked
	PC       int                `json:"pc"`
	Executed int                `json:"executed"` // by all filters
}

// call tries one input.
func (r *verdictReport) call(d *seccompdata.Data) {
	abi := seccompdata.ABIOf(d.Arch, d.Nr)
	if !r.has(abi, d.Nr) {
		return
	}
	r.inputs++
	decision := r.chain.Run(d, r.kernel)
	action := seccompdata.ActionOf(decision.Ret)
	row := verdictRow{
		Type: "verdict", ABI: abi.Name, Input: *d, Ret: decision.Ret,
		Action: action.String(), Data: decision.Ret & seccompdata.DataMask, Effect: seccompdata.EffectOf(decision.Ret, r.kernel),
		Exempt: decision.Exempt, Executed: decision.Executed,
	}
	row.Call, _ = abi.Call(d.Nr)
	row.Filter, row.PC = decidedAt(decision)
	if r.seen == nil || d.Nr != r.last.Nr || d.Arch != r.last.Arch {
		r.seen = map[verdictKey]bool{}
	}
	verdict := verdictKey{row.Ret, row.Filter, row.PC}
	repeated := r.seen[verdict]
	r.seen[verdict], r.last = true, *d
	if !r.actions.matches(action) || r.cmd.Rows == "different" && len(r.cmd.Args) == 0 && repeated {
		return
	}
	r.counts[action]++
	r.rows++
	r.print(abi, row)
}

// decidedAt is where a decision was made: that all filters allow a call, the
// newest says first.
func decidedAt(d seccompdata.Decision) (filter, pc int) {
	if d.Filter < 0 && len(d.Verdicts) > 0 {
		newest := len(d.Verdicts) - 1
		return newest, d.Verdicts[newest].PC
	}
	return d.Filter, d.PC
}

func (r *verdictReport) print(abi *seccompdata.ABI, row verdictRow) {
	if r.enc != nil {
		r.enc.Encode(row)
		return
	}
	if !r.header {
		r.header = true
		fmt.Fprintf(r.w, "%-7s  %11s  %-24s  %-18s  %7s  %8s  %s\n", "abi", "nr", "call", "verdict", "pc", "executed", "arguments")
	}
	where := placeIn(r.chain, row.Filter, row.PC)
	if row.Exempt {
		where = "exempt"
	}
	line := fmt.Sprintf("%-7s  %11d  %-24s  %-18s  %7s  %8d  %s", row.ABI, int32(row.Input.Nr&^abi.Bit), row.Call,
		seccompdata.FormatRet(row.Ret), where, row.Executed, argumentsText(&row.Input))
	fmt.Fprintln(r.w, strings.TrimRight(line, " "))
}

// verdictSummary ends the table.
type verdictSummary struct {
	Type   string         `json:"type"` // "summary"
	Inputs int            `json:"inputs"`
	Rows   int            `json:"rows"`
	Counts map[string]int `json:"actions"` // of the rows
}

func (r *verdictReport) summary() {
	sum := verdictSummary{"summary", r.inputs, r.rows, map[string]int{}}
	var parts []string
	for a, n := range r.counts {
		sum.Counts[a.String()] += n
	}
	for _, name := range slices.Sorted(maps.Keys(sum.Counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", sum.Counts[name], name))
	}
	if r.enc != nil {
		r.enc.Encode(sum)
		return
	}
	fmt.Fprintf(r.w, "%s tried, %s: %s\n", plural(r.inputs, "input"), plural(r.rows, "row"), cmp.Or(strings.Join(parts, ", "), "none"))
}
