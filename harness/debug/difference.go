package debug

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
)

// Difference is one thing that is not the same on both sides.
type Difference struct {
	What      string // "A", "X", "M[3]", or harness.Next or harness.End
	Want, Got uint32 // of registers and cells: the program's and the code's

	// Used: the program goes on to read it. What nobody reads may differ.
	Used bool
	How  string // in words
}

// Divergence is the first used difference of a recording.
type Divergence struct {
	Difference
	At Cursor // where it shows, which is behind what is to blame
	PC int    // the BPF instruction to blame, -1 for the prologue or if there is no map

	// Undefined: a shift by X >= 32 went before, after which old kernels may
	// differ.
	Undefined bool
}

// used returns the first difference that matters, or nil.
func used(all []Difference) *Difference {
	for i := range all {
		if all[i].Used {
			return &all[i]
		}
	}
	return nil
}

// diverges finds the first used difference.
func (s *Session) diverges(r *Recording) *Divergence {
	if s.Image == nil {
		return nil
	}
	var stored uint16
	blame, shifted := -1, false
	for i := range r.nativeAt {
		at := Cursor{i, r.nativeAt[i]}
		if d := used(s.differences(r, at, stored)); d != nil {
			return &Divergence{*d, at, blame, shifted}
		}
		if i == len(r.States) {
			break
		}
		pc := r.States[i].PC
		if s.Mapped() && r.met[i] && !s.codeless(pc) {
			blame = pc
		}
		stored |= stores(s.Program[pc])
		shifted = shifted || pc == r.Result.ShiftPC
	}
	return nil
}

// stores is the bit of the cell that an instruction writes.
func stores(ins bpf.Instruction) uint16 {
	if ins.Code == bpf.St || ins.Code == bpf.Stx {
		return 1 << ins.K
	}
	return 0
}

// differences compares the sides at a cursor, which they have both come to. The
// cells that were stored are those that have a meaning.
func (s *Session) differences(r *Recording, at Cursor, stored uint16) []Difference {
	if s.Image == nil {
		return nil
	}
	ended := at.BPF == len(r.States)
	switch {
	case ended && at.Native == len(r.Steps):
		return r.endings()
	case !s.Mapped() || at.Native != r.nativeAt[at.BPF]:
		return nil // the code is in the middle of an instruction
	case !r.met[at.BPF]:
		return []Difference{{What: harness.Next, Used: true, How: s.apart(r, at)}}
	}
	var all []Difference
	state, step, needs := &r.States[at.BPF], &r.Steps[at.Native], r.Needs[at.BPF]
	compare := func(what string, want, got uint32, used bool) {
		if want == got {
			return
		}
		how := fmt.Sprintf("%s is %#x, the interpreter has %#x", what, got, want)
		if !used {
			how += ", and the program does not read it"
		}
		all = append(all, Difference{what, want, got, used, how})
	}
	if step.Known {
		compare("A", state.A, step.A, needs.Registers&bpf.RegA != 0)
		compare("X", state.X, step.X, needs.Registers&bpf.RegX != 0)
	}
	for k := range state.M {
		if bit := uint16(1) << k; step.Cells&bit != 0 && (stored|needs.Cells)&bit != 0 {
			compare(fmt.Sprintf("M[%d]", k), state.M[k], step.M[k], needs.Cells&bit != 0)
		}
	}
	return all
}

// endings compares how the sides ended.
func (r *Recording) endings() []Difference {
	if r.Verdict != harness.Diverge && r.Verdict != harness.Undefined {
		return nil
	}
	return []Difference{{
		What: harness.End, Want: r.Want.Value, Got: r.Got.Value, Used: true,
		How: fmt.Sprintf("the code %s, the interpreter returns %s", r.Ending(), r.Want.Long()),
	}}
}

// Ending tells in words how the code ended: "returns 5", "has a fault: ...".
func (r *Recording) Ending() string {
	switch r.Got.Kind {
	case harness.Value:
		return "returns " + r.Got.Long()
	case harness.Fault:
		return "has a " + r.Got.Long()
	case harness.Timeout:
		return "does not come to an end"
	}
	return "is not run: " + r.Got.Why
}

// apart tells where the sides go when that is not the same.
func (s *Session) apart(r *Recording, at Cursor) string {
	program, code := "the interpreter has returned", "the code "+r.Ending()
	if at.BPF < len(r.States) {
		program = fmt.Sprintf("the interpreter goes on to instruction %d", r.States[at.BPF].PC)
	}
	if at.Native < len(r.Steps) {
		code = fmt.Sprintf("the code goes on to instruction %d", s.Image.PCAt(r.Steps[at.Native].Offset))
	}
	return code + ", " + program
}

// Story tells a divergence in a sentence.
func (s *Session) Story(d *Divergence) string {
	text := d.How
	switch {
	case d.PC >= 0:
		text = fmt.Sprintf("at instruction %d: after it %s", d.PC, d.How)
	case s.Mapped():
		text = "in the prologue: after it " + d.How
	}
	if d.Undefined {
		text += fmt.Sprintf(" (not a fault: instruction %d shifts by more than 31, which kernels leave to the processor)", s.record.Result.ShiftPC)
	}
	return text
}
