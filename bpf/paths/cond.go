package paths

import "math/bits"

// Cond is a set of inputs: a condition on the words of the input, exact. It
// belongs to the [Space] that made it, where equal sets are equal Conds.
//
// It is a node of a reduced ordered binary decision diagram. The variables are
// the bits of the words, word after word and each from its most significant
// bit; those of a word that a program compares hundreds of times are thus one
// automaton that reads the word from the top, and a masked comparison is an
// automaton that does not look at the other bits. Behind them come the atoms,
// one variable for each comparison that is no condition on a single word.
type Cond uint32

// The two conditions that every space has.
const (
	Never  Cond = 0
	Always Cond = 1
)

// node is a decision: lo where the variable is 0, hi where it is 1.
type node struct {
	level  uint32
	lo, hi Cond
}

// terminal is the level of Never and Always, below all variables.
const terminal = 1<<32 - 1

// diagram holds the nodes, each once.
type diagram struct {
	nodes []node
	table []Cond // open addressing, by hash of the node; 0 is free
	cache []cached
	limit int
	work  int // decisions looked at
}

// maxWork bounds what is done in a space, to a minute or so.
const maxWork = 1 << 30

func (d *diagram) spend() {
	if d.work++; d.work > maxWork {
		panic(&LimitError{"steps", maxWork})
	}
}

type cached struct {
	op, a, b, result Cond
}

func newDiagram(limit int) diagram {
	return diagram{
		nodes: []node{{level: terminal}, {level: terminal}},
		table: make([]Cond, 1<<10),
		cache: make([]cached, 1<<12),
		limit: limit,
	}
}

func hash(a, b, c uint32) uint32 {
	h := uint64(a)*0x9e3779b97f4a7c15 ^ uint64(b)*0xc2b2ae3d27d4eb4f ^ uint64(c)*0x165667b19e3779f9
	return uint32(bits.RotateLeft64(h, 29) * 0x9e3779b97f4a7c15 >> 32)
}

// node returns the condition that is lo where the variable is 0, hi where it
// is 1. Both must be decided by later variables only.
func (d *diagram) node(level uint32, lo, hi Cond) Cond {
	if lo == hi {
		return lo
	}
	n := node{level, lo, hi}
	i := d.slot(n)
	if c := d.table[i]; c != 0 {
		return c
	}
	if len(d.nodes) >= d.limit {
		panic(&LimitError{"nodes of the decision diagram", d.limit})
	}
	c := Cond(len(d.nodes))
	d.nodes = append(d.nodes, n)
	d.table[i] = c
	if 2*len(d.nodes) > len(d.table) {
		d.grow()
	}
	return c
}

func (d *diagram) slot(n node) int {
	i := int(hash(n.level, uint32(n.lo), uint32(n.hi))) & (len(d.table) - 1)
	for d.table[i] != 0 && d.nodes[d.table[i]] != n {
		i = (i + 1) & (len(d.table) - 1)
	}
	return i
}

func (d *diagram) grow() {
	d.table = make([]Cond, 2*len(d.table))
	for c := 2; c < len(d.nodes); c++ {
		d.table[d.slot(d.nodes[c])] = Cond(c)
	}
	if len(d.cache) < 1<<18 {
		d.cache = make([]cached, len(d.table))
	}
}

// The operations of apply. The cache knows them by number, 0 being an entry
// that is free.
const (
	opAnd Cond = iota + 1
	opOr
	opAndNot
)

// And returns the inputs that are in a and in b.
func (d *diagram) And(a, b Cond) Cond { return d.apply(opAnd, a, b) }

// Or returns the inputs that are in a or in b.
func (d *diagram) Or(a, b Cond) Cond { return d.apply(opOr, a, b) }

// AndNot returns the inputs that are in a and not in b.
func (d *diagram) AndNot(a, b Cond) Cond { return d.apply(opAndNot, a, b) }

// Not returns the inputs that are not in a.
func (d *diagram) Not(a Cond) Cond { return d.apply(opAndNot, Always, a) }

// Size returns the number of nodes made so far.
func (d *diagram) Size() int { return len(d.nodes) }

func (d *diagram) apply(op, a, b Cond) Cond {
	switch op {
	case opAnd:
		switch {
		case a == Never || b == Never:
			return Never
		case a == Always || a == b:
			return b
		case b == Always:
			return a
		}
	case opOr:
		switch {
		case a == Always || b == Always:
			return Always
		case a == Never || a == b:
			return b
		case b == Never:
			return a
		}
	case opAndNot:
		switch {
		case a == Never || b == Always || a == b:
			return Never
		case b == Never:
			return a
		}
	}
	d.spend()
	if op != opAndNot && a > b {
		a, b = b, a
	}
	at := hash(uint32(op), uint32(a), uint32(b))
	if e := d.cache[int(at)&(len(d.cache)-1)]; e.op == op && e.a == a && e.b == b {
		return e.result
	}
	na, nb := d.nodes[a], d.nodes[b]
	level := min(na.level, nb.level)
	aLo, aHi, bLo, bHi := a, a, b, b
	if na.level == level {
		aLo, aHi = na.lo, na.hi
	}
	if nb.level == level {
		bLo, bHi = nb.lo, nb.hi
	}
	lo := d.apply(op, aLo, bLo)
	result := d.node(level, lo, d.apply(op, aHi, bHi))
	d.cache[int(at)&(len(d.cache)-1)] = cached{op, a, b, result}
	return result
}

// rewrite returns c with every decision replaced by what step makes of it: step
// gets the node and the two rewritten conditions.
func (d *diagram) rewrite(c Cond, step func(n node, lo, hi Cond) Cond) Cond {
	done := map[Cond]Cond{Never: Never, Always: Always}
	var walk func(Cond) Cond
	walk = func(c Cond) Cond {
		if r, ok := done[c]; ok {
			return r
		}
		d.spend()
		n := d.nodes[c]
		lo := walk(n.lo)
		r := step(n, lo, walk(n.hi))
		done[c] = r
		return r
	}
	return walk(c)
}

// levels calls visit with the level of every decision in c, some several times.
func (d *diagram) levels(c Cond, visit func(level uint32)) {
	seen := map[Cond]bool{Never: true, Always: true}
	for todo := []Cond{c}; len(todo) > 0; {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[c] {
			continue
		}
		seen[c] = true
		d.spend()
		n := d.nodes[c]
		visit(n.level)
		todo = append(todo, n.lo, n.hi)
	}
}
