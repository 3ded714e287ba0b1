package policy

import "github.com/kjit-project/kjit/bpf"

// linear tests one number behind the other, and has the return of each call
// directly behind its test. It is long, but its instructions can be told apart
// by rule, and it is what people write by hand.
func (b *builder) linear(entries []entry, otherwise *node) *node {
	sorted := byWeight(entries)
	next := otherwise
	for i := len(sorted) - 1; i >= 0; i-- {
		e := sorted[i]
		leaf := e.leaf
		if leaf.code == bpf.RetK {
			own := *leaf
			own.rule = e.rule
			leaf = &own
		}
		next = b.branch(bpf.JeqK, e.nr, leaf, next, true, e.rule)
	}
	return next
}
