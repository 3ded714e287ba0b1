package seccompdata

import "fmt"

// Action is what a filter's return value asks for: its upper half (linux/seccomp.h).
type Action uint32

const (
	KillProcess Action = 0x80000000
	KillThread  Action = 0x00000000
	Trap        Action = 0x00030000
	Errno       Action = 0x00050000
	UserNotif   Action = 0x7fc00000
	Trace       Action = 0x7ff00000
	Log         Action = 0x7ffc0000
	Allow       Action = 0x7fff0000
)

// Masks of a return value (linux/seccomp.h).
const (
	ActionFull = 0xffff0000 // SECCOMP_RET_ACTION_FULL
	ActionOld  = 0x7fff0000 // SECCOMP_RET_ACTION, all that kernels before 4.14 looked at
	DataMask   = 0x0000ffff // SECCOMP_RET_DATA
)

var actionNames = map[Action]string{
	KillProcess: "KILL_PROCESS", KillThread: "KILL_THREAD", Trap: "TRAP", Errno: "ERRNO",
	UserNotif: "USER_NOTIF", Trace: "TRACE", Log: "LOG", Allow: "ALLOW",
}

// ActionOf is the action of a return value.
func ActionOf(ret uint32) Action { return Action(ret & ActionFull) }

// Known reports whether kernels know the action; others they take for a kill.
func (a Action) Known() bool { return actionNames[a] != "" }

// String is the name without SECCOMP_RET_, UNKNOWN for others.
func (a Action) String() string {
	if name := actionNames[a]; name != "" {
		return name
	}
	return "UNKNOWN"
}

// FormatRet is a return value in words: "ALLOW", "ERRNO 38", "UNKNOWN 0x00010000".
func FormatRet(ret uint32) string {
	a, data := ActionOf(ret), ret&DataMask
	switch {
	case !a.Known():
		return fmt.Sprintf("UNKNOWN %#08x", ret)
	case data != 0 || a == Errno:
		return fmt.Sprintf("%s %d", a, data)
	}
	return a.String()
}
