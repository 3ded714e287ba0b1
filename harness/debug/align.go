package debug

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
)

// mark is a step at which the code of an instruction starts.
type mark struct{ step, pc int }

// marks finds the steps at which code of instructions starts.
func (s *Session) marks(steps []Step) []mark {
	starts := map[int]int{} // offset -> instruction
	for pc := range s.Program {
		if !s.codeless(pc) {
			starts[s.Image.PCMap[pc]] = pc
		}
	}
	var all []mark
	for i := range steps {
		if pc, ok := starts[steps[i].Offset]; ok {
			all = append(all, mark{i, pc})
		}
	}
	return all
}

// codeless reports whether an instruction was compiled to nothing.
func (s *Session) codeless(pc int) bool { return s.Image.PCMap[pc] == s.Image.PCMap[pc+1] }

// align finds the native moment of each BPF moment: where the code of the
// instruction starts, for instructions without code that of the next one. Where
// the code does not come to an instruction, the moment is the one at which it
// went elsewhere.
func (s *Session) align(r *Recording) {
	n := len(r.States)
	r.nativeAt, r.met = make([]int, n+1), make([]bool, n+1)
	r.nativeAt[n], r.met[n] = len(r.Steps), true
	if !s.Mapped() {
		return
	}
	marks := s.marks(r.Steps) // those behind the last instruction that the code came to
	leave := func() int {
		if len(marks) > 0 {
			return marks[0].step
		}
		return len(r.Steps)
	}
	for i, st := range r.States {
		if s.codeless(st.PC) {
			continue
		}
		for m := range marks {
			if marks[m].pc == st.PC {
				r.nativeAt[i], r.met[i] = marks[m].step, true
				marks = marks[m+1:]
				break
			}
		}
		if !r.met[i] {
			r.nativeAt[i] = leave()
		}
	}
	// Where the interpreter has returned the code may go on: to an instruction
	// that returns the same, which is how some JITs leave, or to what it must not.
	bad := r.Verdict == harness.Diverge || r.Verdict == harness.Undefined
	if bad && r.met[n-1] && len(marks) > 0 && !s.leaves(r, marks[0].pc) {
		r.nativeAt[n], r.met[n] = leave(), false
	}
	for i := n - 1; i >= 0; i-- {
		if s.codeless(r.States[i].PC) {
			r.nativeAt[i], r.met[i] = r.nativeAt[i+1], r.met[i+1]
		}
	}
}

// leaves reports whether going on to instruction pc after a return is the way
// to the epilogue, which is all the code that a "ret a" has.
func (s *Session) leaves(r *Recording, pc int) bool {
	last := s.Program[r.States[len(r.States)-1].PC]
	return last.Class() == bpf.ClassRet && s.Program[pc].Code == bpf.RetA
}

// bpfAt finds the BPF moment of a native one: the instruction whose code is
// executed, or where the code has gone elsewhere the one that should be.
func (r *Recording) bpfAt(native int) int {
	if native >= len(r.Steps) {
		return len(r.States)
	}
	at := 0
	for i := range r.States {
		if r.met[i] && r.nativeAt[i] <= native {
			at = i
		}
	}
	if !r.met[at+1] && r.nativeAt[at+1] <= native && r.nativeAt[at] < r.nativeAt[at+1] {
		at++
	}
	return at
}
