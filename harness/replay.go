package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// A batch is the inputs that go through all runners at a time. Large ones make
// the emulator's batch driver pay; where inputs are slow, because code loops
// until its budget is used up, small ones keep progress moving and interrupts
// served.
const (
	firstBatch = 64
	maxBatch   = 1024

	quickBatch = 20 * time.Millisecond
	slowBatch  = 200 * time.Millisecond
)

// nextBatch is the size of the batch after one of the given size that took as
// long.
func nextBatch(size int, took time.Duration) int {
	switch {
	case took < quickBatch:
		return min(size*4, maxBatch)
	case took > slowBatch:
		return max(size/4, 1)
	}
	return size
}

// Replay runs one program over inputs in the reference and in every runner.
type Replay struct {
	Program bpf.Program
	Kind    bpf.Kind
	Runners []Runner

	// Each is called once per input, in order. The row is reused.
	Each func(*Row) error
}

// Row is all that is known of one input.
type Row struct {
	Runners  []string // their names
	Index    int      // of the input
	Input    kernelabi.Input
	Want     []Outcome // the reference for each runner, by its kernel's rules and semantics
	Got      []Outcome // one per runner
	Verdicts []Verdict // one per runner
}

// Tally counts verdicts of one runner.
type Tally struct {
	Runner    string `json:"runner"`
	Agree     int    `json:"agree"`
	Diverge   int    `json:"diverge"`
	Undefined int    `json:"undefined"`
	NotRun    int    `json:"not_run"`
	Why       string `json:"why,omitempty"`     // of the last that did not run
	Executed  uint64 `json:"executed"`          // guest instructions, all inputs
	Inexact   bool   `json:"inexact,omitempty"` // some of them could not be counted

	// StackUnaligned counts inputs for which a helper was called with a stack
	// that is not aligned to 8 bytes: information, known only where accesses are
	// checked.
	StackUnaligned int `json:"stack_unaligned,omitempty"`
}

func (t *Tally) count(v Verdict, got *Outcome) {
	t.Executed += got.Executed
	t.Inexact = t.Inexact || got.Inexact
	if got.StackUnaligned {
		t.StackUnaligned++
	}
	switch v {
	case Agree:
		t.Agree++
	case Diverge:
		t.Diverge++
	case Undefined:
		t.Undefined++
	case NotRun:
		t.NotRun++
		t.Why = got.Why
	}
}

// Run replays all inputs and returns one tally per runner. It stops early, with
// the tallies so far, when ctx ends.
func (r *Replay) Run(ctx context.Context, inputs []kernelabi.Input) ([]Tally, error) {
	references, refOf := r.references()
	want := make([][]Outcome, len(references))
	got := make([][]Outcome, len(r.Runners))
	tallies := make([]Tally, len(r.Runners))
	for i, runner := range r.Runners {
		tallies[i].Runner = runner.Name()
	}
	row := Row{
		Runners:  make([]string, len(r.Runners)),
		Want:     make([]Outcome, len(r.Runners)),
		Got:      make([]Outcome, len(r.Runners)),
		Verdicts: make([]Verdict, len(r.Runners)),
	}
	for i := range tallies {
		row.Runners[i] = tallies[i].Runner
	}
	size := firstBatch
	for start := 0; start < len(inputs); {
		if err := ctx.Err(); err != nil {
			return tallies, err
		}
		began := time.Now()
		part := inputs[start:min(start+size, len(inputs))]
		for i, ref := range references {
			var err error
			if want[i], err = ref.Run(r.Program, r.Kind, part, want[i][:0]); err != nil {
				return tallies, err
			}
		}
		for i, runner := range r.Runners {
			var err error
			if got[i], err = runner.Run(r.Program, r.Kind, part, got[i][:0]); err != nil {
				return tallies, fmt.Errorf("%s: %w", runner.Name(), err)
			}
		}
		for n, in := range part {
			row.Index, row.Input = start+n, in
			for i := range r.Runners {
				row.Want[i], row.Got[i] = want[refOf[i]][n], got[i][n]
				row.Verdicts[i] = Compare(row.Want[i], row.Got[i])
				tallies[i].count(row.Verdicts[i], &row.Got[i])
			}
			if r.Each != nil {
				if err := r.Each(&row); err != nil {
					return tallies, err
				}
			}
		}
		start += len(part)
		size = nextBatch(size, time.Since(began))
	}
	return tallies, nil
}

// references returns one interpreter per set of rules and semantics that the
// runners' kernels have, and for each runner the index of its own.
func (r *Replay) references() (refs []*Interpreter, of []int) {
	type meaning struct {
		rules     string
		semantics kernelabi.Semantics
	}
	index := map[meaning]int{}
	for _, runner := range r.Runners {
		p := runner.Profile()
		m := meaning{p.Rules.Name, p.Semantics}
		i, ok := index[m]
		if !ok {
			i = len(refs)
			index[m] = i
			refs = append(refs, NewInterpreter(p))
		}
		of = append(of, i)
	}
	return refs, of
}
