package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/seccompdata"
)

type seccompCacheCmd struct {
	taskFlags
	ABI     []string `name:"abi" placeholder:"NAME" help:"Only these ABIs (default: all that the machine has a table for)."`
	Machine string   `placeholder:"ABI" help:"Machine of the kernel: x86_64, arm or aarch64 (default: as the filters' architecture checks say)."`
	Rows    string   `enum:"all,cached,uncached,lost,denied" default:"uncached" help:"Calls to list: all, cached, uncached, lost (allowed, and not cached), denied (${default})."`

	profileFlags
}

// Help is the long help text.
func (c *seccompCacheCmd) Help() string {
	return "Since Linux 5.11 a kernel works out, when a filter is attached, which calls it allows whatever their arguments, and runs no filter for those any more. This lists the others, each with the instruction that ended the kernel's proof. Of several filters every one has to be proved. The kernel is Linux " + cacheKernel.String() + " unless --kernel says otherwise."
}

// cacheKernel is the default release: the one whose calls published counts are
// of.
var cacheKernel = seccompdata.Kernel{Major: 6, Minor: 7}

func (c *seccompCacheCmd) Run(ctx context.Context, std streams, global *cli) error {
	k, err := c.kernel(cacheKernel)
	if err != nil {
		return err
	}
	only, err := parseABIs("--abi", c.ABI)
	if err != nil {
		return err
	}
	chain, err := c.load(ctx, &c.profileFlags, std)
	if err != nil {
		return err
	}
	machine := machineOf(chain)
	if c.Machine != "" {
		if machine, err = parseABI("--machine", c.Machine); err != nil {
			return err
		}
	}
	if !k.AtLeast(5, 11) {
		return badInput(fmt.Errorf("--kernel %s: kernels before 5.11 have no cache: every call runs every filter", k))
	}
	cache := seccompdata.NewCache(chain, machine, k)
	tables := slices.DeleteFunc(cache.Tables, func(t seccompdata.CacheTable) bool {
		return len(only) > 0 && !slices.Contains(only, t.ABI)
	})
	report := &cacheReport{cmd: c, chain: chain, kernel: k, reportWriter: newReportWriter(std.out, global.JSON)}
	for _, abi := range only {
		if cache.Table(abi) == nil {
			report.without(abi)
		}
	}
	for i := range tables {
		report.table(&tables[i])
	}
	return report.w.Flush()
}

// cacheReport prints the tables of a cache.
type cacheReport struct {
	cmd    *seccompCacheCmd
	chain  seccompdata.Chain
	kernel seccompdata.Kernel
	reportWriter
}

// cacheRow is one call.
type cacheRow struct {
	Type   string          `json:"type"` // "call"
	ABI    string          `json:"abi"`
	Nr     uint32          `json:"nr"`
	Call   string          `json:"call,omitempty"`
	State  string          `json:"state"` // cached, exempt, lost, denied
	Cached bool            `json:"cached"`
	Ret    uint32          `json:"ret"` // with all arguments 0
	Filter *int            `json:"filter,omitempty"`
	PC     *int            `json:"pc,omitempty"`
	Insn   string          `json:"insn,omitempty"`
	Why    seccompdata.Why `json:"why,omitempty"`
}

// cacheSummary is one table.
type cacheSummary struct {
	Type   string   `json:"type"` // "summary"
	ABI    string   `json:"abi"`
	Kernel string   `json:"kernel"`
	Table  int      `json:"table_size"` // numbers from there on are never cached
	Named  int      `json:"named"`
	Cached int      `json:"cached"` // of the named
	Exempt int      `json:"exempt"` // of the cached, those that pass whatever the filters say
	Denied int      `json:"denied"`
	Lost   []string `json:"lost"`
}

// without tells of an ABI that has no table.
func (r *cacheReport) without(abi *seccompdata.ABI) {
	named := len(abi.Calls(r.kernel))
	if r.enc != nil {
		r.enc.Encode(cacheSummary{Type: "summary", ABI: abi.Name, Kernel: r.kernel.String(), Named: named, Lost: []string{}})
		return
	}
	fmt.Fprintf(r.w, "%s: 0 of %d named calls cached: the kernel has no table for them, every call runs every filter\n", abi, named)
}

