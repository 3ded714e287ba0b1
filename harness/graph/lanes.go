package graph

import (
	"cmp"
	"slices"
)

// lane is a vertical line beside the blocks, which all jumps to one target
// share.
type lane struct {
	to    int // block
	first int // the highest block that jumps there, or the target, if that is higher
	last  int // the lowest of them
	place int // from 0: the distance from the blocks
}

// lanes gives every target of a jump a lane, such that no two that are side by
// side for some block have the same place. Short ones come nearest. by tells
// the lane of a target.
func (g *Graph) lanes() (all []lane, by map[int]int) {
	ends := map[int]*lane{}
	for _, e := range g.Edges {
		if g.plain(e) {
			continue
		}
		l := ends[e.To]
		if l == nil {
			l = &lane{to: e.To, first: e.To, last: e.To}
			ends[e.To] = l
		}
		l.first, l.last = min(l.first, e.From), max(l.last, e.From)
	}
	for _, l := range ends {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b lane) int {
		return cmp.Or(cmp.Compare(a.last-a.first, b.last-b.first), cmp.Compare(a.to, b.to))
	})
	by = map[int]int{}
	for i := range all {
		l := &all[i]
		for taken := true; taken; {
			taken = slices.ContainsFunc(all[:i], func(o lane) bool {
				return o.place == l.place && o.first <= l.last && l.first <= o.last
			})
			if taken {
				l.place++
			}
		}
		by[l.to] = i
	}
	return all, by
}

// plain reports whether an edge needs no lane: it goes straight down.
func (g *Graph) plain(e Edge) bool { return e.To == e.From+1 }
