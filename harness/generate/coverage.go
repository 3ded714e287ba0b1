package generate

import "github.com/kjit-project/kjit/bpf"

// Coverage counts the sides of the conditional jumps of a program.
type Coverage struct {
	Sides       int // two for each conditional jump
	Reached     int // by some input
	Unreachable int // of the others: shown to be reached by no input
}

// Add adds the counts of another program.
func (c *Coverage) Add(d Coverage) {
	c.Sides += d.Sides
	c.Reached += d.Reached
	c.Unreachable += d.Unreachable
}

// Ratio is the part of the sides that may be reachable which is reached.
func (c Coverage) Ratio() float64 {
	if c.Sides == c.Unreachable {
		return 1
	}
	return float64(c.Reached) / float64(c.Sides-c.Unreachable)
}

// Coverage tells which branch sides the last inputs reach. It takes longer than
// to solve the program.
func (s *Solver) Coverage() Coverage {
	var c Coverage
	if len(s.prog) == 0 {
		return c
	}
	proofs := unreachable(s.prog, s.kind)
	for pc, ins := range s.prog {
		if !bpf.IsCondJump(ins.Code) {
			continue
		}
		c.Sides += 2
		for side := range uint8(2) {
			switch {
			case s.sides[pc]>>side&1 != 0:
				c.Reached++
			case proofs[pc]>>side&1 != 0:
				c.Unreachable++
			}
		}
	}
	return c
}
