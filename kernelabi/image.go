package kernelabi

import (
	"fmt"
	"syscall"
)

// Image is machine code that a JIT made of a program, with what is needed to
// run it.
type Image struct {
	Code      []byte
	Base      uint64 // address of Code[0]
	BaseKnown bool   // false: Base is not where the code was made for
	Profile   *Profile
	Origin    string // where it came from: "jitx86 linux-3.10", a file and line

	// Unfilled: Code was allocated but never written, and the kernel used it
	// all the same (linux-3.0 when sizes agree first in the last pass). What
	// it holds is whatever was there; executing it proves nothing.
	Unfilled bool

	Insns int // instructions of the program it was made of; 0 if unknown
	Pass  int // number of the writing pass as kernels print it; 0 if unknown

	// PCMap[i] is the code offset where BPF instruction i starts, with one
	// more element for the end of the last; nil if unknown. The prologue
	// belongs to no instruction: PCMap[0] is its end.
	PCMap []int

	// Rules[i] stands for the rule by which BPF instruction i was compiled and
	// the form that the code took: equal numbers, equal forms. nil if unknown;
	// emitters leave it to those who want it.
	Rules []uint32

	// OtherRegisters: A and X are not where the JITs of the architecture keep
	// them (eax and ebx; r4 and r5), so that they cannot be looked at.
	OtherRegisters bool

	// Cells is where the code keeps M[]; nil if unknown.
	Cells *Cells

	// Notes are remarks of the emitter that kernels print and then ignore
	// ("size mismatch").
	Notes []string
}

// Cells says where code keeps M[] whenever an instruction of the program
// starts: M[k] is the 32-bit word at Register + Offset + Stride*k.
type Cells struct {
	Register       string // "rbp", "sp"
	Offset, Stride int    // in bytes
}

// End returns the address behind the last byte.
func (i *Image) End() uint64 { return i.Base + uint64(len(i.Code)) }

// Contains reports whether addr is inside the image.
func (i *Image) Contains(addr uint64) bool { return addr >= i.Base && addr < i.End() }

// PCAt returns the BPF instruction whose code holds the offset, or -1 for the
// prologue, what lies behind the last instruction, and images without a map.
func (i *Image) PCAt(offset int) int {
	for pc := 0; pc+1 < len(i.PCMap); pc++ {
		if offset >= i.PCMap[pc] && offset < i.PCMap[pc+1] {
			return pc
		}
	}
	return -1
}

// Refusal is the error of a JIT that takes a program back to the interpreter.
// That is an outcome, not a failure of the tool.
type Refusal struct {
	PC     int           // the instruction that is the reason, or -1
	Reason string        // "fatal error", "no convergence in 10 passes", ...
	Errno  syscall.Errno // what the kernel's caller sees; 0 if it silently interprets
}

func (r *Refusal) Error() string {
	if r.PC >= 0 {
		return fmt.Sprintf("not compiled: instruction %d: %s", r.PC, r.Reason)
	}
	return "not compiled: " + r.Reason
}
