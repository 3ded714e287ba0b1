package emulator

import (
	"fmt"
	"strings"
)

// FaultKind says why code did not return.
type FaultKind uint8

const (
	NotPresent        FaultKind = iota + 1 // page fault: nothing is mapped there
	Protection                             // page fault: the page forbids it
	NoExecute                              // page fault: the page is not for code
	InvalidOpcode                          // an instruction that does not exist, or not on this processor
	DivideError                            // division by 0, or a quotient too large
	Breakpoint                             // int3, which also fills what surrounds x86_64 code, or bkpt
	GeneralProtection                      // an address that is not canonical, and the like
	Exception                              // any other exception; Number says which
	Timeout                                // the budget of blocks, or the time limit, is used up
	LostControl                            // the code halted, or entered or overwrote the harness
)

var faultNames = []string{
	NotPresent: "page not present", Protection: "page protection", NoExecute: "page not executable",
	InvalidOpcode: "invalid opcode", DivideError: "divide error", Breakpoint: "breakpoint",
	GeneralProtection: "general protection", Exception: "exception", Timeout: "timeout", LostControl: "lost control",
}

func (k FaultKind) String() string {
	if int(k) < len(faultNames) && faultNames[k] != "" {
		return faultNames[k]
	}
	return fmt.Sprintf("fault kind %d", uint8(k))
}

// Access is what a page fault was about.
type Access uint8

const (
	NoAccess Access = iota // not a page fault
	Read
	Write
	Fetch
	ReadOrWrite // the engine did not tell
)

var accessNames = []string{"", "read", "write", "fetch", "read or write"}

func (a Access) String() string { return accessNames[a] }

// Fault is the end of an input whose code did not return.
type Fault struct {
	Kind   FaultKind
	Access Access // for page faults
	Number int    // of the exception, for Exception

	// Address is what a page fault's access went to, and Where what lies
	// there: "guard page behind the packet", "address 0", "the image". For
	// other kinds Where may say more about what happened.
	Address uint64
	Where   string

	// PC is the address of the instruction (of its successor for a halt, and on
	// x86_64 for a breakpoint; of the target for a Fetch). Offset is its place in
	// the image, -1 outside; Symbol then names the routine, if it is in one.
	PC     uint64
	Offset int
	Symbol string
}

// Error describes the fault in one line.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Kind.String())
	switch {
	case f.Kind == Exception:
		fmt.Fprintf(&b, " %d", f.Number)
	case f.Access != NoAccess:
		fmt.Fprintf(&b, ": %s at %#x", f.Access, f.Address)
		if f.Where != "" {
			fmt.Fprintf(&b, " (%s)", f.Where)
		}
	case f.Where != "":
		fmt.Fprintf(&b, ": %s", f.Where)
	}
	switch {
	case f.Offset >= 0:
		fmt.Fprintf(&b, ", at image+%#x", f.Offset)
	case f.Symbol != "":
		fmt.Fprintf(&b, ", in %s", f.Symbol)
	default:
		fmt.Fprintf(&b, ", at %#x", f.PC)
	}
	return b.String()
}
