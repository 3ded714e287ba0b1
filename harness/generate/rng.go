package generate

import "math/bits"

// rng is a small fast source of pseudo-random numbers (wyrand). What comes out
// depends on the seed alone, on every machine and with every Go release.
type rng struct{ state uint64 }

// newRng returns the source of case i of a seed.
func newRng(seed, i uint64) rng {
	return rng{mix(seed, 0x9e3779b97f4a7c15) ^ mix(i, 0xd1342543de82ef95)}
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}

func (r *rng) next() uint64 {
	r.state += 0xa0761d6478bd642f
	hi, lo := bits.Mul64(r.state, r.state^0xe7037ed1a0b428db)
	return hi ^ lo
}

func (r *rng) u32() uint32 { return uint32(r.next()) }

// n returns a number in 0..n-1; n must be above 0.
func (r *rng) n(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// between returns a number in lo..hi.
func (r *rng) between(lo, hi int) int { return lo + r.n(hi-lo+1) }

// percent is true p times in 100.
func (r *rng) percent(p int) bool { return r.n(100) < p }

// in is true once in n times.
func (r *rng) in(n int) bool { return r.n(n) == 0 }
