package scaling

import (
	"container/heap"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Point is what a number of workers comes to.
type Point struct {
	Workers    int     `json:"workers"`
	Programs   float64 `json:"programs_a_second"`
	Efficiency float64 `json:"efficiency"` // of that number times what one worker does
	Waiting    float64 `json:"waiting"`    // part of the workers' time in which they wait for the end of an epoch
	Fetching   float64 `json:"fetching"`   // part in which they get the state of the next
	Merging    float64 `json:"merging"`    // part of the time in which the coordinator merges
}

// Simulate plays the first so many epochs of a campaign on each number of
// workers. Ranges cost what the measured ones did, in turn; a worker takes the
// next range when it is free; results are merged one at a time; everybody waits
// for the end of an epoch and then gets its state from the coordinator.
func (c *Costs) Simulate(epochs uint64, workers ...int) []Point {
	points := make([]Point, len(workers))
	one := 0.0
	for i, n := range append([]int{1}, workers...) {
		p := c.play(epochs, n)
		if i == 0 {
			one = p.Programs
			continue
		}
		p.Efficiency = p.Programs / (one * float64(n))
		points[i-1] = p
	}
	return points
}

func (c *Costs) play(epochs uint64, workers int) Point {
	var now, waiting, fetching, merging time.Duration
	ranges := uint64(0)
	for e := range epochs {
		first, end := campaign.EpochRanges(e)
		b := c.begin(first)
		// All workers ask for the state at once and share the line.
		transfer := time.Duration(float64(b.Bytes) * float64(workers) / c.Bandwidth * float64(time.Second))
		start := now + c.RoundTrip + transfer + b.Start
		fetching += time.Duration(workers) * (start - now)
		free := make(clock, workers)
		for i := range free {
			free[i] = start
		}
		coordinator, last := start, start
		for r := first; r < end; r++ {
			done := free[0] + c.Range[r%uint64(len(c.Range))] + time.Duration(c.Messages)*c.RoundTrip/2
			free[0] = done
			heap.Fix(&free, 0)
			// Merging overlaps with what the workers do, until the epoch ends.
			coordinator = max(coordinator, done) + c.Merge + time.Duration(float64(c.ResultBytes)/c.Bandwidth*float64(time.Second))
			merging += c.Merge
			last = max(last, coordinator)
		}
		last += c.begin(end).Freeze
		for _, t := range free {
			waiting += last - t
		}
		now, ranges = last, ranges+end-first
	}
	all := now * time.Duration(workers)
	return Point{
		Workers: workers, Programs: float64(ranges) * float64(c.Programs) / now.Seconds(),
		Waiting: float64(waiting) / float64(all), Fetching: float64(fetching) / float64(all), Merging: float64(merging) / float64(now),
	}
}

// begin is what the beginning of an epoch behind so many ranges costs: what was
// measured, and behind that more with the ranges until the corpus is full.
func (c *Costs) begin(ranges uint64) Begin {
	if ranges == 0 || len(c.Begin) == 0 {
		return Begin{}
	}
	for _, b := range c.Begin {
		if b.Ranges >= ranges {
			return b
		}
	}
	b := c.Begin[len(c.Begin)-1]
	grown := float64(ranges) / float64(b.Ranges)
	if b.Corpus > 0 {
		grown = max(1, min(grown, campaign.MaxCorpus/float64(b.Corpus)))
	}
	b.Freeze = time.Duration(float64(b.Freeze) * grown)
	b.Start = time.Duration(float64(b.Start) * grown)
	b.Bytes = int(float64(b.Bytes) * grown)
	return b
}

// Bend returns the first number of workers that do less than half of what so
// many single ones would, 0 if there is none.
func Bend(points []Point) int {
	for _, p := range points {
		if p.Efficiency < 0.5 {
			return p.Workers
		}
	}
	return 0
}

// clock is when each worker is free, a heap.
type clock []time.Duration

func (c clock) Len() int           { return len(c) }
func (c clock) Less(i, j int) bool { return c[i] < c[j] }
func (c clock) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *clock) Push(any)          {} // of fixed length
func (c *clock) Pop() any          { return nil }
