package debug

import "fmt"

// Cursor is a place in a recording: what each side has executed. See [Recording].
type Cursor struct{ BPF, Native int }

// Cursor returns where the session is.
func (s *Session) Cursor() Cursor { return s.cursor }

// Ended reports whether both sides have come to their ends.
func (s *Session) Ended() bool {
	return s.cursor == Cursor{len(s.record.States), len(s.record.Steps)}
}

// SetCursor goes to a place that Cursor returned for the same input.
func (s *Session) SetCursor(c Cursor) {
	s.cursor = Cursor{clamp(0, c.BPF, len(s.record.States)), clamp(0, c.Native, len(s.record.Steps))}
}

// moveTo goes to a BPF moment, and the code with it.
func (s *Session) moveTo(moment int) {
	s.cursor.BPF = moment
	if s.Mapped() {
		s.cursor.Native = s.record.nativeAt[moment]
	}
}

// moveNative goes to a native moment, and the program with it.
func (s *Session) moveNative(moment int) {
	s.cursor.Native = moment
	if !s.Mapped() {
		return
	}
	r := s.record
	at := r.bpfAt(moment)
	// Where the code goes its own way, the program stands still.
	if c := s.cursor.BPF; c > at && !r.met[c] && moment >= r.nativeAt[c] {
		at = c
	}
	s.cursor.BPF = at
}

// Step executes so many BPF instructions, back for negative n. The code follows.
func (s *Session) Step(n int) { s.moveTo(clamp(s.cursor.BPF, n, len(s.record.States))) }

// StepNative executes so many native instructions, back for negative n. The
// program follows.
func (s *Session) StepNative(n int) {
	s.moveNative(clamp(s.cursor.Native, n, len(s.record.Steps)))
}

// clamp is at+n, which may overflow, in 0..limit.
func clamp(at, n, limit int) int { return at + min(max(n, -at), limit-at) }

// Start goes to the first instruction, Native also in front of the prologue.
func (s *Session) Start() { s.cursor = Cursor{0, s.record.nativeAt[0]} }

// End goes to where both sides have returned.
func (s *Session) End() { s.cursor = Cursor{len(s.record.States), len(s.record.Steps)} }

// ToPC goes to where a BPF instruction is executed next, be that later or
// earlier. The error says that it is not on this input.
func (s *Session) ToPC(pc int) error {
	if err := s.checkPC(pc); err != nil {
		return err
	}
	for i, st := range s.record.States {
		if st.PC == pc {
			s.moveTo(i)
			return nil
		}
	}
	return fmt.Errorf("instruction %d is not executed on this input", pc)
}

// ToOffset goes to where the native instruction at an offset is executed: the
// next time, or if there is none the last time before.
func (s *Session) ToOffset(offset int) error {
	if err := s.checkOffset(offset); err != nil {
		return err
	}
	found := -1
	for i := range s.record.Steps {
		if s.record.Steps[i].Offset != offset {
			continue
		}
		if found = i; i > s.cursor.Native {
			break
		}
	}
	if found < 0 {
		return fmt.Errorf("the code at %#x is not executed on this input", offset)
	}
	s.moveNative(found)
	return nil
}

// checkPC says why there is no instruction of a number.
func (s *Session) checkPC(pc int) error {
	if pc < 0 || pc >= len(s.Program) {
		return fmt.Errorf("no instruction %d: the program has 0 to %d", pc, len(s.Program)-1)
	}
	return nil
}

// checkOffset says why there is no native instruction at an offset.
func (s *Session) checkOffset(offset int) error {
	if err := s.NeedCode(); err != nil {
		return err
	}
	if s.InstructionAt(offset) < 0 {
		return fmt.Errorf("no instruction starts at %#x: the code has %#x bytes", offset, len(s.Image.Code))
	}
	return nil
}

// ToDivergence goes to the first place where a difference shows, and reports
// whether there is one.
func (s *Session) ToDivergence() bool {
	d := s.record.Divergence
	if d == nil {
		return false
	}
	s.cursor = d.At
	return true
}

// PastDivergence reports whether the divergence shows at the cursor, or before.
func (s *Session) PastDivergence() bool {
	d := s.record.Divergence
	return d != nil && s.cursor.BPF >= d.At.BPF && s.cursor.Native >= d.At.Native
}

// Stop is why Continue stopped.
type Stop struct {
	PC     int  // the BPF breakpoint, or -1
	Offset int  // the native breakpoint, or -1
	End    bool // there was none
}

// Continue goes on to the next breakpoint, or to the end. Without a map both
// sides go on to breakpoints of their own.
func (s *Session) Continue() Stop { return s.next(s.cursor) }

// Enter is Continue from in front of everything, so that it also stops at the
// first instruction, and at that of the prologue.
func (s *Session) Enter() Stop { return s.next(Cursor{-1, -1}) }

// next goes to the first breakpoint behind a place.
func (s *Session) next(c Cursor) Stop {
	stop := Stop{PC: -1, Offset: -1}
	r := s.record
	moment, native := len(r.States), len(r.Steps)
	for i := c.BPF + 1; i < len(r.States); i++ {
		if s.Breaks.PC(r.States[i].PC) {
			moment, stop.PC = i, r.States[i].PC
			break
		}
	}
	for i := c.Native + 1; i < len(r.Steps); i++ {
		if s.Breaks.Offset(r.Steps[i].Offset) {
			native, stop.Offset = i, r.Steps[i].Offset
			break
		}
	}
	stop.End = stop.PC < 0 && stop.Offset < 0
	if stop.End || !s.Mapped() {
		s.cursor = Cursor{moment, native}
		return stop
	}
	// What comes first counts, of what comes at once both.
	if stop.PC >= 0 && (stop.Offset < 0 || r.nativeAt[moment] <= native) {
		if r.nativeAt[moment] < native {
			stop.Offset = -1
		}
		s.moveTo(moment)
		return stop
	}
	stop.PC = -1
	s.moveNative(native)
	return stop
}
