package paths

// Run is a range of values of a word, Lo and Hi among them.
type Run struct{ Lo, Hi uint32 }

// Cube is a pattern of a word: the values with Value in the bits of Mask.
type Cube struct{ Mask, Value uint32 }

// Runs returns the values that the word at off has in c, as ascending ranges
// with gaps between them. c must depend on no other word. ok is false if there
// are more than limit.
func (s *Space) Runs(c Cond, off uint32, limit int) (runs []Run, ok bool) {
	return s.runs(s.base(off), c, limit)
}

func (s *Space) runs(base uint32, set Cond, limit int) (runs []Run, ok bool) {
	var walk func(c Cond, depth, prefix uint32) bool
	walk = func(c Cond, depth, prefix uint32) bool {
		if c == Never {
			return true
		}
		if c == Always {
			lo, hi := prefix, prefix|uint32(1<<(32-depth)-1)
			if n := len(runs); n > 0 && runs[n-1].Hi+1 == lo {
				runs[n-1].Hi = hi
				return true
			}
			runs = append(runs, Run{lo, hi})
			return len(runs) <= limit
		}
		n := s.nodes[c]
		lo, hi := c, c
		if n.level == base+depth {
			lo, hi = n.lo, n.hi
		}
		return walk(lo, depth+1, prefix) && walk(hi, depth+1, prefix|1<<(31-depth))
	}
	ok = walk(set, 0, 0)
	return runs, ok
}

// Cubes returns patterns that together make up the values of the word in c,
// none overlapping. c must depend on no other word. ok is false if there are
// more than limit.
func (s *Space) Cubes(c Cond, off uint32, limit int) (cubes []Cube, ok bool) {
	base := s.base(off)
	var walk func(c Cond, cube Cube) bool
	walk = func(c Cond, cube Cube) bool {
		switch c {
		case Never:
			return true
		case Always:
			cubes = append(cubes, cube)
			return len(cubes) <= limit
		}
		n := s.nodes[c]
		bit := uint32(1) << (31 - (n.level - base))
		return walk(n.lo, Cube{cube.Mask | bit, cube.Value}) && walk(n.hi, Cube{cube.Mask | bit, cube.Value | bit})
	}
	ok = walk(c, Cube{})
	return cubes, ok
}

// Marks returns the values of the word at off at which c changes, from both
// sides, as far as they are among the first limit: the ends of its runs, or,
// where a mask scatters those, the corners of its patterns.
func (s *Space) Marks(c Cond, off uint32, limit int) []uint32 {
	var marks []uint32
	seen := map[uint32]bool{}
	add := func(values ...uint32) {
		for _, v := range values {
			if !seen[v] && len(marks) < limit {
				seen[v] = true
				marks = append(marks, v)
			}
		}
	}
	runs, few := s.Runs(c, off, limit)
	if !few {
		for _, side := range []Cond{c, s.Not(c)} {
			cubes, ok := s.Cubes(side, off, limit)
			for _, cube := range cubes {
				add(cube.Value, cube.Value|^cube.Mask)
			}
			if ok {
				break
			}
		}
	}
	for _, r := range runs {
		add(r.Lo, r.Hi)
		if r.Lo > 0 {
			add(r.Lo - 1)
		}
		if r.Hi < 1<<32-1 {
			add(r.Hi + 1)
		}
	}
	return marks
}

// Part is a part of a condition: where the word has one of the Values, the
// other words are as Rest says.
type Part struct {
	Values Cond // on the word alone
	Rest   Cond // on later words, and atoms
}

// Split takes c apart by the values of the word at off, parts with the same
// rest being one, and leaves out where there is none. In the order of the space
// c must not depend on words before it.
func (s *Space) Split(c Cond, off uint32) []Part {
	base := s.base(off)
	// The values that lead to each node, from the top down: a parent has a
	// lower level than its children, but not a lower number.
	var rests []Cond
	seen := map[Cond]bool{}
	var find func(Cond)
	find = func(c Cond) {
		if seen[c] {
			return
		}
		seen[c] = true
		if n := s.nodes[c]; n.level >= base+32 {
			if c != Never {
				rests = append(rests, c)
			}
		} else {
			find(n.lo)
			find(n.hi)
		}
	}
	find(c)
	var parts []Part
	for _, rest := range rests {
		done := map[Cond]Cond{}
		var values func(Cond) Cond
		values = func(c Cond) Cond {
			if v, ok := done[c]; ok {
				return v
			}
			var v Cond
			if n := s.nodes[c]; n.level >= base+32 {
				v = constant(c == rest)
			} else {
				lo := values(n.lo)
				v = s.node(n.level, lo, values(n.hi))
			}
			done[c] = v
			return v
		}
		parts = append(parts, Part{values(c), rest})
	}
	return parts
}

// Fix returns c for inputs whose word at off has, in the bits of mask, those of
// value: the result does not depend on those bits. Atoms are left as they are.
func (s *Space) Fix(c Cond, off, mask, value uint32) Cond {
	return s.fix(s.base(off), c, mask, value)
}

func (s *Space) fix(base uint32, c Cond, mask, value uint32) Cond {
	return s.rewrite(c, func(n node, lo, hi Cond) Cond {
		bit := 31 - (n.level - base)
		switch {
		case n.level < base || n.level >= base+32 || mask>>bit&1 == 0:
			return s.node(n.level, lo, hi)
		case value>>bit&1 == 0:
			return lo
		}
		return hi
	})
}

// Count returns how many values the word has in c, which must depend on no
// other word.
func (s *Space) Count(c Cond, off uint32) uint64 {
	base := s.base(off)
	done := map[Cond]uint64{}
	// count is for the bits from level on.
	var count func(c Cond, level uint32) uint64
	count = func(c Cond, level uint32) uint64 {
		n := s.nodes[c]
		at := min(n.level, base+32)
		var v uint64
		switch {
		case c == Never:
			return 0
		case c == Always:
			v = 1
		default:
			var ok bool
			if v, ok = done[c]; !ok {
				v = count(n.lo, at+1) + count(n.hi, at+1)
				done[c] = v
			}
		}
		return v << (at - level)
	}
	return count(c, base)
}

// NoWord is what [Space.Top] returns where there is no word.
const NoWord = 1<<32 - 1

// Top returns the offset of the first word, in the order of the space, that c
// depends on, atoms aside; NoWord if there is none.
func (s *Space) Top(c Cond) uint32 {
	if level := s.nodes[c].level; level < atomLevel {
		return s.words[level/32]
	}
	return NoWord
}
