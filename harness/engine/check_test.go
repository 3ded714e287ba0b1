package engine

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// corpusInputs are the corpus's packets, whole and in fragments that end inside
// words, and some system calls.
func corpusInputs(t *testing.T) (packets, calls []kernelabi.Input) {
	t.Helper()
	all, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		packets = append(packets, p.Skb, p.Skb.Split(13, 1, 7, 30), p.Skb.Split(0))
	}
	for nr := range uint32(20) {
		call := new(kernelabi.Syscall)
		call.Nr, call.Arch, call.Args[0] = nr, 0x40000028, uint64(nr)<<32|7
		calls = append(calls, call)
	}
	return packets, calls
}

// An engine comes to the same verdicts and outcomes as a replay, on every
// program of the corpus, for kernels with faults as well, whatever it looks at
// beside them.
func TestEngineIsReplay(t *testing.T) {
	profiles := []string{
		"linux-3.10-x86_64", "linux-3.0-x86_64", "inline-x86_64", "linux-3.12-armv5", "linux-4.5-armv5",
		"linux-4.5-armv7", "kjit-armv7", "seccomp-2013-armv7",
	}
	packets, calls := corpusInputs(t)
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	var runners []harness.Runner
	for _, name := range profiles {
		p, err := kernelabi.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := harness.NewJIT(p, emulator.WithBudget(10_000))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		runners = append(runners, r)
	}
	for _, cfg := range []Config{{}, {Coverage: true, Split: true}} {
		cfg.Options = []emulator.Option{emulator.WithBudget(10_000)}
		e := newEngine(t, cfg, profiles...)
		seen := make([]int, harness.NotRun+1)
		for _, p := range programs {
			inputs := packets
			if p.Kind == bpf.Seccomp {
				inputs = calls
			}
			type key struct{ target, input int }
			var want, got Tally
			wantPairs := 0
			found := map[key]Divergence{}
			replay := harness.Replay{Program: p.Program, Kind: p.Kind, Runners: runners, Each: func(row *harness.Row) error {
				for i, v := range row.Verdicts {
					seen[v]++
					if v != harness.NotRun {
						wantPairs++
					}
					if v == harness.Diverge || v == harness.Undefined {
						found[key{i, row.Index}] = Divergence{i, row.Index, v, row.Want[i], row.Got[i]}
					}
				}
				return nil
			}}
			tallies, err := replay.Run(context.Background(), inputs)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			report, err := e.Check(p.Program, p.Kind, inputs)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			for i, tally := range tallies {
				want = Tally{tally.Agree, tally.Diverge, tally.Undefined, tally.NotRun, tally.Executed}
				got = report.Tallies[i]
				if want != got {
					t.Errorf("%s on %s: got %+v, want %+v", p.Name, profiles[i], got, want)
				}
				if (report.NotRun[i] != nil) != (tally.NotRun > 0) {
					t.Errorf("%s on %s: not run because of %v, want %q", p.Name, profiles[i], report.NotRun[i], tally.Why)
				}
			}
			if report.Pairs != wantPairs {
				t.Errorf("%s: %d pairs, want %d", p.Name, report.Pairs, wantPairs)
			}
			gotFound := map[key]Divergence{}
			for _, d := range report.Divergences {
				gotFound[key{d.Target, d.Input}] = d
			}
			// Where a packet lies depends on how many are in memory with it.
			anywhere := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Address" }, cmp.Ignore())
			if diff := cmp.Diff(found, gotFound, anywhere); diff != "" {
				t.Errorf("%s: divergences (-want +got):\n%s", p.Name, diff)
			}
		}
		for v, n := range seen {
			if n == 0 {
				t.Errorf("no verdict was %q", harness.Verdict(v))
			}
		}
	}
}

// Nothing is allocated for a program that agrees, with coverage or without.
func TestCheckAllocatesNothing(t *testing.T) {
	const programs = 100
	for _, cfg := range []Config{{}, {Coverage: true}, {Split: true}} {
		e, g := newEngine(t, cfg, defaultSet...), socketCases(2)
		pairs := 0
		declined := map[uint64]bool{} // why a program is declined is told, which does allocate
		check := func() {
			pairs = 0
			for i := range uint64(programs) {
				if declined[i] {
					continue
				}
				c := g.At(i)
				r, err := e.Check(c.Program, c.Kind, c.Inputs())
				if err != nil || r.Tallies[0].Diverge+r.Tallies[1].Diverge+r.Tallies[2].Diverge > 0 {
					t.Fatal(r.Divergences, err)
				}
				pairs += r.Pairs
				for _, why := range r.NotRun {
					declined[i] = declined[i] || why != nil
				}
			}
		}
		check()
		if n := testing.AllocsPerRun(3, check); n > 0 {
			t.Errorf("coverage %v, split %v: %v allocations for %d programs", cfg.Coverage, cfg.Split, n, programs)
		}
		if pairs < programs*100 {
			t.Errorf("only %d pairs were compared", pairs)
		}
	}
}

// What is new comes once.
func TestCoverage(t *testing.T) {
	e := newEngine(t, Config{Coverage: true}, defaultSet...)
	in := []kernelabi.Input{kernelabi.NewSkb(make([]byte, 60)), kernelabi.NewSkb(make([]byte, 10))}
	load := func(k, value uint32) bpf.Program {
		return bpf.Program{{Code: bpf.LdBAbs, K: k}, {Code: bpf.JeqK, K: value, JF: 1}, {Code: bpf.RetK, K: 1}, {Code: bpf.RetK, K: 0}}
	}
	for _, test := range []struct {
		desc         string
		prog         bpf.Program
		rules, edges bool
	}{
		{"a first program", load(12, 0), true, true},
		{"the same again", load(12, 0), false, false},
		{"other constants of the same forms", load(13, 0), false, false},
		{"a constant of another form", load(12, 0x12345), true, true},
		{"a load of another size", bpf.Program{{Code: bpf.LdHAbs, K: 12}, {Code: bpf.RetA}}, true, true},
	} {
		r, err := e.Check(test.prog, bpf.Socket, in)
		if err != nil {
			t.Fatal(err)
		}
		if (r.NewRules > 0) != test.rules || (r.NewEdges > 0) != test.edges {
			t.Errorf("%s: %d new rules and %d new edges, want some: %v and %v", test.desc, r.NewRules, r.NewEdges, test.rules, test.edges)
		}
	}
	for i := range defaultSet {
		c := e.Coverage(i)
		if c.Entries != 5 || c.Rules < 6 || c.Edges == 0 {
			t.Errorf("%s: %d entries, %d rules, %d edges", defaultSet[i], c.Entries, c.Rules, c.Edges)
		}
	}
}
