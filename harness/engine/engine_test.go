package engine

import (
	"testing"
	"time"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/kernelabi"
)

// defaultSet are the targets that the project's speed is stated for.
var defaultSet = []string{"linux-3.10-x86_64", "kjit-armv5", "kjit-armv7"}

func newEngine(t testing.TB, cfg Config, profiles ...string) *Engine {
	t.Helper()
	for _, name := range profiles {
		p, err := kernelabi.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		target, err := ProfileTarget(p)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Targets = append(cfg.Targets, target)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// socketCases generates programs for the default set.
func socketCases(seed uint64) *generate.Generator {
	cfg := generate.Default()
	cfg.Seccomp = -1 // which the default set's JITs decline
	return generate.New(seed, cfg)
}

// programs is how many generated cases a benchmark goes round and round. The
// best time of each counts: that is hardly disturbed by what else the machine
// does.
const programs = 1000

// BenchmarkEngine generates, solves and checks, with the default set and the
// generator's defaults. "split" says what each part takes, in us a program.
func BenchmarkEngine(b *testing.B) {
	for _, test := range []struct {
		name string
		cfg  Config
	}{{"total", Config{}}, {"coverage", Config{Coverage: true}}, {"split", Config{Split: true}}} {
		b.Run(test.name, func(b *testing.B) { benchmark(b, test.cfg) })
	}
}

func benchmark(b *testing.B, cfg Config) {
	e, g := newEngine(b, cfg, defaultSet...), socketCases(1)
	var best [programs]time.Duration
	var parts [programs]Split
	insns, inputs, pairs, translated := 0, 0, 0, uint64(0)
	b.ReportAllocs()
	n := 0
	for ; b.Loop(); n++ {
		insns, inputs, pairs = 0, 0, 0
		for at := range uint64(programs) {
			before, blocks, began := e.Split(), e.Translated(), time.Now()
			c := e.generate(g, at)
			solved := e.solve(c)
			r, err := e.Check(c.Program, c.Kind, solved)
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range r.Divergences {
				if d.Verdict == harness.Diverge {
					b.Fatalf("%v: %+v", c.Program, d)
				}
			}
			insns += len(c.Program)
			inputs += len(solved)
			pairs += r.Pairs
			if d := time.Since(began); best[at] == 0 || d < best[at] {
				best[at] = d
			}
			parts[at].least(e.Split(), before)
			translated += e.Translated() - blocks
		}
	}
	var total time.Duration
	var sum Split
	for at, d := range best {
		total += d
		sum.add(parts[at])
	}
	b.ReportMetric(0, "ns/op")
	if cfg.Split {
		for _, part := range []struct {
			name string
			d    time.Duration
		}{
			{"1-generate", sum.Generate}, {"2-solve", sum.Solve}, {"3-interpret", sum.Interpret}, {"4-emit", sum.Emit},
			{"5-translate", sum.Translate}, {"6-execute", sum.Execute}, {"7-compare", sum.Compare},
		} {
			b.ReportMetric(float64(part.d.Nanoseconds())/1000/programs, part.name)
		}
		return
	}
	b.ReportMetric(float64(insns)/programs, "insns/program")
	b.ReportMetric(float64(inputs)/programs, "inputs/program")
	b.ReportMetric(float64(translated)/programs/float64(n), "blocks/program")
	b.ReportMetric(programs/total.Seconds(), "programs/s")
	b.ReportMetric(float64(pairs)/total.Seconds(), "pairs/s")
}

// generate and solve measure what is not the engine's.
func (e *Engine) generate(g *generate.Generator, i uint64) *generate.Case {
	e.split.begin()
	defer e.split.lap(&e.split.Generate)
	return g.At(i)
}

func (e *Engine) solve(c *generate.Case) []kernelabi.Input {
	defer e.split.lap(&e.split.Solve)
	return c.Inputs()
}

// durations are the parts of a split.
func (s *Split) durations() []*time.Duration {
	return []*time.Duration{&s.Generate, &s.Solve, &s.Interpret, &s.Emit, &s.Translate, &s.Execute, &s.Compare}
}

// least keeps what of each part was the shortest, in s or from before to after.
func (s *Split) least(after, before Split) {
	a, b := after.durations(), before.durations()
	for i, d := range s.durations() {
		if took := *a[i] - *b[i]; *d == 0 || took < *d {
			*d = took
		}
	}
}

func (s *Split) add(o Split) {
	from := o.durations()
	for i, d := range s.durations() {
		*d += *from[i]
	}
}
