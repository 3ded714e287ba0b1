package seccompdata

import "fmt"

// EffectKind says what becomes of a system call.
type EffectKind string

const (
	EffectRan    EffectKind = "ran"    // the call is executed
	EffectValue  EffectKind = "value"  // it is skipped and returns 0
	EffectErrno  EffectKind = "errno"  // it is skipped and fails
	EffectSignal EffectKind = "signal" // it is skipped and the thread gets a signal
)

const sigsys = 31 // SIGSYS, the same on all architectures here

// Effect is what a verdict does to a process that nobody traces or listens to.
type Effect struct {
	Kind   EffectKind `json:"kind"`
	Errno  LinuxErrno `json:"errno,omitempty"`
	Signal int        `json:"signal,omitempty"`

	// WholeProcess: the signal ends the whole process, else only the thread, or
	// as its handler wants (TRAP).
	WholeProcess bool `json:"whole_process,omitempty"`
}

// EffectOf returns what a return value does in a kernel. Unknown actions kill:
// the thread, since Linux 5.10 the process.
func EffectOf(ret uint32, k Kernel) Effect {
	action := actionIn(ret, k)
	if !action.KnownIn(k) {
		return Effect{Kind: EffectSignal, Signal: sigsys, WholeProcess: k.AtLeast(5, 10)}
	}
	switch action {
	case Allow, Log:
		return Effect{Kind: EffectRan}
	case Errno:
		if errno := min(LinuxErrno(ret&DataMask), MaxErrno); errno != 0 {
			return Effect{Kind: EffectErrno, Errno: errno}
		}
		return Effect{Kind: EffectValue}
	case UserNotif, Trace:
		return Effect{Kind: EffectErrno, Errno: ENOSYS}
	}
	return Effect{Kind: EffectSignal, Signal: sigsys, WholeProcess: action == KillProcess}
}

// String is the effect in words.
func (e Effect) String() string {
	switch e.Kind {
	case EffectErrno:
		return "fails with " + e.Errno.String()
	case EffectSignal:
		if e.WholeProcess {
			return fmt.Sprintf("signal %d ends the process", e.Signal)
		}
		return fmt.Sprintf("signal %d", e.Signal)
	case EffectValue:
		return "returns 0"
	}
	return "runs"
}
