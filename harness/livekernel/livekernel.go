// Package livekernel has the running Linux kernel as a runner, and captures
// what it makes of programs: machine code of its JIT, and the filters that
// processes and sockets of this host have.
//
// # The runner
//
// [Open] gives a harness.Runner. Socket filters are attached to one end of a
// pair of AF_UNIX datagram sockets; delivery is synchronous, and what arrives
// of a packet of L bytes has min(value, L) bytes. Where that is L, the value is
// at least L, and programs derived from the one under test show the rest of it,
// a few bits each. Seccomp filters run in a process of their own, started anew
// from this executable; the value comes out 12 bits at a time as the error
// number of a system call that the filter answers.
//
// The kernel reads the packet and the system call that there really are. An
// input that asks for more (a page fragment, skb->mark, a system call of another
// architecture) has the outcome Untried, and why; but only if the program, on
// that input, reads what cannot be given. What verdicts of seccomp filters do
// to a process is not tried.
//
// # State
//
// Filters go on sockets and threads of kjit's own. All of it ends with the
// runner, or with the process.
package livekernel

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

// UnavailableError is something that this host does not offer, or not to this
// user.
type UnavailableError = probe.UnavailableError

func unavailable(what, reason, mend string) *UnavailableError {
	return &UnavailableError{What: what, Reason: reason, Mend: mend}
}

// Filter is a program that something on this host has attached.
type Filter struct {
	Name    string // "pid-812-filter-0", "socket-5127"
	Holder  string // for people: "dhclient (812), fd 5, AF_PACKET"
	Kind    bpf.Kind
	Program bpf.Program
}
