// Package harness runs programs on everything that can run them and compares
// what comes out. The reference interpreter is the judge.
package harness

import (
	"encoding/json"
	"fmt"

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
)

var kindNames = [...]string{"value", "fault", "timeout", "refused", "rejected"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText writes the lower-case name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Outcome is what came of one program on one input in one runner.
type Outcome struct {
	Kind  Kind
	Value uint32          // for Value
	Fault *emulator.Fault // for Fault, and for Timeout where execution stood
	Why   string          // for Refused and Rejected

	// Evidence.
	Executed uint64          // instructions: of BPF in the interpreter, of the guest in the emulator
	Broken   emulator.Broken // promises to its caller that the code broke
	PC       int             // interpreter: the instruction that ended the program; else -1
	ShiftPC  int             // interpreter: first shift by X >= 32, the undefined class; else -1
}

// Long is String with large values also in hex.
func (o Outcome) Long() string {
	if o.Kind == Value && o.Value > 0xffff {
		return fmt.Sprintf("%s = %#x", o, o.Value)
	}
	return o.String()
}

// String is the outcome in one table cell: "65535", "fault: write to 0x10".
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
		Broken   string     `json:"broken,omitempty"`
		PC       *int       `json:"pc,omitempty"`
		ShiftPC  *int       `json:"shift_pc,omitempty"`
	}{Kind: o.Kind, Fault: newFaultJSON(o.Fault), Why: o.Why, Executed: o.Executed, Broken: o.Broken.String()}
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
	RIP     string `json:"rip"`
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
