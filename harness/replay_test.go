package harness

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// liar is a runner that is the interpreter but for one length of packet.
type liar struct {
	Interpreter
	wrong int
	runs  []int // lengths of the batches
}

func (l *liar) Name() string { return "liar" }

func (l *liar) Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []Outcome) ([]Outcome, error) {
	out, err := l.Interpreter.Run(prog, kind, inputs, out)
	for i, in := range inputs {
		if len(in.(*kernelabi.Skb).Packet) == l.wrong {
			out[i].Value++
		}
	}
	l.runs = append(l.runs, len(inputs))
	return out, err
}

func packets(n int) []kernelabi.Input {
	inputs := make([]kernelabi.Input, n)
	for i := range inputs {
		inputs[i] = kernelabi.NewSkb(make([]byte, i))
	}
	return inputs
}

var returnLength = bpf.Program{{Code: bpf.LdLen}, {Code: bpf.RetA}}

func TestReplay(t *testing.T) {
	l := &liar{Interpreter: *NewInterpreter(nil), wrong: 7}
	next := 0
	r := Replay{Program: returnLength, Runners: []Runner{NewInterpreter(nil), l}, Each: func(row *Row) error {
		if row.Index != next {
			t.Errorf("row %d came when %d was next", row.Index, next)
		}
		next++
		want := []Verdict{Agree, Agree}
		if row.Index == l.wrong {
			want[1] = Diverge
		}
		if d := cmp.Diff(want, row.Verdicts); d != "" {
			t.Errorf("packet %d (-want +got):\n%s", row.Index, d)
		}
		return nil
	}}
	n := maxBatch + 10
	tallies, err := r.Run(context.Background(), packets(n))
	if err != nil {
		t.Fatal(err)
	}
	want := []Tally{
		{Runner: "interpreter", Agree: n, Executed: uint64(2 * n)},
		{Runner: "liar", Agree: n - 1, Diverge: 1, Executed: uint64(2 * n)},
	}
	if d := cmp.Diff(want, tallies); d != "" {
		t.Errorf("tallies (-want +got):\n%s", d)
	}
	sum := 0
	for _, size := range l.runs {
		sum += size
	}
	if sum != n || l.runs[0] != firstBatch {
		t.Errorf("batches %v: want %d inputs in all, %d first", l.runs, n, firstBatch)
	}
}

// An interrupted replay tells what it had counted.
func TestReplayInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := Replay{Program: returnLength, Runners: []Runner{NewInterpreter(nil)}, Each: func(row *Row) error {
		cancel()
		return nil
	}}
	tallies, err := r.Run(ctx, packets(maxBatch+1))
	if err != context.Canceled || tallies[0].Agree != firstBatch {
		t.Errorf("got %+v, %v; want the first batch's tally and context.Canceled", tallies, err)
	}
}

// Every runner is judged by its own kernel's meaning: the kernels of this test
// disagree about a packet without a device, and both are right.
func TestReplayJudgesByOwnSemantics(t *testing.T) {
	old, err := kernelabi.ProfileByName("linux-3.10-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	skb := kernelabi.NewSkb(make([]byte, 20))
	skb.NoDevice = true
	prog := bpf.Program{{Code: bpf.LdImm, K: 5}, {Code: bpf.LdWAbs, K: bpf.ExtIfindex.K()}, {Code: bpf.RetK, K: 9}}
	r := Replay{Program: prog, Runners: []Runner{NewInterpreter(old), NewInterpreter(nil)}, Each: func(row *Row) error {
		if row.Want[0].Value != 0 || row.Want[1].Value != 5 {
			t.Errorf("want 0 (Linux 3.10) and 5 (today), got %v", row.Want)
		}
		return nil
	}}
	tallies, err := r.Run(context.Background(), []kernelabi.Input{skb})
	if err != nil || tallies[0].Agree != 1 || tallies[1].Agree != 1 {
		t.Errorf("got %+v, %v", tallies, err)
	}
}

func TestNextBatch(t *testing.T) {
	for _, tt := range []struct {
		desc       string
		size, want int
		took       time.Duration
	}{
		{"Quick batches grow.", 64, 256, time.Millisecond},
		{"They grow up to a bound.", 1024, 1024, time.Millisecond},
		{"Slow batches shrink.", 64, 16, time.Second},
		{"They shrink down to one input.", 1, 1, time.Minute},
		{"Others stay.", 64, 64, 100 * time.Millisecond},
	} {
		if got := nextBatch(tt.size, tt.took); got != tt.want {
			t.Errorf("%s got %d, want %d", tt.desc, got, tt.want)
		}
	}
}
