package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/harness/seccomp"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

type seccompCostCmd struct {
	taskFlags
	callFlags
	Args        []string `sep:"none" placeholder:"A,B,..." help:"Up to six arguments to try with every call, besides all 0 (repeatable)."`
	JIT         []string `name:"jit" placeholder:"NAME" default:"inline-x86_64,kjit-armv5,kjit-armv7" help:"JITs whose code is counted; kjit jit --list lists them (default ${default})."`
	Interpreter bool     `help:"Count the interpreter too, on the machines of the JITs."`
	Rows        string   `enum:"all,none" default:"all" help:"Calls to list: all, or none, which leaves the means (${default})."`

	profileFlags
}

// Help is the long help text.
func (c *seccompCostCmd) Help() string {
	return `Lists for every system call that has a name how many instructions of BPF the filters execute, and how many instructions of the machine their compiled code does, counted in the emulator. Of several filters all run, and what they execute is added up; what a kernel spends on the way to them is not in it. Calls that the result cache of Linux ` + cacheKernel.String() + ` (or of --kernel) has cost nothing there: each line has the count without the cache, and "cached" beside it.

The means are over the calls listed, all arguments being 0: each call once or, with --histogram, as often as the histogram says; calls of no particular ABI in it count as calls of the first ABI.

Compiled filters only read which call it is. So those of every machine are run on the calls of every ABI, which compares the machines; that no process on an ARM can make calls of x86_64 is said below.`
}

func (c *seccompCostCmd) Run(ctx context.Context, std streams, global *cli) error {
	job, err := c.prepare(ctx, std)
	if err != nil {
		return err
	}
	costs, err := seccomp.Count(ctx, job.chain, job.cache, job.kernel, job.targets, job.calls)
	var wrong *seccomp.DisagreementError
	if errors.As(err, &wrong) {
		return &codedError{err, exitDiverged, false}
	} else if err != nil {
		return err
	}
	r := &costReport{costJob: *job, costs: costs, rows: c.Rows == "all", fold: len(c.Call) == 0, reportWriter: newReportWriter(std.out, global.JSON)}
	if r.enc != nil {
		r.objects()
	} else {
		r.text()
	}
	return r.w.Flush()
}

// costJob is what is to be counted.
type costJob struct {
	chain     seccompdata.Chain
	kernel    seccompdata.Kernel
	cache     *seccompdata.Cache
	targets   []seccomp.Target
	selection callSelection
	calls     []seccompdata.Data
	histogram policy.Histogram
}

func (c *seccompCostCmd) prepare(ctx context.Context, std streams) (*costJob, error) {
	var j costJob
	var err error
	if j.kernel, err = c.kernel(cacheKernel); err != nil {
		return nil, err
	}
	if j.targets, err = c.targets(); err != nil {
		return nil, err
	}
	if j.selection, err = c.selection(); err != nil {
		return nil, err
	}
	tried, err := parseArgs(c.Args)
	if err != nil {
		return nil, err
	}
	if j.histogram, err = c.histogram(); err != nil {
		return nil, err
	}
	if j.chain, err = c.load(ctx, &c.profileFlags, std); err != nil {
		return nil, err
	}
	machine := machineOf(j.chain)
	j.selection.on(machine)
	j.cache = seccompdata.NewCache(j.chain, machine, j.kernel)
	for _, abi := range j.selection.abis {
		for _, nr := range abi.Calls(j.kernel) {
			if !j.selection.has(abi, nr) {
				continue
			}
			for _, args := range append([][6]uint64{{}}, tried...) {
				j.calls = append(j.calls, seccompdata.Data{Nr: nr, Arch: abi.Arch, Args: args})
			}
		}
	}
	if len(j.calls) == 0 {
		return nil, j.selection.nothing(j.kernel)
	}
	return &j, nil
}

// targets are the JITs, and the interpreter once for each of their machines.
func (c *seccompCostCmd) targets() (targets []seccomp.Target, err error) {
	var interpreters []seccomp.Target
	for _, name := range c.JIT {
		p, err := kernelabi.ProfileByName(name)
		if err == nil && p.Emitter == "" {
			err = fmt.Errorf("nothing here compiles for %s: its images are imported", name)
		}
		if err != nil {
			return nil, badInput(fmt.Errorf("--jit: %w", err))
		}
		targets = append(targets, seccomp.Target{Profile: p})
		if !slices.ContainsFunc(interpreters, func(t seccomp.Target) bool { return t.Profile.Arch == p.Arch }) {
			interpreters = append(interpreters, seccomp.Target{Profile: p, Interpreter: true})
		}
	}
	if c.Interpreter {
		targets = append(targets, interpreters...)
	}
	return targets, nil
}

// costReport prints what was counted.
type costReport struct {
	costJob
	costs *seccomp.Costs
	rows  bool
	fold  bool // calls of an ABI that all cost the same take one line
	reportWriter
}

