package generate

import (
	"testing"
)

// TestProofsHold runs programs on many inputs: none may reach what is said to be
// out of reach.
func TestProofsHold(t *testing.T) {
	g := New(seed(t, 20), Default())
	proven, sides := 0, 0
	for range 4000 {
		c := g.Next()
		c.Inputs()
		for pc, proof := range unreachable(c.Program, c.Kind) {
			if reached := c.solver.sides[pc] & 3; c.Program[pc].Class() == 5 && c.Program[pc].Code != 5 {
				sides += 2
				proven += int(proof&1 + proof>>1)
				if reached&proof != 0 {
					t.Fatalf("case %d: instruction %d: sides %b are reached, %b said to be unreachable\n%v", c.Index, pc, reached, proof, c.Program)
				}
			}
		}
	}
	t.Logf("%d of %d sides are shown to be unreachable", proven, sides)
}
