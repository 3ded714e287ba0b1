// Package probe finds out what programs return in the kernel that it runs on, of
// inputs that there can be: packets of AF_UNIX sockets, system calls of its own.
// It needs no cgo and little else, so that it runs in small guests too.
package probe

import (
	"fmt"
	"syscall"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// Kernel is a kernel that tries programs: the one that runs here, or one at the
// other end of a line. It belongs to one goroutine.
type Kernel interface {
	// System is what the kernel says of itself.
	System() System
	// Packets runs a socket filter on packets.
	Packets(prog bpf.Program, packets [][]byte) (*Values, error)
	// Calls runs a seccomp filter on system calls.
	Calls(*Calls) (*Values, error)
	Close() error
}

// System is what a kernel says of itself, and what runs on it.
type System struct {
	Release string `json:"release"` // uname -r: "6.18.44-generic"
	Machine string `json:"machine"` // uname -m: "x86_64", "armv7l"
	GOARCH  string `json:"goarch"`  // of the program that tries filters there
	JIT     string `json:"jit"`     // net.core.bpf_jit_enable; "": there is no JIT, or nobody looked
}

// Calls are system calls for a seccomp filter.
type Calls struct {
	Program bpf.Program        `json:"program"`
	Word    uint32             `json:"word"` // offset of a word of the arguments that the program does not read: it may be changed
	Calls   []seccompdata.Data `json:"calls"`
}

// Values are what a program returned.
type Values struct {
	Errno  syscall.Errno `json:"errno,omitempty"` // the kernel did not take the program; there are no values
	Values []Value       `json:"values,omitempty"`
}

// Value is what a program returned for one input, or why nobody knows.
type Value struct {
	Value uint32 `json:"v"`
	Why   string `json:"why,omitempty"` // there is no value
	Odd   bool   `json:"odd,omitempty"` // and that is the kernel's fault
}

// MaxKilled is how many calls of one job may kill: each takes a new process.
const MaxKilled = 8

// TooManyKilled is why there is no value for those behind them.
const TooManyKilled = "the filter kills the caller; enough callers have been killed"

// UnavailableError is something that a machine does not offer, or not to this
// user.
type UnavailableError struct {
	What   string // "reading kernel memory"
	Reason string
	Mend   string // what would mend it; "" if nothing would
}

func (e *UnavailableError) Error() string {
	text := fmt.Sprintf("not available here: %s: %s", e.What, e.Reason)
	if e.Mend != "" {
		text += ": " + e.Mend
	}
	return text
}
