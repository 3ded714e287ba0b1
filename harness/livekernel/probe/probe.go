// Package probe tries programs in the kernel that it runs on and tells what
// happened: how much of a packet arrived, with which error number a system call
// came back. What that says of a program's value is for livekernel to find out.
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
	// Packets attaches a filter to a socket and sends it packets.
	Packets(prog bpf.Program, packets [][]byte) (*Passed, error)
	// Calls makes system calls with a seccomp filter in force.
	Calls(*Calls) (*Answers, error)
	Close() error
}

// System is what a kernel says of itself, and what runs on it.
type System struct {
	Release string `json:"release"` // uname -r: "6.18.44-generic"
	Machine string `json:"machine"` // uname -m: "x86_64", "armv7l"
	GOARCH  string `json:"goarch"`  // of the program that tries filters there
	JIT     string `json:"jit"`     // net.core.bpf_jit_enable; "": there is no JIT, or nobody looked
}

// Passed is what came of packets.
type Passed struct {
	Errno    syscall.Errno `json:"errno,omitempty"` // the kernel did not take the program; there are no arrivals
	Arrivals []Arrival     `json:"arrivals,omitempty"`
}

// Arrival is how many bytes of a packet arrived. An empty packet arrives with 0
// bytes; what is below 0 did not arrive.
type Arrival int

// Dropped is the arrival of a packet that the filter dropped. Below it are
// packets that could not be sent, with their Errno.
const Dropped Arrival = -1

// Errno says why a packet could not be sent; 0 if it was.
func (a Arrival) Errno() syscall.Errno { return syscall.Errno(max(0, Dropped-a)) }

// PartBits are the bits of a value that an error number holds, Parts how many
// calls it takes to have all 32.
const (
	PartBits = 12
	Parts    = 3
)

// Signal is what marks a system call as one for the filter: it stands in a word
// of the arguments that the filter does not read. The low two bits say which
// part of the value is wanted.
const Signal = 0x6b6a6974

// RetAllow is the value with which a seccomp filter lets a call pass
// (linux/seccomp.h).
const RetAllow = 0x7fff0000

// MaxKilled is how many calls of one job may kill: each takes a new process.
const MaxKilled = 8

// Calls are system calls for a seccomp filter.
type Calls struct {
	Original  bpf.Program        `json:"original"`  // has to be acceptable, and is never in force
	Answering bpf.Program        `json:"answering"` // what is made of it: it answers calls with the Signal, and lets others pass
	Word      uint32             `json:"word"`      // the offset at which it expects the Signal
	Calls     []seccompdata.Data `json:"calls"`
}

// Answers are what came of system calls.
type Answers struct {
	Errno  syscall.Errno `json:"errno,omitempty"`  // the kernel refused the original
	Values []uint32      `json:"values"`           // of the calls, up to one that killed the thread
	Killed bool          `json:"killed,omitempty"` // one more call killed it: its value is 0
}

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
