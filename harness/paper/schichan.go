package paper

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// schichan2013 is the posting of seccomp in the ARM JIT: a fast filter, which
// executes 5 instructions, and a slow one, which executes 90.
func schichan2013(m *meter) (*Table, error) {
	p := profile("seccomp-2013-armv5")
	published := []struct {
		call                               string
		none, fast, slow, jitFast, jitSlow Value // seconds for 1,000,000 calls
	}{
		{"gettimeofday", 0.119, 0.389, 1.633, 0.348, 0.428},
		{"getpid", 0.137, 0.406, 1.688, 0.365, 0.480},
		{"getresuid", 0.747, 1.003, 2.266, 0.981, 1.060},
		{"getcwd", 1.021, 1.342, 2.128, 1.237, 1.294},
	}
	t := &Table{
		Name:   "schichan-2013",
		Title:  "A seccomp filter on ARM, without and with a JIT: what a call costs over one without a filter",
		Source: "N. Schichan, ARM: net: JIT support for seccomp filters, March 2013; Marvell 88F6282 1.6 GHz (ARMv5), 1,000,000 calls; the fast filter executes 5 instructions, the slow one 90",
		Columns: []Column{
			{"no filter", "ns", Published, 0},
			{"no JIT, fast", "ns", Published, 0}, {"no JIT, slow", "ns", Published, 0},
			{"JIT, fast", "ns", Published, 0}, {"JIT, slow", "ns", Published, 0},
			{"no JIT, fast", "instructions", Counted, 0}, {"no JIT, slow", "instructions", Counted, 0},
			{"JIT, fast", "instructions", Counted, 0}, {"JIT, slow", "instructions", Counted, 0},
		},
		Notes: []string{
			"the filters are reconstructed: ld arch, jeq, ld nr, 85 comparisons that do not match in the slow one, jeq, ret",
			"a count is of the filling of seccomp_data, the filter and the choice of the action; what a kernel does on its way there is not in it",
			"published are the seconds for a million calls: no filter 0.119, and what each case takes over that, as 0.389 without JIT and with the fast filter, are 119 and 270 ns a call",
			"the getcwd row of the publication is noisy",
		},
		Plot: Plot{[]int{1, 2, 3, 4, 5, 6, 7, 8}},
	}
	var slopes [2]Value // executed for one more comparison, without and with JIT
	var ratio Value
	for _, row := range published {
		nr, ok := seccompdata.ARM.Number(row.call)
		if !ok {
			return nil, fmt.Errorf("no system call %s on ARM", row.call)
		}
		over := func(seconds Value) Value { return (seconds - row.none) * 1e3 }
		cells := []Value{row.none * 1e3, over(row.fast), over(row.slow), over(row.jitFast), over(row.jitSlow)}
		fast, slow := schichanFilter(nr, 0), schichanFilter(nr, 85)
		counts := []Value{
			m.chain(p, nr, seccompdata.ArchARM, interpreted(fast)),
			m.chain(p, nr, seccompdata.ArchARM, interpreted(slow)),
			m.chain(p, nr, seccompdata.ArchARM, compiled(p, fast)),
			m.chain(p, nr, seccompdata.ArchARM, compiled(p, slow)),
		}
		slopes = [2]Value{(counts[1] - counts[0]) / 85, (counts[3] - counts[2]) / 85}
		ratio = counts[1] / counts[3]
		t.Rows = append(t.Rows, Row{row.call, append(cells, counts...)})
	}
	t.Checks = []Check{
		check("a slow filter costs 3 to 5 times as much without a JIT (published: 4.1 to 4.9)", ratio >= 3 && ratio <= 5, "%.2f", ratio),
		check("an interpreted comparison executes 10 to 15 instructions", slopes[0] >= 10 && slopes[0] <= 15, "%.2f", slopes[0]),
		check("a compiled comparison executes far fewer (published: 0.67 to 1.35 ns against 9 to 15 ns)", slopes[1]*4 < slopes[0], "%.2f against %.2f", slopes[1], slopes[0]),
	}
	return t, m.err
}

// schichanFilter allows nr behind so many comparisons that do not match.
func schichanFilter(nr uint32, comparisons int) bpf.Program {
	prog := bpf.Program{
		{Code: bpf.LdWAbs, K: seccompdata.OffArch},
		{Code: bpf.JeqK, JT: 1, K: seccompdata.ArchARM},
		{Code: bpf.RetK, K: uint32(seccompdata.KillThread)},
		{Code: bpf.LdWAbs, K: seccompdata.OffNr},
	}
	for i := range comparisons {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, JT: uint8(comparisons + 1 - i), K: uint32(1000 + i)})
	}
	return append(prog,
		bpf.Instruction{Code: bpf.JeqK, JT: 1, K: nr},
		bpf.Instruction{Code: bpf.RetK, K: uint32(seccompdata.Errno) | 1},
		bpf.Instruction{Code: bpf.RetK, K: uint32(seccompdata.Allow)},
	)
}
