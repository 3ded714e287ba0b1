package policy

import (
	"math"

	"github.com/kjit-project/kjit/bpf"
)

// span is a range of numbers with one result; it ends where the next begins.
type span struct {
	low    uint32
	leaf   *node
	weight float64
	rule   int
}

// ranges joins neighbours that have the same result and searches among what is
// left. Without a histogram the search halves the list; with one it is the
// search with the least expected number of tests.
func (b *builder) ranges(zones []zone) *node {
	spans := spansOf(zones)
	total := 0.0
	for _, s := range spans {
		total += s.weight
	}
	if total == 0 || len(spans) > maxOptimal {
		return b.search(spans, func(low, high int) int { return (low + high + 1) / 2 })
	}
	return b.search(spans, optimal(spans, total))
}

// spansOf cuts the numbers into spans, in ascending order from 0 on.
func spansOf(zones []zone) []span {
	var out []span
	add := func(s span) {
		last := len(out) - 1
		if last >= 0 && out[last].leaf == s.leaf {
			out[last].weight += s.weight
			if out[last].rule != s.rule {
				out[last].rule = none
			}
			return
		}
		out = append(out, s)
	}
	for _, z := range zones {
		low := uint64(z.low)
		for _, e := range z.entries {
			if low < uint64(e.nr) {
				add(span{uint32(low), z.leaf, 0, none})
			}
			add(span{e.nr, e.leaf, e.weight, e.rule})
			low = uint64(e.nr) + 1
		}
		if low <= uint64(z.high) {
			add(span{uint32(low), z.leaf, 0, none})
		}
	}
	return out
}

// search makes a binary search. split returns for the spans low to high, both
// included, the first one of the upper part.
func (b *builder) search(spans []span, split func(low, high int) int) *node {
	var build func(low, high int) *node
	build = func(low, high int) *node {
		if low == high {
			return spans[low].leaf
		}
		mid := split(low, high)
		rule := none
		if mid == high {
			rule = spans[high].rule
		}
		return b.branch(bpf.JgeK, spans[mid].low, build(mid, high), build(low, mid-1), false, rule)
	}
	return build(0, len(spans)-1)
}

// maxOptimal bounds the work of optimal, which grows with the square. No
// architecture has as many calls.
const maxOptimal = 1500

// optimal finds the best splits by dynamic programming (Knuth 1971, Optimum
// binary search trees; here the weights are at the leaves alone). Spans that the
// histogram does not have get a little weight, so that their search is balanced.
func optimal(spans []span, total float64) func(low, high int) int {
	n := len(spans)
	little := total / 1e6 / float64(n)
	sums := make([]float64, n+1)
	for i, s := range spans {
		sums[i+1] = sums[i] + s.weight + little
	}
	cost := make([][]float64, n) // cost[low][high-low]
	at := make([][]int32, n)
	for i := range cost {
		cost[i], at[i] = make([]float64, n-i), make([]int32, n-i)
		at[i][0] = int32(i)
	}
	for size := 1; size < n; size++ {
		for low := 0; low+size < n; low++ {
			high := low + size
			least, where := math.Inf(1), low+1
			// The best split does not move against the interval.
			from, to := max(int(at[low][size-1]), low+1), int(at[low+1][size-1])
			for mid := from; mid <= max(to, from); mid++ {
				if c := cost[low][mid-1-low] + cost[mid][high-mid]; c < least {
					least, where = c, mid
				}
			}
			cost[low][size], at[low][size] = least+sums[high+1]-sums[low], int32(where)
		}
	}
	return func(low, high int) int { return int(at[low][high-low]) }
}
