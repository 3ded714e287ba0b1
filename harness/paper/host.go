package paper

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/harness/selftest"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

// Measurement is what a host gave for the benchmark of the kernel.
type Measurement struct {
	Host    selftest.Host `json:"host"`
	Samples int           `json:"samples"` // calls in each phase
	Phases  Phases        `json:"phases"`  // nanoseconds
}

// MeasureBenchmark runs the kernel's seccomp_benchmark on the host. The samples
// are as for [selftest.Time], and so are the errors.
func MeasureBenchmark(ctx context.Context, samples int) (*Measurement, error) {
	host, err := selftest.ThisHost()
	if err != nil {
		return nil, err
	}
	b, f := bitmapFilter, fullFilter
	times, err := selftest.Time(ctx, selftest.Getpid, [][]bpf.Program{{}, {b}, {b, b}, {b, b, f}, {b, b, f, b}}, samples)
	if err != nil {
		return nil, err
	}
	ns := values(times.Nanoseconds)
	return &Measurement{host, times.Samples, Phases{ns[0], ns[1], ns[2], ns[3], ns[4]}}, nil
}

// hosts add what can be measured to the tables of those names.
var hosts = map[string]func(context.Context, *Table, int) error{
	"hromatka-2018": measureHromatka,
	"cook-2020": func(ctx context.Context, t *Table, samples int) error {
		m, err := MeasureBenchmark(ctx, samples)
		if err == nil {
			err = t.AddBenchmark(m)
		}
		return err
	},
}

// Measure adds columns of times on the host to a table for which there are some,
// and reports whether that is so. The samples are as for [selftest.Time], and so
// are the errors.
func (t *Table) Measure(ctx context.Context, samples int) (bool, error) {
	measure := hosts[t.Name]
	if measure == nil {
		return false, nil
	}
	return true, measure(ctx, t, samples)
}

// expectations is how many the benchmark has.
const expectations = 7

// AddBenchmark adds the phases and their expectations to the table cook-2020.
func (t *Table) AddBenchmark(m *Measurement) error {
	rows := phaseRows(m.Phases)
	if len(rows) != len(t.Rows) {
		return fmt.Errorf("table %s has %d rows, none for the benchmark's", t.Name, len(t.Rows))
	}
	t.Columns = append(t.Columns, Column{"whole call", "ns", Measured, 1})
	for i, row := range rows {
		t.Rows[i].Cells = append(t.Rows[i].Cells, row.Cells[0])
	}
	for i := range t.Checks {
		t.Checks[i].Text = "counted: " + t.Checks[i].Text
	}
	checks := m.Phases.Expectations()
	for _, c := range checks {
		c.Text = "measured: " + c.Text
		t.Checks = append(t.Checks, c)
	}
	t.note(m.Host, m.Samples)
	if len(checks) < expectations {
		t.Notes = append(t.Notes, "measured: what the benchmark expects besides is about the result cache, and left out where the cache does not show")
	}
	return nil
}

// note says on what was measured.
func (t *Table) note(h selftest.Host, samples int) {
	t.Notes = append(t.Notes, fmt.Sprintf("measured: %s; processor time, the least of blocks of %d of %d calls", h, selftest.Block, samples))
}

// measureHromatka times getppid at the places that the table has.
func measureHromatka(ctx context.Context, t *Table, samples int) error {
	host, err := selftest.ThisHost()
	if err != nil {
		return err
	}
	abi, err := seccompdata.ABIByName(runtime.GOARCH)
	if err != nil {
		return &probe.UnavailableError{What: "a filter for this machine", Reason: "kjit has no system calls of " + runtime.GOARCH}
	}
	chains := [][]bpf.Program{{}}
	for i := range positions {
		prog, err := filter306(abi, selftest.Getppid, i)
		if err != nil {
			return err
		}
		// In front, a load that the result cache cannot follow.
		load := append(bpf.Program{{Code: bpf.LdWAbs, K: seccompdata.OffArgs}}, prog...)
		chains = append(chains, []bpf.Program{prog}, []bpf.Program{load})
	}
	times, err := selftest.Time(ctx, selftest.Getppid, chains, samples)
	if err != nil {
		return err
	}
	ns := values(times.Nanoseconds)
	t.Columns = append(t.Columns, Column{"whole call", "ns", Measured, 1}, Column{"whole call, argument loaded", "ns", Measured, 1})
	for i := range t.Rows {
		cells := []Value{None, None} // a hash map is nothing that seccomp takes
		switch {
		case i == 0:
			cells = []Value{ns[0], ns[0]}
		case i <= len(positions):
			cells = ns[2*i-1 : 2*i+1]
		}
		t.Rows[i].Cells = append(t.Rows[i].Cells, cells...)
	}
	t.note(host, times.Samples)
	t.Notes = append(t.Notes, fmt.Sprintf(
		"measured is getppid, %d of %s, with the other calls of the filter in an order that gives it its place; in tree and ranges that is the place of its number; a load of an argument in front turns the result cache of 5.11 off",
		selftest.Getppid, abi))
	return nil
}

// filter306 is a filter of 306 calls in which call has that of the positions. It
// lets all other calls pass too, but as unlike ones: ALLOW with data is no result
// that is cached, or that a range has in common with plain ALLOW.
func filter306(abi *seccompdata.ABI, call uint32, position int) (bpf.Program, error) {
	const other = uint32(seccompdata.Allow) | 1
	pos := positions[position]
	before := int(pos.nr)
	if pos.hot {
		before = 0
	}
	rules := &policy.Policy{Name: pos.label, ABIs: []*seccompdata.ABI{abi}, Default: other}
	numbers := slices.DeleteFunc(abi.Numbers(), func(nr uint32) bool { return nr == call })[:calls306-1]
	weights := map[string]float64{}
	for i, nr := range append(numbers, call) {
		rules.Rules = append(rules.Rules, policy.Rule{ABI: abi, Nr: nr, Ret: uint32(seccompdata.Allow)})
		name, _ := abi.Call(nr)
		switch {
		case nr == call:
			weights[name] = 1
		case i < before:
			weights[name] = 2
		}
	}
	c, err := policy.Compile(rules, policy.CompileOptions{
		Layout: pos.layout, BadArch: other,
		Histogram: policy.Histogram{Modes: map[*seccompdata.ABI]map[string]float64{nil: weights}},
	})
	if err != nil {
		return nil, err
	}
	return c.Program, nil
}

func values(numbers []float64) (out []Value) {
	for _, n := range numbers {
		out = append(out, Value(n))
	}
	return out
}
