//go:build unix

package campaign

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRange does ranges of the default campaign, in the epoch behind the
// first: everything that kjit fuzz does is in it but the journal. "range" tells
// the rates of one core, once by the clock and once by the processor time, which
// other work on the machine disturbs less; of each range the best time counts.
// "split" tells where the time of a program goes, in us.
func BenchmarkRange(b *testing.B) {
	cfg := small(b, 1, DefaultSize)
	state := NewState(&cfg.Settings)
	first := newWorker(b, cfg)
	for range 4 {
		merge(b, state, first)
	}
	b.Run("range", func(b *testing.B) { benchmarkRange(b, newWorker(b, cfg), state) })
	b.Run("split", func(b *testing.B) {
		w, err := cfg.newWorker(true)
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		benchmarkSplit(b, w, state)
	})
}

const benchRanges = 4

func benchmarkRange(b *testing.B, w *Worker, state *State) {
	var wall, cpu [benchRanges]time.Duration
	var programs, pairs, insns uint64
	for b.Loop() {
		programs, pairs, insns = 0, 0, 0
		for i := range wall {
			began, used := time.Now(), processorTime(b)
			r, err := w.RunRange(context.Background(), state.Frozen(), state.Next+uint64(i))
			if err != nil {
				b.Fatal(err)
			}
			wall[i] = least(wall[i], time.Since(began))
			cpu[i] = least(cpu[i], processorTime(b)-used)
			programs, pairs, insns = programs+r.Programs, pairs+r.Pairs, insns+r.Insns
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(insns)/float64(programs), "insns/program")
	b.ReportMetric(float64(programs)/sum(wall[:]).Seconds(), "programs/s")
	b.ReportMetric(float64(pairs)/sum(wall[:]).Seconds(), "pairs/s")
	b.ReportMetric(float64(programs)/sum(cpu[:]).Seconds(), "programs/cpu-s")
	b.ReportMetric(float64(pairs)/sum(cpu[:]).Seconds(), "pairs/cpu-s")
}

func benchmarkSplit(b *testing.B, w *Worker, state *State) {
	programs := 0.0
	for b.Loop() {
		r, err := w.RunRange(context.Background(), state.Frozen(), state.Next)
		if err != nil {
			b.Fatal(err)
		}
		programs += float64(r.Programs)
	}
	s := w.engine.Split()
	b.ReportMetric(0, "ns/op")
	for _, part := range []struct {
		name string
		d    time.Duration
	}{
		{"1-generate", w.split.Generate}, {"2-solve", w.split.Solve}, {"3-interpret", s.Interpret}, {"4-emit", s.Emit},
		{"5-translate", s.Translate}, {"6-execute", s.Execute}, {"7-compare", s.Compare},
	} {
		b.ReportMetric(float64(part.d.Nanoseconds())/1000/programs, part.name)
	}
}

func least(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func sum(all []time.Duration) (d time.Duration) {
	for _, x := range all {
		d += x
	}
	return d
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
