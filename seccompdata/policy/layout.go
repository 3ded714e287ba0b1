package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// Layout is an order of tests; all give the same verdicts.
type Layout string

const (
	Linear Layout = "linear" // a comparison and a return for each call
	Chain  Layout = "chain"  // comparisons that fall through to the next, and share their returns
	Tree   Layout = "tree"   // a balanced binary search for the number, with short chains as leaves
	Ranges Layout = "ranges" // a binary search among ranges of numbers with equal results
	Best   Layout = "best"   // of the others the one with the least expected cost
)

// Layouts returns all, Best last.
func Layouts() []Layout { return []Layout{Linear, Chain, Tree, Ranges, Best} }

// layouts make the graph that finds the leaf of a number, which is in A.
var layouts = map[Layout]func(*builder, []zone) *node{
	Linear: func(b *builder, zones []zone) *node { return b.byZone(zones, b.linear) },
	Chain:  func(b *builder, zones []zone) *node { return b.byZone(zones, b.chain) },
	Tree:   func(b *builder, zones []zone) *node { return b.byZone(zones, b.tree) },
	Ranges: (*builder).ranges,
}

// byZone finds the zone, and in it the number. The first zone has the calls
// that matter and costs one test.
func (b *builder) byZone(zones []zone, find func([]entry, *node) *node) *node {
	first := find(zones[0].entries, zones[0].leaf)
	if len(zones) == 1 {
		return first
	}
	return b.branch(bpf.JgeK, zones[1].low, b.byZone(zones[1:], find), first, false, none)
}

// byWeight returns entries with the most frequent call first; calls that are
// equally frequent, or of which nothing is known, are in ascending order.
func byWeight(entries []entry) []entry {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(x, y entry) int { return cmp.Compare(y.weight, x.weight) })
	return sorted
}

// best compiles all layouts and takes the cheapest, or of equally cheap ones the
// shortest.
func best(p *Policy, o CompileOptions) (*Compiled, error) {
	var least *Compiled
	var cost float64
	var errs []error
	for _, layout := range Layouts() {
		if layout == Best {
			continue
		}
		o.Layout = layout
		c, err := Compile(p, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		mean, err := p.meanCost(c.Program, o.Histogram)
		if err != nil {
			return nil, err
		}
		if least == nil || mean < cost || mean == cost && len(c.Program) < len(least.Program) {
			least, cost = c, mean
		}
	}
	if least == nil {
		return nil, errors.Join(errs...)
	}
	return least, nil
}

func join[T ~string](things []T) string {
	var out []string
	for _, t := range things {
		out = append(out, string(t))
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return fmt.Sprintf("%s or %s", strings.Join(out[:len(out)-1], ", "), out[len(out)-1])
}
