package seccompdata

import "slices"

// Multiplexer is a call of i386 that stands for others: its first argument says
// for which. Newer kernels have most of them as calls of their own, too; some
// have no other way.
type Multiplexer struct {
	Name  string   // of the call
	Calls []string // that it stands for, by the first argument; "" where it is none
}

// multiplexers are those that there are (linux/net.h, linux/ipc.h).
var multiplexers = []Multiplexer{
	{"socketcall", []string{
		1: "socket", 2: "bind", 3: "connect", 4: "listen", 5: "accept", 6: "getsockname", 7: "getpeername",
		8: "socketpair", 9: "send", 10: "recv", 11: "sendto", 12: "recvfrom", 13: "shutdown", 14: "setsockopt",
		15: "getsockopt", 16: "sendmsg", 17: "recvmsg", 18: "accept4", 19: "recvmmsg", 20: "sendmmsg",
	}},
	{"ipc", []string{
		1: "semop", 2: "semget", 3: "semctl", 4: "semtimedop", 11: "msgsnd", 12: "msgrcv", 13: "msgget", 14: "msgctl",
		21: "shmat", 22: "shmdt", 23: "shmget", 24: "shmctl",
	}},
}

// Multiplexers returns all.
func Multiplexers() []Multiplexer { return slices.Clone(multiplexers) }

// MultiplexerOf returns the call of i386 through which programs may make another
// call, too, and the first argument that says so.
func MultiplexerOf(call string) (through string, argument uint64, ok bool) {
	for _, m := range multiplexers {
		if i := slices.Index(m.Calls, call); i > 0 {
			return m.Name, uint64(i), true
		}
	}
	return "", 0, false
}