// row works out what is to be said of a call.
func (r *cacheReport) row(t *seccompdata.CacheTable, nr uint32) cacheRow {
	e := t.Entries[nr]
	row := cacheRow{Type: "call", ABI: t.ABI.Name, Nr: nr, Cached: e.Cached, Why: e.Why}
	row.Call, _ = t.ABI.Call(nr)
	d := r.chain.Run(&seccompdata.Data{Nr: nr, Arch: t.ABI.Arch}, r.kernel)
	row.Ret = d.Ret
	switch {
	case e.Exempt:
		row.State = "exempt"
	case e.Cached:
		row.State = "cached"
	case seccompdata.ActionOf(d.Ret) == seccompdata.Allow:
		row.State = "lost"
	default:
		row.State = "denied"
	}
	if e.Filter >= 0 {
		f := r.chain.Filters()[e.Filter]
		row.Filter, row.PC = &e.Filter, &e.PC
		row.Insn = instructionText(f.Program(), e.PC)
	}
	return row
}

// instructionText is an instruction as tcpdump -d lists it, without its number.
func instructionText(prog bpf.Program, pc int) string {
	_, text, _ := strings.Cut(bpftext.FormatInstruction(pc, prog[pc]), " ")
	return strings.Join(strings.Fields(text), " ")
}

func (r *cacheReport) table(t *seccompdata.CacheTable) {
	sum := cacheSummary{Type: "summary", ABI: t.ABI.Name, Kernel: r.kernel.String(), Table: len(t.Entries), Lost: []string{}}
	var rows []cacheRow
	for _, nr := range t.ABI.Calls(r.kernel) {
		if nr < uint32(len(t.Entries)) { // ARM has private calls beyond
			rows = append(rows, r.row(t, nr))
		}
	}
	for _, row := range rows {
		sum.Named++
		switch row.State {
		case "exempt":
			sum.Exempt++
			sum.Cached++
		case "cached":
			sum.Cached++
		case "lost":
			sum.Lost = append(sum.Lost, row.Call)
		case "denied":
			sum.Denied++
		}
	}
	foreign := r.cmd.Rows == "uncached" && r.enc == nil && sameDenial(rows)
	for _, row := range rows {
		if r.wants(row) && !foreign {
			r.print(row)
		}
	}
	if foreign {
		r.print(cacheRow{ABI: t.ABI.Name, Nr: rows[0].Nr, Call: "and all others", State: "denied",
			Ret: rows[0].Ret, Filter: rows[0].Filter, PC: rows[0].PC, Insn: rows[0].Insn, Why: rows[0].Why})
	}
	r.summary(sum)
}

// sameDenial reports whether one instruction denies everything, as it is with
// calls of an ABI that the filters are not made for.
func sameDenial(rows []cacheRow) bool {
	for _, row := range rows {
		if row.State != "denied" || *row.PC != *rows[0].PC || *row.Filter != *rows[0].Filter {
			return false
		}
	}
	return len(rows) > 0
}

func (r *cacheReport) wants(row cacheRow) bool {
	switch r.cmd.Rows {
	case "all":
		return true
	case "cached":
		return row.Cached
	case "uncached":
		return !row.Cached
	}
	return row.State == r.cmd.Rows
}

func (r *cacheReport) print(row cacheRow) {
	if r.enc != nil {
		r.enc.Encode(row)
		return
	}
	fmt.Fprintf(r.w, "%-7s  %4d  %-24s  %s", row.ABI, row.Nr, row.Call, row.State)
	if row.PC != nil {
		fmt.Fprintf(r.w, "  %6s  %s: %s", placeIn(r.chain, *row.Filter, *row.PC), row.Insn, row.Why)
		if row.State == "denied" {
			fmt.Fprintf(r.w, " (%s)", seccompdata.FormatRet(row.Ret))
		}
	}
	fmt.Fprintln(r.w)
}

func (r *cacheReport) summary(sum cacheSummary) {
	if r.enc != nil {
		r.enc.Encode(sum)
		return
	}
	fmt.Fprintf(r.w, "%s, Linux %s: %d of %d named calls cached", sum.ABI, sum.Kernel, sum.Cached, sum.Named)
	if sum.Exempt > 0 {
		fmt.Fprintf(r.w, " (%d of them pass whatever filters say)", sum.Exempt)
	}
	fmt.Fprintf(r.w, ", %d denied, %d lost", sum.Denied, len(sum.Lost))
	if len(sum.Lost) > 0 {
		fmt.Fprintf(r.w, ": %s", few(sum.Lost, 10))
	}
	fmt.Fprintln(r.w)
}