// of returns the calls of an ABI.
func (r *costReport) of(abi *seccompdata.ABI) (calls []*seccomp.CallCost) {
	for i := range r.costs.Calls {
		if c := &r.costs.Calls[i]; seccompdata.ABIOf(c.Call.Arch, c.Call.Nr) == abi {
			calls = append(calls, c)
		}
	}
	return calls
}

// costMean is the mean over an ABI's calls.
type costMean struct {
	abi     *seccompdata.ABI
	calls   int
	cached  int      // of the calls
	unknown []string // names in the histogram that the ABI does not have
	without seccomp.Mean
	with    seccomp.Mean
}

// mean works out the means for an ABI; with a histogram that has none of its
// calls there is none.
func (r *costReport) mean(abi *seccompdata.ABI) (m costMean, ok bool) {
	m.abi = abi
	weights := r.histogram.Weights(abi, abi == r.selection.abis[0])
	weight := func(c *seccomp.CallCost) float64 {
		if seccompdata.ABIOf(c.Call.Arch, c.Call.Nr) != abi || c.Call.Args != [6]uint64{} {
			return 0
		}
		if r.histogram.Empty() {
			return 1
		}
		name, _ := abi.Call(c.Call.Nr)
		return weights[name]
	}
	for _, c := range r.of(abi) {
		if weight(c) > 0 {
			m.calls++
			if c.Cached {
				m.cached++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if _, known := abi.Number(name); !known {
			m.unknown = append(m.unknown, name)
		}
	}
	m.without, m.with = r.costs.Mean(false, weight), r.costs.Mean(true, weight)
	return m, m.calls > 0 || len(m.unknown) > 0
}

// foreign are the targets whose machines have none of the ABIs.
func (r *costReport) foreign() (names []string) {
	for _, t := range r.targets {
		if !slices.ContainsFunc(r.selection.abis, t.Carries) {
			names = append(names, t.String())
		}
	}
	return names
}

// costLabels is the width of what stands left of the numbers.
const costLabels = "%-7s  %11s  %-24s  %-18s  %-6s"

// wideLabel makes a text as wide as all labels.
func wideLabel(text string) string {
	return fmt.Sprintf("%-*s", len(fmt.Sprintf(costLabels, "", "", "", "", "")), text)
}

func (r *costReport) text() {
	target := func(i int) string { return r.targets[i].String() }
	if r.rows {
		r.line(fmt.Sprintf(costLabels, "abi", "nr", "call", "verdict", "cache"), "bpf", target, "arguments")
		for _, abi := range r.selection.abis {
			calls := r.of(abi)
			if r.fold && alike(calls) {
				r.call(abi, calls[0], "and all others")
				continue
			}
			for _, c := range calls {
				r.call(abi, c, "")
			}
		}
		fmt.Fprintln(r.w)
	}
	r.line(wideLabel("mean of a call"), "bpf", target, "")
	for _, abi := range r.selection.abis {
		if m, ok := r.mean(abi); ok {
			r.means(m)
		}
	}
	fmt.Fprintln(r.w)
	for _, t := range r.costs.Targets {
		fmt.Fprintf(r.w, "%s: %d bytes of code\n", t, t.Bytes)
		for _, n := range slices.Sorted(maps.Keys(t.Declined)) {
			fmt.Fprintf(r.w, "%s: filter %d is left to the interpreter, and counted there: %v\n", t, n, t.Declined[n])
		}
	}
	if names := r.foreign(); len(names) > 0 {
		fmt.Fprintf(r.w, "note: no process on a machine of %s makes calls of %s; the code runs on them all the same\n", strings.Join(names, ", "), abiList(r.selection.abis))
	}
}

// line prints a label and right-aligned numbers.
func (r *costReport) line(label, executed string, native func(target int) string, end string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %8s", label, executed)
	for i, t := range r.targets {
		fmt.Fprintf(&b, "  %*s", max(8, len(t.String())), native(i))
	}
	fmt.Fprintf(&b, "  %s", end)
	fmt.Fprintln(r.w, strings.TrimRight(b.String(), " "))
}

// alike reports whether there are several calls and all cost the same, as it is
// with an ABI that the filters are not made for.
func alike(calls []*seccomp.CallCost) bool {
	for _, c := range calls {
		first := calls[0]
		if c.Decision.Ret != first.Decision.Ret || c.Decision.Executed != first.Decision.Executed || c.Cached != first.Cached ||
			c.Decision.Exempt != first.Decision.Exempt || c.Call.Args != first.Call.Args || !slices.Equal(c.Native, first.Native) {
			return false
		}
	}
	return len(calls) > 1
}

func (r *costReport) call(abi *seccompdata.ABI, c *seccomp.CallCost, name string) {
	cache := map[bool]string{true: "cached"}[c.Cached]
	if c.Decision.Exempt {
		cache = "exempt"
	}
	nr := fmt.Sprint(int32(c.Call.Nr &^ abi.Bit))
	if name == "" {
		name = abi.Label(c.Call.Nr)
	} else {
		nr = ""
	}
	label := fmt.Sprintf(costLabels, abi, nr, name, seccompdata.FormatRet(c.Decision.Ret), cache)
	r.line(label, fmt.Sprint(c.Decision.Executed), func(i int) string { return fmt.Sprint(c.Native[i]) }, argumentsText(&c.Call))
}

func (r *costReport) means(m costMean) {
	what := fmt.Sprintf("%s: %s", m.abi, plural(m.calls, "call"))
	if !r.histogram.Empty() {
		what += fmt.Sprintf(", made %.0f times", m.without.Weight)
	}
	print := func(label string, mean seccomp.Mean) {
		r.line(wideLabel(label), fmt.Sprintf("%.2f", mean.Executed), func(i int) string { return fmt.Sprintf("%.2f", mean.Native[i]) }, "")
	}
	if m.calls > 0 {
		print(what+", no cache", m.without)
		if r.cache.Table(m.abi) != nil {
			print(fmt.Sprintf("%s, cache of Linux %s (%d cached)", what, r.kernel, m.cached), m.with)
		}
	}
	if len(m.unknown) > 0 {
		fmt.Fprintf(r.w, "%s: %s of the histogram unknown, and not counted: %s\n", m.abi, plural(len(m.unknown), "call"), few(m.unknown, 5))
	}
}

// The objects of --json.
type (
	costTargetJSON struct {
		Type     string         `json:"type"` // "target"
		Name     string         `json:"name"`
		Arch     kernelabi.Arch `json:"arch"`
		Code     string         `json:"code"` // jit or interpreter
		Bytes    int            `json:"bytes"`
		Carries  []string       `json:"carries"` // ABIs of calls that the machine's processes can make
		Declined map[int]string `json:"declined,omitempty"`
	}
	costCallJSON struct {
		Type     string            `json:"type"` // "call"
		ABI      string            `json:"abi"`
		Call     string            `json:"call,omitempty"`
		Input    seccompdata.Data  `json:"input"`
		Ret      uint32            `json:"ret"`
		Cached   bool              `json:"cached"`
		Exempt   bool              `json:"exempt,omitempty"`
		Executed int               `json:"executed"` // by all filters, without the cache
		Native   map[string]uint64 `json:"native"`
	}
	costMeanJSON struct {
		Type     string             `json:"type"` // "mean"
		ABI      string             `json:"abi"`
		Kernel   string             `json:"kernel"`
		Cache    bool               `json:"cache"`
		Calls    int                `json:"calls"`
		Cached   int                `json:"cached"` // of the calls
		Weight   float64            `json:"weight"`
		Executed float64            `json:"executed"`
		Native   map[string]float64 `json:"native"`
		Unknown  []string           `json:"unknown,omitempty"`
	}
)

func (r *costReport) objects() {
	for _, t := range r.costs.Targets {
		out := costTargetJSON{Type: "target", Name: t.String(), Arch: t.Profile.Arch, Code: "jit", Bytes: t.Bytes, Carries: []string{}}
		if t.Interpreter {
			out.Code = "interpreter"
		}
		for _, abi := range seccompdata.ABIs() {
			if t.Carries(abi) {
				out.Carries = append(out.Carries, abi.Name)
			}
		}
		for n, refusal := range t.Declined {
			if out.Declined == nil {
				out.Declined = map[int]string{}
			}
			out.Declined[n] = refusal.Error()
		}
		r.enc.Encode(out)
	}
	if r.rows {
		r.callObjects()
	}
	for _, abi := range r.selection.abis {
		m, ok := r.mean(abi)
		if !ok {
			continue
		}
		for _, cache := range []bool{false, true} {
			if cache && r.cache.Table(abi) == nil {
				break
			}
			mean := map[bool]seccomp.Mean{false: m.without, true: m.with}[cache]
			r.enc.Encode(costMeanJSON{
				"mean", abi.Name, r.kernel.String(), cache, m.calls, m.cached, mean.Weight, mean.Executed, byTarget(r.targets, mean.Native), m.unknown,
			})
		}
	}
}

func (r *costReport) callObjects() {
	for _, abi := range r.selection.abis {
		for _, c := range r.of(abi) {
			out := costCallJSON{
				Type: "call", ABI: abi.Name, Input: c.Call, Ret: c.Decision.Ret,
				Cached: c.Cached, Exempt: c.Decision.Exempt, Executed: c.Decision.Executed, Native: byTarget(r.targets, c.Native),
			}
			out.Call, _ = abi.Call(c.Call.Nr)
			r.enc.Encode(out)
		}
	}
}

// byTarget gives numbers the names of their targets.
func byTarget[T cmp.Ordered](targets []seccomp.Target, numbers []T) map[string]T {
	out := map[string]T{}
	for i, n := range numbers {
		out[targets[i].String()] = n
	}
	return out
}
