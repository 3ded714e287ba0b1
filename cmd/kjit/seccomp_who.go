package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/analysis"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

type seccompWhoCmd struct {
	Filter string   `arg:"" help:"A program file in any form, -, corpus:NAME, a profile, docker-default, or pid:N, whose filters are all asked."`
	Call   string   `arg:"" help:"The system call: its name, or its number."`
	Args   []string `arg:"" optional:"" help:"Up to six arguments, 0 where they are not given. Negative ones are written after --."`
	ABI    string   `name:"abi" placeholder:"NAME" help:"ABI that the call is made with (default: the one that the filter is for)."`
	IP     string   `name:"ip" default:"0" placeholder:"ADDRESS" help:"Address that the call is made from (${default})."`
	Over   []string `placeholder:"FILTER" help:"Filters that were installed before (repeatable, oldest first)."`
	Full   bool     `help:"Print every executed instruction, also long runs of comparisons that do not hold."`

	profileFlags
}

// Help is the long help text.
func (c *seccompWhoCmd) Help() string {
	return "Tells what becomes of one system call, which instruction of the filter decides that, or which rule of the profile, and prints the instructions that are executed with the value of A before each."
}

func (c *seccompWhoCmd) Run(ctx context.Context, std streams, global *cli) error {
	loaded, err := loadChain(ctx, append(c.Over, c.Filter), &c.profileFlags, std)
	if err != nil {
		return err
	}
	d, err := c.data(loaded)
	if err != nil {
		return err
	}
	decision, err := analysis.Who(plainFilters(loaded), d)
	if err != nil {
		return err
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(newWhoJSON(loaded, decision))
	}
	w := bufio.NewWriter(std.out)
	c.print(w, loaded, decision)
	return w.Flush()
}

// data is the system call that the flags describe.
func (c *seccompWhoCmd) data(loaded []*seccompFilter) (d seccompdata.Data, err error) {
	var abi *seccompdata.ABI
	if c.ABI != "" {
		if abi, err = parseABI("--abi", c.ABI); err != nil {
			return d, err
		}
	} else {
		chain, err := newChain(loaded)
		if err != nil {
			return d, err
		}
		abi = machineOf(chain)
	}
	d.Arch = abi.Arch
	if d.Nr, err = parseCall(abi, c.Call); err != nil {
		return d, err
	}
	if len(c.Args) > len(d.Args) {
		return d, badInput(fmt.Errorf("%s, a system call has at most %d", plural(len(c.Args), "argument"), len(d.Args)))
	}
	for n, text := range append(c.Args, c.IP) {
		value, err := parseArgument(text)
		if err != nil {
			return d, badInput(err)
		}
		if abi.Bits == 32 {
			if value>>32 != 0 && int64(value) != int64(int32(value)) {
				return d, badInput(fmt.Errorf("%s does not fit in the 32 bits that %s has", text, abi))
			}
			value = uint64(uint32(value))
		}
		if n == len(c.Args) {
			d.IP = value
		} else {
			d.Args[n] = value
		}
	}
	return d, nil
}

// parseCall reads the name or the number of a system call. Numbers get the bit
// of the ABI, but for -1.
func parseCall(abi *seccompdata.ABI, text string) (uint32, error) {
	if nr, ok := abi.Number(text); ok {
		return nr, nil
	}
	nr, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return 0, badInput(fmt.Errorf("%s has no system call %q", abi, text))
	}
	if nr < -1<<31 || nr > 1<<32-1 {
		return 0, badInput(fmt.Errorf("number %s does not fit in 32 bits", text))
	}
	if int32(nr) < 0 {
		return uint32(nr), nil
	}
	return uint32(nr) | abi.Bit, nil
}

func (c *seccompWhoCmd) print(w io.Writer, loaded []*seccompFilter, d *analysis.Decision) {
	fmt.Fprintf(w, "%s\n", analysis.Case{Call: d.Call, Ret: d.Ret})
	switch {
	case d.Filter < 0:
		fmt.Fprintln(w, "no filter has anything against it")
	case len(loaded) > 1:
		fmt.Fprintf(w, "decided by filter %d, %s, at instruction %d\n", d.Filter, loaded[d.Filter].Source, d.PC)
	default:
		fmt.Fprintf(w, "decided at instruction %d of %s\n", d.PC, loaded[0].Source)
	}
	if d.Filter >= 0 {
		if rule := loaded[d.Filter].whoseRule(&d.Call); rule != "" {
			fmt.Fprintf(w, "rule: %s\n", rule)
		}
	}
	if d.Exempt {
		fmt.Fprintf(w, "but kernels like Linux %s let this call pass unasked\n", seccompdata.CurrentKernel)
	}
	for i, run := range d.Runs {
		if len(d.Runs) > 1 {
			fmt.Fprintf(w, "\nfilter %d, %s: %s", i, loaded[i].Source, seccompdata.FormatRet(run.Ret))
		}
		fmt.Fprintf(w, "\n%s:\n", plural(run.Executed, "instruction"))
		c.path(w, run)
	}
}

