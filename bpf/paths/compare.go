package paths

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// atom is a comparison that is no condition on a single word.
type atom struct {
	code uint16 // bpf.JeqX, JgtX or JsetX
	l, r *Expr
}

var symbols = map[uint16]string{bpf.JeqX: "==", bpf.JgtX: ">", bpf.JgeX: ">=", bpf.JsetX: "&"}

func (a atom) String() string { return fmt.Sprintf("%s %s %s", a.l, symbols[a.code], a.r) }

// words returns the offsets of the words that the atom depends on, each once.
func (a atom) words() []uint32 {
	words := a.l.Words()
	for _, word := range a.r.Words() {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

func (a atom) holds(in Words) bool { return holds(a.code, a.l.Eval(in), a.r.Eval(in)) }

func holds(code uint16, a, b uint32) bool {
	switch code {
	case bpf.JeqX:
		return a == b
	case bpf.JgtX:
		return a > b
	case bpf.JgeX:
		return a >= b
	}
	return a&b != 0
}

// Compare returns the inputs for which the jump with the given code, with K or
// X alike, is taken: l == r, l > r, l >= r (unsigned), l & r != 0.
func (s *Space) Compare(code uint16, l, r *Expr) Cond {
	code |= 0x08
	a, lConst := l.Const()
	b, rConst := r.Const()
	switch {
	case lConst && rConst:
		return constant(holds(code, a, b))
	case l == r && code == bpf.JsetX:
		return s.Not(s.Compare(bpf.JeqX, l, s.Const(0)))
	case l == r:
		return constant(code != bpf.JgtX)
	case rConst:
		if c, ok := s.pullBack(l, func(base uint32) Cond { return s.compared(base, code, b) }); ok {
			return c
		}
	case lConst:
		switch code {
		case bpf.JgtX: // a > r
			return s.Not(s.Compare(bpf.JgeX, r, l))
		case bpf.JgeX:
			return s.Not(s.Compare(bpf.JgtX, r, l))
		}
		return s.Compare(code, r, l)
	}
	return s.compareWords(code, l, r)
}

// compareWords makes atoms: one for l & r != 0. The order of two values is told
// by two, so that they cannot contradict each other: l > r, and, where that does
// not hold, l == r. It is always the younger value that is l.
func (s *Space) compareWords(code uint16, l, r *Expr) Cond {
	swapped := l.id < r.id
	if swapped {
		l, r = r, l
	}
	if code == bpf.JsetX {
		return s.atom(atom{code, l, r})
	}
	above := s.atom(atom{bpf.JgtX, l, r})
	equal := s.AndNot(s.atom(atom{bpf.JeqX, l, r}), above)
	switch {
	case code == bpf.JeqX:
		return equal
	case !swapped && code == bpf.JgtX:
		return above
	case !swapped:
		return s.Or(above, equal)
	case code == bpf.JgtX:
		return s.Not(s.Or(above, equal))
	}
	return s.Not(above)
}

func constant(b bool) Cond {
	if b {
		return Always
	}
	return Never
}

func (s *Space) atom(a atom) Cond {
	n, ok := s.known[a]
	if !ok {
		n = uint32(len(s.atoms))
		s.atoms = append(s.atoms, a)
		s.known[a] = n
	}
	return s.node(atomLevel+n, Never, Always)
}

// compared returns the values of the word at base for which the jump is taken.
func (s *Space) compared(base uint32, code uint16, k uint32) Cond {
	switch code {
	case bpf.JeqX:
		return s.interval(base, k, k)
	case bpf.JgtX:
		if k == 1<<32-1 {
			return Never
		}
		return s.interval(base, k+1, 1<<32-1)
	case bpf.JgeX:
		return s.interval(base, k, 1<<32-1)
	}
	c := Never
	for bit := uint32(0); bit < 32; bit++ {
		if k>>bit&1 != 0 {
			c = s.node(base+31-bit, c, Always)
		}
	}
	return c
}

// interval returns the values lo to hi of the word at base.
func (s *Space) interval(base, lo, hi uint32) Cond {
	from, to := Always, Always
	for bit := uint32(0); bit < 32; bit++ {
		level := base + 31 - bit
		if lo>>bit&1 != 0 {
			from = s.node(level, Never, from)
		} else {
			from = s.node(level, from, Always)
		}
		if hi>>bit&1 != 0 {
			to = s.node(level, Always, to)
		} else {
			to = s.node(level, to, Never)
		}
	}
	return s.And(from, to)
}

// Between returns the inputs whose word at off is lo to hi.
func (s *Space) Between(off, lo, hi uint32) Cond {
	if lo > hi {
		return Never
	}
	return s.interval(s.base(off), lo, hi)
}

// Is returns the inputs whose word at off is k.
func (s *Space) Is(off, k uint32) Cond { return s.Between(off, k, k) }

// Masked returns the inputs whose word at off has, in the bits of mask, those
// of k.
func (s *Space) Masked(off, mask, k uint32) Cond {
	return s.Compare(bpf.JeqX, s.Op(bpf.AndX, s.Word(off), s.Const(mask)), s.Const(k))
}

// pullBack returns the inputs for which e has a value in the set, which is
// given as a condition on the bits at the base that set is called with. ok is
// false if e is not one word changed by constants, or changed by a product or
// quotient that scatters the set too much.
func (s *Space) pullBack(e *Expr, set func(base uint32) Cond) (c Cond, ok bool) {
	word := e
	for word.op != opWord {
		if word = word.variable(); word == nil {
			return 0, false
		}
	}
	base := s.base(word.k)
	c = set(base)
	for ; e.op != opWord; e = e.variable() {
		switch e.op {
		case bpf.Neg: // -a = ^a + 1
			c = s.beforeXor(base, s.beforeAdd(base, c, 1), 1<<32-1)
		case bpf.AddX:
			c = s.beforeAdd(base, c, e.r.k)
		case bpf.XorX:
			c = s.beforeXor(base, c, e.r.k)
		case bpf.AndX:
			c = s.fix(base, c, ^e.r.k, 0)
		case bpf.OrX:
			c = s.fix(base, c, e.r.k, e.r.k)
		case bpf.LshX, bpf.RshX:
			switch {
			case e.l.op == opConst:
				c = s.beforeCount(base, c, e.op, e.l.k)
			case e.op == bpf.LshX:
				c = s.beforeShift(base, c, int(e.r.k))
			default:
				c = s.beforeShift(base, c, -int(e.r.k))
			}
		default:
			if c, ok = s.beforeScaled(base, c, e.op, e.r.k); !ok {
				return 0, false
			}
		}
	}
	return c, true
}

// variable returns the operand of an operation whose other operand is a
// constant, or nil if that is not so or the operation is one that sets cannot
// be followed through.
func (e *Expr) variable() *Expr {
	shift := e.op == bpf.LshX || e.op == bpf.RshX
	switch {
	case e.op == opConst:
		return nil
	case e.op == bpf.Neg || e.r.op == opConst:
		return e.l
	case shift && e.l.op == opConst:
		return e.r
	}
	return nil
}
