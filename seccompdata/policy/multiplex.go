package policy

import (
	"slices"

	"github.com/kjit-project/kjit/seccompdata"
)

// multiplexed are the calls of i386 that programs may also make through
// another call, whose first argument then is a number (linux/net.h, linux/ipc.h).
// Newer kernels have most of them as calls of their own, too; some have no other
// way.
var multiplexed = map[string]struct {
	through string
	number  uint64
}{
	"socket": {"socketcall", 1}, "bind": {"socketcall", 2}, "connect": {"socketcall", 3}, "listen": {"socketcall", 4},
	"accept": {"socketcall", 5}, "getsockname": {"socketcall", 6}, "getpeername": {"socketcall", 7}, "socketpair": {"socketcall", 8},
	"send": {"socketcall", 9}, "recv": {"socketcall", 10}, "sendto": {"socketcall", 11}, "recvfrom": {"socketcall", 12},
	"shutdown": {"socketcall", 13}, "setsockopt": {"socketcall", 14}, "getsockopt": {"socketcall", 15}, "sendmsg": {"socketcall", 16},
	"recvmsg": {"socketcall", 17}, "accept4": {"socketcall", 18}, "recvmmsg": {"socketcall", 19}, "sendmmsg": {"socketcall", 20},

	"semop": {"ipc", 1}, "semget": {"ipc", 2}, "semctl": {"ipc", 3}, "semtimedop": {"ipc", 4},
	"msgsnd": {"ipc", 11}, "msgrcv": {"ipc", 12}, "msgget": {"ipc", 13}, "msgctl": {"ipc", 14},
	"shmat": {"ipc", 21}, "shmdt": {"ipc", 22}, "shmget": {"ipc", 23}, "shmctl": {"ipc", 24},
}

// reached returns the rules for a call of an ABI: one for its number, and on
// i386 one for the call that it can be made through. As libseccomp does it, the
// latter tests the first argument for the number of the call in place of what
// the rule says about it, and keeps the conditions on the others, though they
// are other things there: the real arguments are in memory, where no filter can
// see them.
func reached(abi *seccompdata.ABI, name string, conditions []Condition) []Rule {
	var out []Rule
	if nr, ok := abi.Number(name); ok {
		out = append(out, Rule{ABI: abi, Nr: nr, Call: name, Conditions: conditions})
	}
	m, ok := multiplexed[name]
	if !ok || abi != seccompdata.I386 {
		return out
	}
	if nr, ok := abi.Number(m.through); ok {
		which := []Condition{{Arg: 0, Op: EQ, Value: m.number}}
		others := slices.DeleteFunc(slices.Clone(conditions), func(c Condition) bool { return c.Arg == 0 })
		out = append(out, Rule{ABI: abi, Nr: nr, Call: m.through, Conditions: append(which, others...)})
	}
	return out
}