// whoseRule says what part of a profile decides a call; "" for programs.
func (f *seccompFilter) whoseRule(d *seccompdata.Data) string {
	if f.Compiled == nil {
		return ""
	}
	v := f.Compiled.Policy.Verdict(d, f.Compiled.Options)
	if v.Rule >= 0 {
		return f.Compiled.Policy.Rules[v.Rule].String()
	}
	return "none, " + deciders[v.By]
}

// deciders are the parts of a profile that decide where no rule does.
var deciders = map[policy.By]string{
	policy.ByDefault: "the default action",
	policy.ByArch:    "the action for ABIs that the profile does not list",
	policy.ByX32:     "the action for x32 calls",
	policy.ByEnosys:  "ENOSYS for numbers above all that the profile names",
}

// origin is what is known of the filter for an analysis, nil if it is nothing.
func (f *seccompFilter) origin() *analysis.Origin {
	if f.Compiled == nil {
		return nil
	}
	o := &analysis.Origin{Rules: f.Compiled.Compiled.Rules}
	for _, rule := range f.Compiled.Policy.Rules {
		o.Names = append(o.Names, rule.String())
	}
	for _, warning := range f.Compiled.Policy.Warnings {
		o.Warnings = append(o.Warnings, warning.String())
	}
	return o
}

// minSkip is the least run of comparisons that is not printed one by one.
const minSkip = 5

func (c *seccompWhoCmd) path(w io.Writer, run analysis.Run) {
	for i := 0; i < len(run.Steps); i++ {
		n := 0
		for !c.Full && i+n < len(run.Steps) && run.Steps[i+n].Jump && !run.Steps[i+n].Taken && run.Steps[i+n].A == run.Steps[i].A {
			n++
		}
		if n >= minSkip {
			fmt.Fprintf(w, "      ... %d comparisons that do not hold (--full prints them)\n", n)
			i += n - 1
			continue
		}
		fmt.Fprintln(w, strings.TrimRight(stepText(run.Steps[i]), " "))
	}
	if run.DivZero {
		fmt.Fprintln(w, "      X is 0: the division ends the filter with 0")
	}
}

// stepText is an executed instruction with what it works on.
func stepText(s analysis.Step) string {
	text := strings.ReplaceAll(bpftext.FormatInstruction(s.PC, s.Ins), "\t", " ")
	usesX := s.Ins.Reads()&bpf.RegX != 0
	var notes []string
	if s.Ins.Reads()&bpf.RegA != 0 {
		notes = append(notes, fmt.Sprintf("A = %#x", s.A))
	}
	if usesX {
		notes = append(notes, fmt.Sprintf("X = %#x", s.X))
	}
	if s.Ins.Code == bpf.LdMem || s.Ins.Code == bpf.LdxMem {
		notes = append(notes, fmt.Sprintf("M[%d] = %#x", s.Ins.K, s.Cell))
	}
	if s.Jump {
		notes = append(notes, map[bool]string{true: "holds", false: "does not hold"}[s.Taken])
	}
	return fmt.Sprintf("%-42s  %s", text, strings.Join(notes, ", "))
}

// whoJSON is a decision for programs.
type whoJSON struct {
	Type     string           `json:"type"` // "decision"
	Call     seccompdata.Data `json:"call"`
	Ret      uint32           `json:"ret"`
	Action   string           `json:"action"`
	Data     uint32           `json:"data"`
	Filter   int              `json:"filter"`
	PC       int              `json:"pc"`
	Rule     string           `json:"rule,omitempty"`
	Exempt   bool             `json:"exempt,omitempty"`
	Filters  []runJSON        `json:"filters"`
	Executed int              `json:"executed"`
}

type runJSON struct {
	Source   string `json:"source"`
	Ret      uint32 `json:"ret"`
	PC       int    `json:"pc"`
	Executed int    `json:"executed"`
	Path     []int  `json:"path"`
}

func newWhoJSON(loaded []*seccompFilter, d *analysis.Decision) whoJSON {
	out := whoJSON{
		Type: "decision", Call: d.Call, Ret: d.Ret, Action: seccompdata.ActionOf(d.Ret).String(), Data: d.Ret & seccompdata.DataMask,
		Filter: d.Filter, PC: d.PC, Exempt: d.Exempt,
	}
	for i, run := range d.Runs {
		r := runJSON{Source: loaded[i].Source, Ret: run.Ret, PC: run.PC, Executed: run.Executed}
		for _, s := range run.Steps {
			r.Path = append(r.Path, s.PC)
		}
		out.Executed += run.Executed
		out.Filters = append(out.Filters, r)
		if i == d.Filter {
			out.Rule = loaded[i].whoseRule(&d.Call)
		}
	}
	return out
}
