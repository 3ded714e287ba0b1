package selftest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/seccompdata"
)

var allow = bpf.Instruction{Code: bpf.RetK, K: uint32(seccompdata.Allow)}

// slow executes 4000 comparisons that the result cache does not save.
func slow() bpf.Program {
	prog := bpf.Program{{Code: bpf.LdWAbs, K: seccompdata.OffArgs}}
	for range 4000 {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, K: 7})
	}
	return append(prog, allow)
}

func timed(t *testing.T, chains [][]bpf.Program, samples int) *Times {
	t.Helper()
	times, err := Time(context.Background(), Getppid, chains, samples)
	var not *probe.UnavailableError
	if errors.As(err, &not) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return times
}

// The filters are in force: a slow one shows, and two of them show more. None of
// them is left on this process.
func TestFiltersAreInForce(t *testing.T) {
	before, err := ThisHost()
	if err != nil {
		t.Skip(err)
	}
	times := timed(t, [][]bpf.Program{{}, {slow()}, {slow(), slow()}}, 10*Block)
	none, one, two := times.Nanoseconds[0], times.Nanoseconds[1], times.Nanoseconds[2]
	t.Logf("%.1f, %.1f, %.1f ns on %s", none, one, two, before)
	if none <= 0 || one < none+100 || two < one+100 {
		t.Errorf("no filter %.1f ns, one %.1f, two %.1f: want each 100 more at least", none, one, two)
	}
	if times.Samples != 10*Block {
		t.Errorf("%d calls, want %d", times.Samples, 10*Block)
	}
	if after, err := ThisHost(); err != nil || after.Filters != before.Filters {
		t.Errorf("%d filters on this process before and %d after, %v", before.Filters, after.Filters, err)
	}
}

// Few calls are made as few, and short rests are not blocks of their own.
func TestSamples(t *testing.T) {
	for _, n := range []int{1, Block - 1, 2*Block + 1} {
		if times := timed(t, [][]bpf.Program{{}, {{allow}}}, n); times.Samples != n {
			t.Errorf("%d calls, want %d", times.Samples, n)
		}
	}
}

// What does not let the call pass is not attached.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		desc string
		prog bpf.Program
		want string
	}{
		{"A filter that denies the call.", bpf.Program{{Code: bpf.RetK, K: uint32(seccompdata.Errno) | 1}}, "ERRNO 1"},
		{"A program that is no filter.", bpf.Program{{Code: bpf.LdHAbs}, allow}, "filter 1"},
	} {
		if _, err := Time(context.Background(), Getppid, [][]bpf.Program{{{allow}, tt.prog}}, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v", tt.desc, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Time(ctx, Getppid, [][]bpf.Program{{}}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMerge(t *testing.T) {
	var total *Times
	for _, ns := range [][]float64{{3, 5}, {4, 2}, {3.5, 6}} {
		total = total.merge(&Times{Nanoseconds: slices.Clone(ns), Samples: 10})
	}
	if diff := cmp.Diff(&Times{Nanoseconds: []float64{3, 2}, Samples: 30}, total); diff != "" {
		t.Error(diff)
	}
}
