package policy

import "github.com/kjit-project/kjit/bpf"

// chain tests one number behind the other and jumps to a common return. This is
// what libseccomp does by default, in the order of priorities. A processor runs
// it in half the time of linear, as no jump is taken but the last.
func (b *builder) chain(entries []entry, otherwise *node) *node {
	sorted := byWeight(entries)
	next := otherwise
	for i := len(sorted) - 1; i >= 0; i-- {
		e := sorted[i]
		next = b.branch(bpf.JeqK, e.nr, e.leaf, next, false, e.rule)
	}
	return next
}
