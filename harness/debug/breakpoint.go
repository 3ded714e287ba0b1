package debug

import "slices"

// Breakpoints are those of both sides.
type Breakpoints struct {
	PCs     []int // BPF instructions, sorted
	Offsets []int // native instructions by offset, sorted
}

// PC reports whether there is one at a BPF instruction.
func (b *Breakpoints) PC(pc int) bool { _, ok := slices.BinarySearch(b.PCs, pc); return ok }

// Offset reports whether there is one at a native offset.
func (b *Breakpoints) Offset(off int) bool { _, ok := slices.BinarySearch(b.Offsets, off); return ok }

// Any reports whether there are any.
func (b *Breakpoints) Any() bool { return len(b.PCs)+len(b.Offsets) > 0 }

// Clear removes all.
func (b *Breakpoints) Clear() { *b = Breakpoints{} }

// BreakPC sets a breakpoint at a BPF instruction, or removes it if on is false.
func (s *Session) BreakPC(pc int, on bool) error {
	if err := s.checkPC(pc); err != nil {
		return err
	}
	s.Breaks.PCs = put(s.Breaks.PCs, pc, on)
	return nil
}

// BreakOffset sets a breakpoint at the native instruction at an offset, or
// removes it if on is false.
func (s *Session) BreakOffset(offset int, on bool) error {
	if err := s.checkOffset(offset); err != nil {
		return err
	}
	s.Breaks.Offsets = put(s.Breaks.Offsets, offset, on)
	return nil
}

// put adds to a sorted set or removes from it.
func put(set []int, n int, in bool) []int {
	i, ok := slices.BinarySearch(set, n)
	switch {
	case in && !ok:
		return slices.Insert(set, i, n)
	case !in && ok:
		return slices.Delete(set, i, i+1)
	}
	return set
}
