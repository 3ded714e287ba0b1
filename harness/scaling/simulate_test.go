package scaling

import (
	"math"
	"testing"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
)

// free are costs in which only ranges cost anything.
func free(perRange time.Duration) *Costs {
	return &Costs{Range: []time.Duration{perRange}, Programs: 256, Bandwidth: math.Inf(1)}
}

func near(a, b, part float64) bool { return math.Abs(a-b) <= part*b }

func TestSimulate(t *testing.T) {
	c := free(100 * time.Millisecond)
	points := c.Simulate(40, 1, 2, 4, 256, 1024)
	if !near(points[0].Programs, 2560, 1e-9) || points[0].Efficiency != 1 {
		t.Errorf("one worker: %+v, want 2560 programs a second", points[0])
	}
	// The first epochs have 4, 8, ... ranges: nothing is left over for 2 and 4.
	if !near(points[1].Efficiency, 1, 1e-9) || !near(points[2].Efficiency, 1, 1e-9) {
		t.Errorf("2 and 4 workers: %+v", points[1:3])
	}
	// Short epochs at the beginning leave most of many workers without work; an
	// epoch never has more than 256 ranges.
	if points[3].Efficiency > 0.9 || points[4].Programs != points[3].Programs {
		t.Errorf("256 and 1024 workers: %+v", points[3:])
	}
	if bend := Bend(points); bend != 1024 {
		t.Errorf("it bends at %d workers", bend)
	}

	slow := free(100 * time.Millisecond)
	slow.Merge = 50 * time.Millisecond
	points = slow.Simulate(40, 1, 2, 8)
	// One coordinator that merges for 50 ms keeps two workers busy, and no more.
	if !near(points[2].Programs, points[1].Programs, 0.1) || points[2].Merging < 0.9 {
		t.Errorf("a slow coordinator: %+v", points)
	}

	far := free(100 * time.Millisecond)
	far.Begin, far.Bandwidth = []Begin{{Ranges: 1 << 20, Bytes: 100e6}}, 1e9
	if p := far.Simulate(40, 256)[0]; p.Fetching < 0.5 {
		t.Errorf("a large state: %+v", p)
	}
}

// A state grows with the ranges, until the corpus is full.
func TestBegin(t *testing.T) {
	const half = campaign.MaxCorpus / 2
	c := &Costs{Begin: []Begin{{4, half / 4, 20, 10, 200}, {16, half, 60, 20, 400}}}
	for _, test := range []struct {
		desc   string
		ranges uint64
		want   Begin
	}{
		{"before anything was found there is no state", 0, Begin{}},
		{"a measured epoch", 4, c.Begin[0]},
		{"a later measured epoch", 16, c.Begin[1]},
		{"half as many ranges again", 24, Begin{16, half, 90, 30, 600}},
		{"a full corpus", 256, Begin{16, half, 120, 40, 800}},
	} {
		if got := c.begin(test.ranges); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.desc, got, test.want)
		}
	}
}

// The costs of a real campaign are all found out.
func TestMeasure(t *testing.T) {
	s := campaign.Default()
	s.Size = 8
	c, err := Measure(t.Context(), s, 6)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Range) != 12 || c.ResultBytes == 0 || len(c.Begin) != 2 || c.Begin[0].Bytes == 0 || c.Begin[1].Bytes <= c.Begin[0].Bytes {
		t.Errorf("%+v", c)
	}
	for i, d := range c.Range {
		if d <= 0 {
			t.Errorf("range %d took %v", i, d)
		}
	}
}
