// Package harness runs programs on everything that can run them and compares
// what comes out. The reference interpreter is the judge.
package harness

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/emulator"
)

// Kind says how a run ended.
type Kind uint8

const (
	Value    Kind = iota // the program returned
	Fault                // the machine code did what no compiled filter may do
	Timeout              // it did not come to an end within its budget
	Refused              // the JIT declined the program; its kernel would interpret it
	Rejected             // the kernel's checker refused the program
	Failed               // the runner gave no outcome: it crashed, hung, or made no sense
	Untried              // the runner cannot be given such an input, or such a program
)

var kindNames = [...]string{"value", "fault", "timeout", "refused", "rejected", "failed", "not run"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText writes the lower-case name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Outcome is what came of one program on one input in one runner.
type Outcome struct {
	Kind  Kind
	Value uint32          // for Value
	Fault *emulator.Fault // for Fault, and for Timeout where execution stood
	Why   string          // for Refused, Rejected, Failed and Untried

	// Evidence.
	Executed uint64          // instructions: of BPF in the interpreter, of the guest in the emulator
	Broken   emulator.Broken // promises to its caller that the code broke
	Inexact  bool            // part of Executed could not be counted

	// StackUnaligned is information, no fault: a helper was called with a stack
	// pointer that is no multiple of 8. Known only where accesses are checked.
	StackUnaligned bool

	PC      int // interpreter: the instruction that ended the program; else -1
	ShiftPC int // interpreter: first shift by X >= 32, the undefined class; else -1
}

// Failure is the error of a runner that is not kjit's own and gave no outcome.
// Like a refusal it is an outcome, of kind Failed, and the comparison goes on.
type Failure struct {
	Reason string
	Said   []string // what it last wrote to standard error, by lines

	// Name is one word for all failures of a sort, whatever the reason says of
	// this one: FailureCrash and the like, or "".
	Name string
}

// Names of failures.
const (
	FailureCrash   = "crash"     // the process ended
	FailureSilence = "no-answer" // it gave none in time
	FailureGivenUp = "given-up"  // it had failed too often before: this time nobody asked
)

func (e *Failure) Error() string {
	if len(e.Said) == 0 {
		return e.Reason
	}
	return e.Reason + "; on standard error: " + strings.Join(e.Said, " | ")
}

// Long is String with large values also in hex, and why a runner failed.
func (o Outcome) Long() string {
	switch {
	case o.Kind == Value && o.Value > 0xffff:
		return fmt.Sprintf("%s = %#x", o, o.Value)
	case o.Kind == Failed:
		return "no outcome (" + o.Why + ")"
	}
	return o.String()
}

// Short is the outcome in a table cell: "65535", "fault", "9, broken".
func (o Outcome) Short() string {
	switch {
	case o.Kind != Value:
		return o.Kind.String()
	case o.Broken != 0:
		return fmt.Sprintf("%d, broken", o.Value)
	}
	return fmt.Sprintf("%d", o.Value)
}

// String is the outcome in words: "65535", "fault: page not present: ...".
func (o Outcome) String() string {
	var s string
	switch o.Kind {
	case Value:
		s = fmt.Sprintf("%d", o.Value)
	case Fault:
		s = "fault: " + o.Fault.Error()
	case Timeout:
		s = "timeout"
	default:
		s = o.Kind.String()
	}
	if o.Broken != 0 {
		s += " (" + o.Broken.String() + ")"
	}
	return s
}

// MarshalJSON leaves out what says nothing about the outcome's kind.
func (o Outcome) MarshalJSON() ([]byte, error) {
	out := struct {
		Kind     Kind       `json:"kind"`
		Value    *uint32    `json:"value,omitempty"`
		Fault    *faultJSON `json:"fault,omitempty"`
		Why      string     `json:"why,omitempty"`
		Executed uint64     `json:"executed,omitempty"`
		Inexact  bool       `json:"inexact,omitempty"`
		Broken   string     `json:"broken,omitempty"`
		PC       *int       `json:"pc,omitempty"`
		ShiftPC  *int       `json:"shift_pc,omitempty"`
		Stack    bool       `json:"stack_unaligned,omitempty"`
	}{Kind: o.Kind, Inexact: o.Inexact, Stack: o.StackUnaligned, Fault: newFaultJSON(o.Fault), Why: o.Why, Executed: o.Executed, Broken: o.Broken.String()}
	if o.Kind == Value {
		out.Value = &o.Value
	}
	if o.PC >= 0 {
		out.PC = &o.PC
	}
	if o.ShiftPC >= 0 {
		out.ShiftPC = &o.ShiftPC
	}
	return json.Marshal(out)
}

// faultJSON is a fault for programs: addresses in hex, as kernels print them.
type faultJSON struct {
	Kind    string `json:"kind"`
	Access  string `json:"access,omitempty"`
	Address string `json:"address,omitempty"`
	Where   string `json:"where,omitempty"`
	RIP     string `json:"pc"`
	Offset  *int   `json:"offset,omitempty"` // in the image
	Symbol  string `json:"symbol,omitempty"`
}

func newFaultJSON(f *emulator.Fault) *faultJSON {
	if f == nil {
		return nil
	}
	out := &faultJSON{Kind: f.Kind.String(), Access: f.Access.String(), Where: f.Where, Symbol: f.Symbol, RIP: fmt.Sprintf("%#x", f.PC)}
	if f.Access != emulator.NoAccess {
		out.Address = fmt.Sprintf("%#x", f.Address)
	}
	if f.Offset >= 0 {
		out.Offset = &f.Offset
	}
	return out
}
