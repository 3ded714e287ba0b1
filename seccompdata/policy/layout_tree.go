package policy

import "github.com/kjit-project/kjit/bpf"

// treeLeaf is how many numbers are tested one behind the other below the search
// (as many as libseccomp with its optimization 2).
const treeLeaf = 4

// tree halves the list of numbers until few are left.
func (b *builder) tree(entries []entry, otherwise *node) *node {
	if len(entries) <= treeLeaf {
		return b.chain(entries, otherwise)
	}
	mid := len(entries) / 2
	upper := b.tree(entries[mid:], otherwise)
	lower := b.tree(entries[:mid], otherwise)
	return b.branch(bpf.JgeK, entries[mid].nr, upper, lower, false, none)
}
