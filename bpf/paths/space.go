// Package paths executes classic BPF programs symbolically, and exactly: for
// all inputs at once it tells which instruction ends the program, with which
// value, and on which inputs.
//
// The programs are seccomp filters, whose input is a handful of 32-bit words.
// Nothing here depends on there being sixteen of them, nor on what they mean: a
// word is known by the offset that the program loads it from.
//
// A value in a register is an expression over the words ([Expr]). A comparison
// of one that is made of a single word by constants (masks, shifts, sums,
// divisions, most products) is an exact condition on that word. All others, as
// those between two words, become atoms: conditions of their own that nothing
// is known of, except that they are the same wherever they occur. What follows
// whatever the atoms are is still exact: a program is equal to another, an
// instruction is unreachable. Whether an input exists that makes atoms true is
// found out by [Space.Witness], which says when it does not know.
//
// [Space.Explore] merges: it follows all paths together, a state that several
// lead to once, so that its cost does not grow with the number of paths.
// [Space.Paths] enumerates them one by one.
package paths

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// Space is where conditions and expressions live. Programs that are to be
// compared are explored in one space. It belongs to one goroutine.
type Space struct {
	diagram
	words []uint32 // the offset of each, in the order of the variables
	rank  map[uint32]uint32
	exprs map[Expr]*Expr
	atoms []atom
	known map[atom]uint32 // index into atoms
	tries int             // left to searches
}

// defaultNodes bounds a space to some 100 MB. Docker's filters for three
// architectures need some ten thousand.
const defaultNodes = 1 << 22

// NewSpace returns a space in which conditions are decided by the words in the
// given order, by those not named behind them. The order decides how large
// conditions get, and what [Space.Split] splits by.
func NewSpace(order ...uint32) *Space {
	s := &Space{
		diagram: newDiagram(defaultNodes),
		rank:    map[uint32]uint32{},
		exprs:   map[Expr]*Expr{},
		known:   map[atom]uint32{},
		tries:   defaultTries,
	}
	for _, word := range order {
		s.base(word)
	}
	return s
}

// Limit lets the space hold at most so many nodes, 24 bytes or so each, where it
// is fine to give up early.
func (s *Space) Limit(nodes int) { s.limit = nodes }

// LimitError is given when an analysis would take too long or too much memory.
// No result of it is to be used.
type LimitError struct {
	What  string
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("gave up after %d %s: the program is too complex for an exact answer", e.Limit, e.What)
}

// Catch is deferred by callers that combine conditions themselves: operations
// of a space that is full panic with a *LimitError, which it stores in err.
func Catch(err *error) {
	if p := recover(); p != nil {
		limit, ok := p.(*LimitError)
		if !ok {
			panic(p)
		}
		*err = limit
	}
}

// atomLevel is the level of the first atom.
const atomLevel = 1 << 30

// base returns the level of the word's bit 31, the first of its 32.
func (s *Space) base(word uint32) uint32 {
	rank, ok := s.rank[word]
	if !ok {
		rank = uint32(len(s.words))
		s.words = append(s.words, word)
		s.rank[word] = rank
	}
	return 32 * rank
}

// Words are the words of an input, by offset; those that are not there are 0.
// It is a [bpf.Input] for seccomp filters.
type Words map[uint32]uint32

// dataSize is sizeof(struct seccomp_data), what LD LEN gives (linux/seccomp.h).
const dataSize = 64

func (w Words) Len() uint32    { return dataSize }
func (w Words) Linear() []byte { return nil }
func (w Words) Load(off uint32, size int) (uint32, bool) {
	return w[off], size == 4 && off%4 == 0 && off < dataSize
}
func (w Words) Extension(bpf.Extension, uint32, uint32) (uint32, bool) { return 0, false }

// Holds reports whether the input is in c.
func (s *Space) Holds(c Cond, in Words) bool {
	for c > Always {
		n := s.nodes[c]
		var bit bool
		if n.level >= atomLevel {
			bit = s.atoms[n.level-atomLevel].holds(in)
		} else {
			bit = in[s.words[n.level/32]]>>(31-n.level%32)&1 != 0
		}
		if c = n.lo; bit {
			c = n.hi
		}
	}
	return c == Always
}

// Depends returns the words that c depends on, in the order of the space;
// those of its atoms among them.
func (s *Space) Depends(c Cond) []uint32 {
	found := map[uint32]bool{}
	s.levels(c, func(level uint32) {
		if level < atomLevel {
			found[s.words[level/32]] = true
			return
		}
		for _, word := range s.atoms[level-atomLevel].words() {
			found[word] = true
		}
	})
	var out []uint32
	for _, word := range s.words {
		if found[word] {
			out = append(out, word)
		}
	}
	return out
}

// Exact reports whether c is a condition on words alone, without atoms.
func (s *Space) Exact(c Cond) bool { return len(s.atomsOf(c)) == 0 }

// atomsOf returns the levels of the atoms in c.
func (s *Space) atomsOf(c Cond) []uint32 {
	var out []uint32
	s.levels(c, func(level uint32) {
		if level >= atomLevel && !slices.Contains(out, level) {
			out = append(out, level)
		}
	})
	return out
}

// Atoms describes the atoms that c depends on.
func (s *Space) Atoms(c Cond) []string {
	var out []string
	for _, level := range s.atomsOf(c) {
		out = append(out, s.atoms[level-atomLevel].String())
	}
	slices.Sort(out)
	return out
}
