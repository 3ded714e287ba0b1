package debug

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// State is all that is to be seen at a cursor.
type State struct {
	Cursor Cursor

	// BPF is the state of the interpreter. At its end it is that before the
	// instruction that ended the program, which changes no register.
	BPF   bpf.State
	Ended bool // the interpreter has returned

	// Step is the processor's state, nil without code. At the end of the code it
	// is that before the last instruction.
	Step        *Step
	NativeEnded bool
	Before      *Step // the step before, nil at the start

	// Together: both sides have come to the same moment, so that they can be
	// compared. Otherwise the code is in the middle of an instruction's, or the
	// image has no map.
	Together    bool
	Differences []Difference

	Stored uint16 // bit k: the program has stored to M[k]
	Load   Load   // the last one that was executed
}

// State returns what is to be seen at the cursor.
func (s *Session) State() *State {
	r, c := s.record, s.cursor
	n := len(r.States)
	st := &State{
		Cursor: c, BPF: r.States[min(c.BPF, n-1)], Ended: c.BPF == n,
		NativeEnded: c.Native == len(r.Steps),
		Together:    s.Mapped() && c.Native == r.nativeAt[c.BPF] || c.BPF == n && c.Native == len(r.Steps),
	}
	if len(r.Steps) > 0 {
		st.Step = &r.Steps[min(c.Native, len(r.Steps)-1)]
		if c.Native > 0 && !st.NativeEnded {
			st.Before = &r.Steps[c.Native-1]
		}
	}
	for i := range c.BPF {
		st.Stored |= stores(s.Program[r.States[i].PC])
		if r.Loads[i].Size > 0 {
			st.Load = r.Loads[i]
		}
	}
	st.Differences = s.differences(r, c, st.Stored)
	return st
}

// Differs returns the difference of a register or cell, or nil.
func (st *State) Differs(what string) *Difference {
	for i := range st.Differences {
		if st.Differences[i].What == what {
			return &st.Differences[i]
		}
	}
	return nil
}

// Variable is A, X or a cell of M[] at a cursor.
type Variable struct {
	Name  string // "A", "X", "M[3]"
	Want  uint32 // the interpreter's
	Got   uint32 // the code's
	Known bool   // what the code has
}

// Variables are A, X and the cells that the program names. native reports
// whether A and X can be seen in the code here.
func (s *Session) Variables(st *State) (all []Variable, native bool) {
	var step Step
	if native = st.Step != nil && s.Mapped() && st.Step.Known && !st.NativeEnded; native {
		step = *st.Step
	}
	all = []Variable{{"A", st.BPF.A, step.A, native}, {"X", st.BPF.X, step.X, native}}
	for k, cells := 0, s.cellsUsed(); k < bpf.MemWords; k++ {
		if cells>>k&1 != 0 {
			all = append(all, Variable{fmt.Sprintf("M[%d]", k), st.BPF.M[k], step.M[k], step.Cells&st.Stored>>k&1 != 0})
		}
	}
	return all, native
}

// Signs mark a line of a listing, in three columns: the cursor, a breakpoint,
// what was executed or is to blame.
func Signs(cursor, stop, done, blame bool) string {
	text := []byte("   ")
	for _, c := range []struct {
		on   bool
		at   int
		sign byte
	}{{cursor, 0, '>'}, {stop, 1, '*'}, {done, 2, '+'}, {blame, 2, '!'}} {
		if c.on {
			text[c.at] = c.sign
		}
	}
	return string(text)
}

// cellsUsed are the cells of M[] that the program names: bit k for M[k].
func (s *Session) cellsUsed() (cells uint16) {
	for _, ins := range s.Program {
		if ins.Code == bpf.LdMem || ins.Code == bpf.LdxMem {
			cells |= 1 << ins.K
		}
		cells |= stores(ins)
	}
	return cells
}

// Executed reports whether a BPF instruction was executed before the cursor.
func (s *Session) Executed() []bool {
	done := make([]bool, len(s.Program))
	for _, st := range s.record.States[:s.cursor.BPF] {
		done[st.PC] = true
	}
	return done
}

// ExecutedNative reports which of Native were executed before the cursor.
func (s *Session) ExecutedNative() []bool {
	done := make([]bool, len(s.Native))
	for i := range s.record.Steps[:s.cursor.Native] {
		if at := s.InstructionAt(s.record.Steps[i].Offset); at >= 0 {
			done[at] = true
		}
	}
	return done
}
