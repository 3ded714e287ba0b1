package policy

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// decision builds the part of a filter that decides a call by its arguments. It
// follows what tests have already told about the words, so that none is asked
// whose answer is known, and no word is loaded that is in A.
type decision struct {
	graph    *graph
	rules    []decider
	fallback *node          // where no rule decides
	last     map[test]int   // the last rule that makes a test
	lastOf   map[uint32]int // the last rule that asks about the word at an offset
	learns   bool
	made     map[string]*node
	visits   int
}

// decider is a rule with conditions.
type decider struct {
	rule       int
	ret        *node
	conditions [][]step
}

// maxVisits bounds the work for one call. Rules that ask about different words
// in turn can lead to more states of knowledge than a program has instructions;
// then the tests are made in order, with no regard to what is known.
const maxVisits = bpf.MaxInsns

// nothing is an offset that no word has: A holds none.
const nothing = ^uint32(0)

// decide returns the graph that decides among the rules of a call. It counts on
// nothing in A.
func decide(g *graph, abi *seccompdata.ABI, rules []Rule, order []int, fallback *node) *node {
	d := &decision{graph: g, fallback: fallback, last: map[test]int{}, lastOf: map[uint32]int{}, learns: true, made: map[string]*node{}}
	for n, i := range order {
		r := rules[i]
		// The order of conditions in a rule means nothing: in the order of the
		// arguments rules have more in common.
		sorted := slices.Clone(r.Conditions)
		slices.SortStableFunc(sorted, func(a, b Condition) int { return cmp.Compare(a.Arg, b.Arg) })
		dec := decider{rule: i, ret: g.ret(r.Ret, i)}
		for _, c := range sorted {
			steps := c.steps()
			for _, s := range steps {
				d.last[s.test], d.lastOf[s.off] = n, n
			}
			dec.conditions = append(dec.conditions, steps)
		}
		d.rules = append(d.rules, dec)
	}
	known := knowledge{}
	if abi.Bits == 32 {
		for arg := range uint32(6) {
			known[seccompdata.OffArgs+8*arg+4] = word{}
		}
	}
	start := position{}
	n := d.at(start, known, nothing)
	if d.visits > maxVisits {
		d.learns, d.visits, d.made = false, 0, map[string]*node{}
		n = d.at(start, known, nothing)
	}
	return n
}

// position is a step of a condition of a rule.
type position struct{ rule, condition, step int }

// next is the position behind a step that ends with to.
func (p position) next(to int) position {
	switch to {
	case holds:
		return position{p.rule, p.condition + 1, 0}
	case fails:
		return position{p.rule + 1, 0, 0}
	}
	return position{p.rule, p.condition, to}
}

// at returns the node to go on with at a position, with what is known and the
// word that is in A.
func (d *decision) at(p position, known knowledge, inA uint32) *node {
	if p.rule == len(d.rules) {
		return d.fallback
	}
	r := d.rules[p.rule]
	if p.condition == len(r.conditions) {
		return r.ret
	}
	s := r.conditions[p.condition][p.step]
	if yes, sure := known.answer(s.test); sure {
		to := s.no
		if yes {
			to = s.yes
		}
		return d.at(p.next(to), known, inA)
	}
	key := d.key(p, known, inA)
	if n, ok := d.made[key]; ok {
		return n
	}
	d.visits++
	if d.learns && d.visits > maxVisits {
		return d.fallback // thrown away
	}
	knownYes, knownNo := known, known
	if d.learns {
		again := d.last[s.test] > p.rule
		knownYes, knownNo = known.with(s.test, true, again), known.with(s.test, false, again)
	}
	left := s.off // in A behind the test
	if s.masks() {
		left = nothing
	}
	yes := d.at(p.next(s.yes), knownYes, left)
	no := d.at(p.next(s.no), knownNo, left)
	n := d.ask(s.test, yes, no, r.rule)
	// Even where nothing is asked, what follows may count on the word in A.
	if inA != s.off && (n != yes || left == s.off && n.code != bpf.RetK && n.code != bpf.LdWAbs) {
		n = d.graph.load(s.off, n, r.rule)
	}
	d.made[key] = n
	return n
}

