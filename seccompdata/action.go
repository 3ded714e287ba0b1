package seccompdata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

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

// Actions lists the actions that today's kernels know, the strongest first.
func Actions() []Action {
	return slices.SortedFunc(maps.Keys(actionNames), func(a, b Action) int {
		return cmp.Compare(order(uint32(a), CurrentKernel), order(uint32(b), CurrentKernel))
	})
}

// ParseAction finds an action by its name, in any case and with the prefixes
// that tools put before it (SECCOMP_RET_ERRNO, SCMP_ACT_KILL). KILL is
// KILL_THREAD, NOTIFY is USER_NOTIF.
func ParseAction(name string) (Action, error) {
	upper := strings.ToUpper(name)
	for _, prefix := range []string{"SECCOMP_RET_", "SCMP_ACT_"} {
		upper = strings.TrimPrefix(upper, prefix)
	}
	if other, ok := otherActions[upper]; ok {
		return other, nil
	}
	var known []string
	for _, a := range Actions() {
		if a.String() == upper {
			return a, nil
		}
		known = append(known, a.String())
	}
	return 0, fmt.Errorf("unknown action %.40q; known are %s", name, strings.Join(known, ", "))
}

// otherActions are names that headers and tools use beside those of
// linux/seccomp.h of today.
var otherActions = map[string]Action{"KILL": KillThread, "NOTIFY": UserNotif}

// since says with which release kernels learned an action.
func (a Action) since() Kernel {
	switch a {
	case KillProcess, Log:
		return Kernel{4, 14}
	case UserNotif:
		return Kernel{5, 0}
	}
	return Kernel{3, 5}
}

// KnownIn reports whether the kernel knows the action.
func (a Action) KnownIn(k Kernel) bool {
	since := a.since()
	return a.Known() && k.AtLeast(since.Major, since.Minor)
}

// actionIn is the action of a return value as the kernel reads it: kernels
// before 4.14 do not look at the highest bit.
func actionIn(ret uint32, k Kernel) Action {
	if k.AtLeast(4, 14) {
		return ActionOf(ret)
	}
	return Action(ret & ActionOld)
}

// order ranks return values: the lower, the stronger. Since 4.14 the action is
// taken as a signed number, so that KILL_PROCESS is before KILL_THREAD.
func order(ret uint32, k Kernel) int64 {
	if k.AtLeast(4, 14) {
		return int64(int32(ret & ActionFull))
	}
	return int64(ret & ActionOld)
}

// Stronger reports whether the result a of a filter takes the place of the
// result b of those that ran before it. Of equal actions none is stronger, so
// the data of the filter that ran first, the newest, stays. Actions that the
// kernel does not know have their place by number like all others.
func Stronger(a, b uint32, k Kernel) bool { return order(a, k) < order(b, k) }

// ParseRet reads a return value: an action with its data, as [FormatRet] writes
// it or as "ERRNO(38)" or "errno:38", or a number.
func ParseRet(text string) (uint32, error) {
	if ret, err := strconv.ParseUint(text, 0, 32); err == nil {
		return uint32(ret), nil
	}
	name, data := text, "0"
	if i := strings.IndexAny(text, " (:="); i >= 0 {
		name, data = text[:i], strings.TrimSuffix(strings.TrimSpace(text[i+1:]), ")")
	}
	action, err := ParseAction(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(data, 0, 16)
	if err != nil {
		return 0, fmt.Errorf("%.40q: the data of an action is 0 to 65535", text)
	}
	return uint32(action) | uint32(n), nil
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
