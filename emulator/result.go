package emulator

import "strings"

// Result is what one input made of the loaded image.
type Result struct {
	// Value is what the code returned in its 32-bit result register; 0 when
	// there is a Fault.
	Value uint32

	// Fault is the reason why the code did not return, or nil.
	Fault *Fault

	// Broken are the promises of the calling convention that the code did not
	// keep. They are known only when it returned.
	Broken Broken

	// StackUnaligned: a routine of the kernel was called with a stack pointer
	// that is no multiple of 8. That is for information: it breaks nothing, and
	// no classic ARM JIT took care. Known with [WithAccessChecks] only.
	StackUnaligned bool

	// Inexact: part of Insns could not be counted, which happens when the
	// watchdog ends an input, or an error of the engine; when code overwrites
	// the harness's data; and with code that runs into the middle of its own
	// instructions under changed processor flags.
	Inexact bool

	// Insns is the number of instructions executed, those of helper routines
	// included and those of the harness not. A faulting instruction does not
	// count. An x86 string instruction with REP counts once for every repetition.
	Insns uint64
}

// Broken is a set of broken promises.
type Broken uint32

// The promises of the calling conventions. Writes to what does not belong to the
// code (packet, sk_buff, device, program) and any access to the caller's stack
// are faults, not promises: those pages are read-only, or not there.
const (
	// x86_64: registers to preserve.
	BrokenRBX Broken = 1 << iota
	BrokenRBP
	BrokenR12
	BrokenR13
	BrokenR14
	BrokenR15
	BrokenStack     // the stack pointer is not where the caller had it
	BrokenDirection // x86_64: the direction flag is set
	// ARM: registers to preserve.
	BrokenR4
	BrokenR5
	BrokenR6
	BrokenR7
	BrokenR8
	BrokenR9
	BrokenR10
	BrokenR11
	BrokenMode      // ARM: another processor mode, or other interrupts masked
	BrokenAlignment // ARMv5: an access that was not aligned; see WithAccessChecks
	BrokenFrame     // a write below the stack pointer, where interrupts write; see WithAccessChecks
)

var brokenNames = []string{
	"rbx changed", "rbp changed", "r12 changed", "r13 changed", "r14 changed", "r15 changed",
	"stack pointer changed", "direction flag set",
	"r4 changed", "r5 changed", "r6 changed", "r7 changed", "r8 changed", "r9 changed", "r10 changed", "r11 changed",
	"processor mode or interrupt mask changed", "unaligned access", "write below the stack pointer",
}

// String lists the broken promises: "rbx changed, direction flag set".
func (b Broken) String() string {
	var names []string
	for i, name := range brokenNames {
		if b&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