// ask makes the instructions of a test, with the word in A.
func (d *decision) ask(t test, yes, no *node, rule int) *node {
	if yes == no {
		return yes
	}
	branch := func(code uint16, k uint32, yes, no *node) *node {
		return d.graph.branch(code, k, yes, no, false, rule)
	}
	switch {
	case t.op == isAbove:
		return branch(bpf.JgtK, t.k, yes, no)
	case t.op == isFrom:
		return branch(bpf.JgeK, t.k, yes, no)
	case t.mask == ^uint32(0):
		return branch(bpf.JeqK, t.k, yes, no)
	case t.k == 0:
		return branch(bpf.JsetK, t.mask, no, yes)
	case t.k == t.mask && oneBit(t.mask):
		return branch(bpf.JsetK, t.mask, yes, no)
	}
	return d.graph.node(node{code: bpf.AndK, k: t.mask, yes: branch(bpf.JeqK, t.k, yes, no), rule: rule})
}

// masks reports whether the test needs an instruction that changes A.
func (t test) masks() bool {
	return t.op == isEqual && t.mask != ^uint32(0) && t.k != 0 && !(t.k == t.mask && oneBit(t.mask))
}

// compareFacts gives the same knowledge the same form, however it was come by.
func compareFacts(x, y fact) int {
	return cmp.Or(cmp.Compare(x.mask, y.mask), cmp.Compare(x.k, y.k))
}

// knowledge is what is known of words; of those that are missing nothing is.
type knowledge map[uint32]word

// word is what is known of a word: it is in an interval, and tests for equality
// that were made. The zero word is 0.
type word struct {
	low, high uint32 // both included
	facts     []fact
}

type fact struct {
	mask, k uint32
	equal   bool
}

func (kn knowledge) word(off uint32) word {
	if w, ok := kn[off]; ok {
		return w
	}
	return word{high: ^uint32(0)}
}

// answer is the answer to a test, if it is sure.
func (kn knowledge) answer(t test) (yes, sure bool) {
	w := kn.word(t.off)
	switch t.op {
	case isAbove:
		return w.low > t.k, w.low > t.k || w.high <= t.k
	case isFrom:
		return w.low >= t.k, w.low >= t.k || w.high < t.k
	}
	switch {
	case t.k&^t.mask != 0:
		return false, true
	case t.mask == 0:
		return true, true
	case w.low == w.high:
		return w.low&t.mask == t.k, true
	case t.mask == ^uint32(0) && (t.k < w.low || t.k > w.high):
		return false, true
	}
	for _, f := range w.facts {
		switch {
		case f.mask == t.mask && f.k == t.k:
			return f.equal, true
		case f.equal && (f.k^t.k)&f.mask&t.mask != 0:
			return false, true
		case f.equal && t.mask&^f.mask == 0:
			return f.k&t.mask == t.k, true
		}
	}
	return false, false
}

// with adds the answer to a test. A no is of use only where the test is made
// again.
func (kn knowledge) with(t test, yes, again bool) knowledge {
	w := kn.word(t.off)
	switch {
	case t.op == isAbove && yes:
		w.low = max(w.low, t.k+1) // no overflow: nothing is above the largest
	case t.op == isAbove:
		w.high = min(w.high, t.k)
	case t.op == isFrom && yes:
		w.low = max(w.low, t.k)
	case t.op == isFrom:
		w.high = min(w.high, t.k-1) // everything is from 0 on
	case t.mask == ^uint32(0) && yes:
		w.low, w.high = t.k, t.k
	case yes || again:
		f := fact{t.mask, t.k, yes}
		i, _ := slices.BinarySearchFunc(w.facts, f, compareFacts)
		w.facts = slices.Insert(slices.Clone(w.facts), i, f)
	}
	out := maps.Clone(kn)
	out[t.off] = w
	return out
}

// key is the same for all states from which the rest of a decision is the same:
// a position, the word in A, and knowledge that answers the tests still to come
// alike.
func (d *decision) key(p position, kn knowledge, inA uint32) string {
	var b []byte
	put := func(words ...uint32) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
	}
	put(uint32(p.rule), uint32(p.condition), uint32(p.step), inA)
	for off := uint32(seccompdata.OffArgs); off < seccompdata.Size; off += 4 {
		w, ok := kn[off]
		if !ok || d.lastOf[off] < p.rule {
			continue
		}
		put(off, w.low, w.high)
		for _, f := range w.facts {
			switch {
			case f.equal:
				put(f.mask, f.k, 1)
			case d.last[test{off, isEqual, f.k, f.mask}] >= p.rule:
				put(f.mask, f.k, 0)
			}
		}
	}
	return string(b)
}
