package seccompdata

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// Flag is a flag of seccomp(SECCOMP_SET_MODE_FILTER).
type Flag uint

const (
	FlagTSync        Flag = 1 << iota // all threads get the filters of the caller
	FlagLog                           // what the filter denies is logged
	FlagSpecAllow                     // no mitigation against speculative store bypass
	FlagNewListener                   // the call returns a descriptor for USER_NOTIF
	FlagTSyncESRCH                    // TSYNC that fails gives ESRCH, not a thread's number
	FlagWaitKillable                  // waiting for a listener is interrupted by fatal signals only
)

// flagSince says which release brought which flag (Linux, linux/seccomp.h).
var flagSince = map[Flag]Kernel{
	FlagTSync: {3, 17}, FlagLog: {4, 14}, FlagSpecAllow: {4, 17},
	FlagNewListener: {5, 0}, FlagTSyncESRCH: {5, 7}, FlagWaitKillable: {5, 19},
}

// check returns what is wrong with a set of flags in a kernel.
func (f Flag) check(k Kernel) error {
	for rest, bit := f, Flag(1); rest != 0; rest, bit = rest&^bit, bit<<1 {
		if since, ok := flagSince[bit]; rest&bit != 0 && (!ok || !k.AtLeast(since.Major, since.Minor)) {
			return &AttachError{Errno: EINVAL, Reason: fmt.Sprintf("flag %#x is unknown to Linux %s", uint(bit), k)}
		}
	}
	switch {
	case f&FlagTSync != 0 && f&FlagNewListener != 0 && f&FlagTSyncESRCH == 0:
		return &AttachError{Errno: EINVAL, Reason: "TSYNC and NEW_LISTENER both return a number: they need TSYNC_ESRCH"}
	case f&FlagWaitKillable != 0 && f&FlagNewListener == 0:
		return &AttachError{Errno: EINVAL, Reason: "WAIT_KILLABLE_RECV needs NEW_LISTENER"}
	}
	return nil
}

// Mode is the seccomp mode of a thread.
type Mode uint8

const (
	ModeDisabled Mode = iota
	ModeStrict        // read, write, exit and sigreturn only
	ModeFilter
)

// Thread is a thread as far as seccomp goes.
type Thread struct {
	ID         int
	Mode       Mode
	Chain      Chain
	NoNewPrivs bool // prctl(PR_SET_NO_NEW_PRIVS)
	SysAdmin   bool // CAP_SYS_ADMIN in its user namespace
}

// Process is the threads of a process on a host.
type Process struct {
	Host    *Host
	Threads []*Thread
}

// Clone starts a thread as a copy of another.
func (p *Process) Clone(of *Thread, id int) *Thread {
	t := *of
	t.ID = id
	p.Threads = append(p.Threads, &t)
	return &t
}

// TSyncError is a TSYNC that a thread stands in the way of. Without TSYNC_ESRCH
// that is no error to the caller: the system call returns the thread's number.
type TSyncError struct {
	Thread int
	ESRCH  bool
}

func (e *TSyncError) Error() string {
	text := fmt.Sprintf("thread %d has filters that the caller does not have", e.Thread)
	if e.ESRCH {
		return ESRCH.String() + ": " + text
	}
	return fmt.Sprintf("returns %d: %s", e.Thread, text)
}

// SetFilter is seccomp(SECCOMP_SET_MODE_FILTER, flags, prog) by a thread of the
// process; prctl(PR_SET_SECCOMP) is the same without flags. The order in which a
// kernel looks for errors is kept. Errors: *AttachError and *TSyncError, and
// what the host's compiler fails with. After an error nothing has changed.
func (p *Process) SetFilter(caller *Thread, name string, prog bpf.Program, flags Flag) error {
	if err := flags.check(p.Host.Kernel); err != nil {
		return err
	}
	if n := len(prog); n == 0 || n > bpf.MaxInsns {
		return &AttachError{Errno: EINVAL, Reason: fmt.Sprintf("%d instructions: a filter has 1 to %d", n, bpf.MaxInsns)}
	}
	if !caller.NoNewPrivs && !caller.SysAdmin {
		return &AttachError{Errno: EACCES, Reason: "neither no_new_privs nor CAP_SYS_ADMIN"}
	}
	f, err := p.Host.prepare(name, prog)
	if err != nil {
		return err
	}
	f.Log, f.Listener = flags&FlagLog != 0, flags&FlagNewListener != 0
	if caller.Mode == ModeStrict {
		return &AttachError{Errno: EINVAL, Reason: "the thread is in strict mode"}
	}
	if f.Listener && caller.Chain.listens() {
		return &AttachError{Errno: EBUSY, Reason: "a filter has a listener already"}
	}
	chain, err := caller.Chain.Attach(f)
	if err != nil {
		return err
	}
	if flags&FlagTSync != 0 {
		if t := p.obstacle(caller); t != nil {
			return &TSyncError{Thread: t.ID, ESRCH: flags&FlagTSyncESRCH != 0}
		}
	}
	caller.Chain, caller.Mode = chain, ModeFilter
	if flags&FlagTSync != 0 {
		p.sync(caller)
	}
	return nil
}

// listens reports whether some filter has a listener.
func (c Chain) listens() bool {
	for l := c.newest; l != nil; l = l.before {
		if l.Listener {
			return true
		}
	}
	return false
}

// obstacle returns the first thread that cannot take over the caller's filters:
// one that has others than an ancestor of the caller had, or is in strict mode.
func (p *Process) obstacle(caller *Thread) *Thread {
	for _, t := range p.Threads {
		ok := t == caller || t.Mode == ModeDisabled ||
			t.Mode == ModeFilter && caller.Chain.DescendsFrom(t.Chain)
		if !ok {
			return t
		}
	}
	return nil
}

// sync gives all threads the caller's filters.
func (p *Process) sync(caller *Thread) {
	for _, t := range p.Threads {
		t.Chain, t.Mode = caller.Chain, ModeFilter
		t.NoNewPrivs = t.NoNewPrivs || caller.NoNewPrivs
	}
}
