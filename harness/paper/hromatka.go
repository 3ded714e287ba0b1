package paper

import (
	"github.com/kjit-project/kjit/harness/guestcode"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

// calls306 is how many system calls the filter of 2018 allowed.
const calls306 = 306

// positions are where a call stands in the filter, and how the filter is laid
// out: the number of the call is its place in ascending order.
var positions = []struct {
	label  string
	ticks  Value
	layout policy.Layout
	hot    bool // the call comes first, by its priority
	nr     uint32
}{
	{"front, in ascending order", 722, policy.Chain, false, front},
	{"middle", 1392, policy.Chain, false, middle},
	{"end", 2452, policy.Chain, false, end},
	{"end, given the highest priority", None, policy.Chain, true, end},
	{"end, balanced tree", None, policy.Tree, false, end},
	{"end, ranges of equal results", None, policy.Ranges, false, end},
}

const front, middle, end = 0, calls306 / 2, calls306 - 1

// hromatka2018 is the proposal of a hash map for seccomp: where a call stands in
// a filter of 306 calls, against one look into a table.
func hromatka2018(m *meter) (*Table, error) {
	p := profile("inline-x86_64")
	rules := &policy.Policy{Name: "306 calls", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Default: uint32(seccompdata.Errno) | uint32(seccompdata.ENOSYS)}
	returns := map[uint32]uint32{}
	for nr := range uint32(calls306) {
		rules.Rules = append(rules.Rules, policy.Rule{ABI: seccompdata.X86_64, Nr: nr, Ret: uint32(seccompdata.Allow)})
		returns[nr] = uint32(seccompdata.Allow)
	}
	t := &Table{
		Name:   "hromatka-2018",
		Title:  "A filter of 306 system calls: position, layout, hash map",
		Source: "T. Hromatka with P. Moore and K. Cook, eBPF hash map for seccomp, February 2018; getppid, 1,000,000 calls, minimum in TSC ticks",
		Columns: []Column{
			{"whole call", "ticks", Published, 0}, {"over no filter", "ticks", Published, 0},
			{"no JIT", "instructions", Counted, 0}, {"JIT", "instructions", Counted, 0}, {"executed of BPF", "instructions", Counted, 0},
		},
		Rows: []Row{{"seccomp disabled", []Value{620, 0, 0, 0, 0}}},
		Notes: []string{
			"the publication does not say whether a JIT was on; 5.7 ticks for each comparison point to the interpreter",
			"counts are without the result cache of 5.11, which makes all of these calls cost the same",
			"the hash map is guest code (ci/guestcode/table.c): a hash of the number, a bucket, a comparison; the eBPF program that calls it is not in the count",
		},
		Plot: Plot{[]int{1, 2, 3}},
	}
	var interp, jit [6]Value
	for i, r := range positions {
		o := policy.CompileOptions{Layout: r.layout}
		if r.hot {
			o.Histogram = only(r.nr)
		}
		c, err := policy.Compile(rules, o)
		if err != nil {
			return nil, err
		}
		f, err := seccompdata.NewFilter(r.label, c.Program)
		if err != nil {
			return nil, err
		}
		executed := f.Run(&seccompdata.Data{Nr: r.nr, Arch: seccompdata.ArchX86_64}).Executed
		interp[i] = m.chain(p, r.nr, seccompdata.ArchX86_64, interpreted(c.Program))
		jit[i] = m.chain(p, r.nr, seccompdata.ArchX86_64, compiled(p, c.Program))
		t.Rows = append(t.Rows, Row{r.label, []Value{r.ticks, r.ticks - 620, interp[i], jit[i], Value(executed)}})
	}
	table := guestcode.Filter{Table: &guestcode.Table{Returns: returns, Otherwise: rules.Default}}
	mapped := m.chain(p, end, seccompdata.ArchX86_64, table)
	t.Rows = append(t.Rows, Row{"hash map of 306 entries", []Value{800, 180, None, mapped, None}})

	perInterp, perJIT := slope(t.Rows, 2), slope(t.Rows, 3)
	t.Checks = []Check{
		check("an interpreted comparison executes 10 to 15 instructions", perInterp >= 10 && perInterp <= 15, "%.2f", perInterp),
		check("a compiled comparison executes 2 instructions", perJIT == 2, "%.2f", perJIT),
		check("front, middle and end cost more and more", interp[0] < interp[1] && interp[1] < interp[2] && jit[0] < jit[1] && jit[1] < jit[2],
			"interpreted %.0f, %.0f, %.0f; compiled %.0f, %.0f, %.0f", interp[0], interp[1], interp[2], jit[0], jit[1], jit[2]),
		check("the hash map costs less than the middle of the filter", mapped < jit[1] && mapped < interp[1],
			"%.0f against %.0f compiled, %.0f interpreted", mapped, jit[1], interp[1]),
		check("a tree, compiled, costs less than the hash map", jit[4] < mapped, "%.0f against %.0f", jit[4], mapped),
	}
	return t, m.err
}

// only is a histogram of one x86_64 call.
func only(nr uint32) policy.Histogram {
	name, _ := seccompdata.X86_64.Call(nr)
	return policy.Histogram{Modes: map[*seccompdata.ABI]map[string]float64{nil: {name: 1}}}
}

// slope is what one more executed instruction of BPF, a comparison, costs from
// the middle to the end of the filter.
func slope(rows []Row, column int) Value {
	middle, end := rows[2].Cells, rows[3].Cells
	return (end[column] - middle[column]) / (end[4] - middle[4])
}
