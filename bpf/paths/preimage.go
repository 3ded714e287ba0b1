package paths

import (
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
)

// The functions here take a set of values of the word at base, and return the
// values that an operation with a constant brings into it.

// beforeXor is for a ^ k.
func (s *Space) beforeXor(base uint32, set Cond, k uint32) Cond {
	return s.rewrite(set, func(n node, lo, hi Cond) Cond {
		if k>>(31-(n.level-base))&1 != 0 {
			lo, hi = hi, lo
		}
		return s.node(n.level, lo, hi)
	})
}

// beforeShift is for a << count, or a >> -count.
func (s *Space) beforeShift(base uint32, set Cond, count int) Cond {
	return s.rewrite(set, func(n node, lo, hi Cond) Cond {
		from := int(31-(n.level-base)) - count // the bit that comes to this place
		if from < 0 || from > 31 {
			return lo
		}
		return s.node(base+31-uint32(from), lo, hi)
	})
}

// beforeCount is for k << a and k >> a, the counts being taken mod 32.
func (s *Space) beforeCount(base uint32, set Cond, op uint16, k uint32) Cond {
	c := Never
	for count := range uint32(32) {
		value := alu[op].fold(k, count)
		if s.And(set, s.interval(base, value, value)) != Never {
			c = s.Or(c, s.interval(base, count, count))
		}
	}
	return s.fix(base, c, ^uint32(31), 0)
}

// beforeAdd is for a + k. Reading from the top, the carry out of the bits below
// is guessed, and they are held to it.
func (s *Space) beforeAdd(base uint32, set Cond, k uint32) Cond {
	type state struct {
		set   Cond
		bits  uint32 // so many low bits are left
		carry uint32 // what they have to carry
	}
	done := map[state]Cond{}
	var walk func(state) Cond
	walk = func(at state) Cond {
		switch {
		case at.set == Never:
			return Never
		case at.bits == 0:
			if at.carry != 0 {
				return Never
			}
			return at.set
		}
		if c, ok := done[at]; ok {
			return c
		}
		level := base + 32 - at.bits
		cofactor := [2]Cond{at.set, at.set}
		if n := s.nodes[at.set]; n.level == level {
			cofactor = [2]Cond{n.lo, n.hi}
		}
		var branch [2]Cond
		for bit := range uint32(2) {
			for carry := range uint32(2) {
				sum := bit + k>>(at.bits-1)&1 + carry
				if sum>>1 == at.carry {
					branch[bit] = s.Or(branch[bit], walk(state{cofactor[sum&1], at.bits - 1, carry}))
				}
			}
		}
		c := s.node(level, branch[0], branch[1])
		done[at] = c
		return c
	}
	return s.Or(walk(state{set, 32, 0}), walk(state{set, 32, 1}))
}

// maxRuns bounds the intervals that products and quotients are followed
// through.
const maxRuns = 4096

// beforeScaled is for a * k, a / k and a % k, which the diagrams know nothing
// of: the set is taken apart into intervals. ok is false if there are too many.
func (s *Space) beforeScaled(base uint32, set Cond, op uint16, k uint32) (c Cond, ok bool) {
	switch op {
	case bpf.DivX:
		return s.mapRuns(base, set, maxRuns, func(r Run, add func(lo, hi uint64)) bool {
			add(uint64(r.Lo)*uint64(k), uint64(r.Hi)*uint64(k)+uint64(k)-1)
			return true
		})
	case bpf.ModX:
		return s.mapRuns(base, set, maxRuns, func(r Run, add func(lo, hi uint64)) bool {
			if 1<<32/uint64(k) > maxRuns {
				return r.Lo >= k // never reached: adds nothing
			}
			for at := uint64(0); at < 1<<32 && r.Lo < k; at += uint64(k) {
				add(at+uint64(r.Lo), at+uint64(min(r.Hi, k-1)))
			}
			return true
		})
	case bpf.MulX:
		odd := k >> bits.TrailingZeros32(k)
		set = s.beforeShift(base, set, bits.TrailingZeros32(k))
		if c, ok := s.beforeOdd(base, set, odd); ok {
			return c, true
		}
		c, ok := s.beforeOdd(base, s.Not(set), odd)
		return s.Not(c), ok
	}
	return 0, false
}

// beforeOdd is for a * k with an odd k: a permutation of the values.
func (s *Space) beforeOdd(base uint32, set Cond, k uint32) (c Cond, ok bool) {
	inverse := k // Newton: every step doubles the low bits that are right
	for range 5 {
		inverse *= 2 - k*inverse
	}
	const points = 64
	return s.mapRuns(base, set, maxRuns, func(r Run, add func(lo, hi uint64)) bool {
		if r.Hi-r.Lo < points {
			for v := uint64(r.Lo); v <= uint64(r.Hi); v++ {
				at := uint64(uint32(v) * inverse)
				add(at, at)
			}
			return true
		}
		if k > maxRuns {
			return false
		}
		// a * k is v + j * 2^32 for some v in the run.
		for j := uint64(0); j < uint64(k); j++ {
			lo, hi := uint64(r.Lo)+j<<32, uint64(r.Hi)+j<<32
			if lo, hi = (lo+uint64(k)-1)/uint64(k), hi/uint64(k); lo <= hi {
				add(lo, hi)
			}
		}
		return true
	})
}

// mapRuns takes the set apart, and joins what each makes of a run. Runs that
// are added may be beyond 32 bits, where they are cut off.
func (s *Space) mapRuns(base uint32, set Cond, limit int, each func(r Run, add func(lo, hi uint64)) bool) (c Cond, ok bool) {
	runs, ok := s.runs(base, set, limit)
	if !ok {
		return 0, false
	}
	added := 0
	for _, r := range runs {
		fits := each(r, func(lo, hi uint64) {
			if added++; lo < 1<<32 && added <= 4*limit {
				c = s.Or(c, s.interval(base, uint32(lo), uint32(min(hi, 1<<32-1))))
			}
		})
		if !fits || added > 4*limit {
			return 0, false
		}
	}
	return c, true
}
