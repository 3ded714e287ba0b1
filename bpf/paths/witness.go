package paths

import (
	"fmt"
	"math/rand/v2"
)

// Answer says what is known of a condition.
type Answer uint8

const (
	Unknown    Answer = iota // the search found no input, there may be one
	Found                    // there is an input
	Impossible               // there is none
)

func (a Answer) String() string {
	switch a {
	case Found:
		return "found"
	case Impossible:
		return "impossible"
	}
	return "unknown"
}

// MarshalText writes "found", "impossible" or "unknown".
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (a *Answer) UnmarshalText(text []byte) error {
	for _, known := range []Answer{Unknown, Found, Impossible} {
		if known.String() == string(text) {
			*a = known
			return nil
		}
	}
	return fmt.Errorf("answer %q: want found, impossible or unknown", text)
}

// Witness returns an input in c, one with low values. Without atoms the answer
// is always Found or Impossible. With atoms, values are tried for one word
// after the other until the atoms are conditions on a single word, which are
// exact. A space has a bound on what it tries altogether, beyond which the answer
// is Unknown.
func (s *Space) Witness(c Cond) (in Words, answer Answer) {
	w := search{s: s, rand: rand.New(rand.NewPCG(1, 2)), tries: min(1000, s.tries)}
	before := w.tries
	in = Words{}
	answer = w.solve(c, in)
	s.tries -= before - max(w.tries, 0)
	return in, answer
}

// defaultTries bounds the values that are tried in a space.
const defaultTries = 20_000

type search struct {
	s     *Space
	rand  *rand.Rand
	tries int
}

// few is how many values of a word are tried one and all, so that there can be
// the answer that nothing is possible; of more than that a sample is taken.
const (
	few    = 64
	sample = 24
)

// solve sets words in in, those that the answer depends on.
func (w *search) solve(c Cond, in Words) Answer {
	if c == Never {
		return Impossible
	}
	atoms := w.s.atomsOf(c)
	if len(atoms) == 0 {
		w.s.lowest(c, in)
		return Found
	}
	word, possible, count := w.tightest(c, atoms)
	all := count <= few
	for _, value := range w.candidates(possible, word, all) {
		if w.tries--; w.tries < 0 {
			return Unknown
		}
		switch w.solve(w.s.Substitute(c, word, value), in) {
		case Found:
			in[word] = value
			return Found
		case Unknown:
			all = false
		}
	}
	if all {
		return Impossible
	}
	return Unknown
}

// tightest returns the word in the atoms that has the fewest values in c, and
// those: the word that is left to the end, which is exact, should have many.
func (w *search) tightest(c Cond, atoms []uint32) (word uint32, possible Cond, count uint64) {
	count = 1<<64 - 1
	seen := map[uint32]bool{} // often two atoms compare the same words
	for _, level := range atoms {
		for _, off := range w.s.atoms[level-atomLevel].words() {
			if seen[off] {
				continue
			}
			seen[off] = true
			values := w.s.Project(c, off)
			if n := w.s.Count(values, off); n < count {
				word, possible, count = off, values, n
			}
		}
	}
	return word, possible, count
}

// candidates are values of the word to try: all, or some at the edges and some
// at random.
func (w *search) candidates(possible Cond, word uint32, all bool) []uint32 {
	var out []uint32
	if all {
		runs, _ := w.s.Runs(possible, word, few)
		for _, r := range runs {
			for v := uint64(r.Lo); v <= uint64(r.Hi); v++ {
				out = append(out, uint32(v))
			}
		}
		return out
	}
	for _, v := range w.s.Marks(possible, word, sample) {
		if w.s.Holds(possible, Words{word: v}) {
			out = append(out, v)
		}
	}
	for range sample {
		out = append(out, w.random(possible, word))
	}
	return out
}

// random returns some value of the word in c, not each with the same chance.
func (w *search) random(c Cond, word uint32) uint32 {
	value := w.rand.Uint32()
	if w.rand.IntN(2) == 0 {
		value >>= w.rand.IntN(32)
	}
	base := w.s.base(word)
	for c != Always {
		n := w.s.nodes[c]
		bit := uint32(1) << (31 - (n.level - base))
		switch {
		case n.lo == Never:
			value |= bit
		case n.hi == Never:
			value &^= bit
		}
		if c = n.lo; value&bit != 0 {
			c = n.hi
		}
	}
	return value
}

// Project returns the values that the words have anywhere in c: a condition on
// them alone. Other words, and atoms, may be as c needs them.
func (s *Space) Project(c Cond, words ...uint32) Cond {
	keep := map[uint32]bool{}
	for _, word := range words {
		keep[s.base(word)/32] = true
	}
	return s.rewrite(c, func(n node, lo, hi Cond) Cond {
		if n.level >= atomLevel || !keep[n.level/32] {
			return s.Or(lo, hi)
		}
		return s.node(n.level, lo, hi)
	})
}

// Substitute returns c for inputs whose word at off is value, the word in atoms
// replaced, too.
func (s *Space) Substitute(c Cond, off, value uint32) Cond {
	c = s.Fix(c, off, 1<<32-1, value)
	for _, level := range s.atomsOf(c) {
		a := s.atoms[level-atomLevel]
		l, r := s.substitute(a.l, off, value), s.substitute(a.r, off, value)
		if l == a.l && r == a.r {
			continue
		}
		p := s.Compare(a.code, l, r)
		c = s.Or(s.And(s.cofactor(c, level, 1), p), s.AndNot(s.cofactor(c, level, 0), p))
	}
	return c
}

// cofactor returns c where the variable has the given value.
func (s *Space) cofactor(c Cond, level uint32, value int) Cond {
	return s.rewrite(c, func(n node, lo, hi Cond) Cond {
		switch {
		case n.level != level:
			return s.node(n.level, lo, hi)
		case value == 0:
			return lo
		}
		return hi
	})
}

// lowest sets the words of an input in c, which is not Never and has no atoms.
// Each gets the least value there is after the words before it.
func (s *Space) lowest(c Cond, in Words) {
	for c != Always {
		n := s.nodes[c]
		off, bit := s.words[n.level/32], uint32(1)<<(31-n.level%32)
		if n.lo != Never {
			c = n.lo
			continue
		}
		in[off] |= bit
		c = n.hi
	}
}
