package probe

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
)

// running is the kernel that runs here.
type running struct {
	system System
	pair   *SocketPair
}

// Running returns the kernel that runs here. It needs no privileges. The error
// is an *UnavailableError.
func Running() (Kernel, error) {
	system, err := ThisSystem()
	if err != nil {
		return nil, err
	}
	pair, err := NewSocketPair()
	if err != nil {
		return nil, err
	}
	return &running{system, pair}, nil
}

// ThisSystem describes the kernel that runs here. The error is an
// *UnavailableError.
func ThisSystem() (System, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return System{}, &UnavailableError{"the kernel's version", "uname: " + err.Error(), ""}
	}
	jit, _ := os.ReadFile("/proc/sys/net/core/bpf_jit_enable") // not there: no JIT
	return System{
		Release: unix.ByteSliceToString(uts.Release[:]), Machine: unix.ByteSliceToString(uts.Machine[:]),
		GOARCH: runtime.GOARCH, JIT: strings.TrimSpace(string(jit)),
	}, nil
}

func (r *running) System() System { return r.system }
func (r *running) Close() error   { return r.pair.Close() }

func (r *running) Packets(prog bpf.Program, packets [][]byte) (*Values, error) {
	return packetValues(r.pair, prog, packets)
}

func (r *running) Calls(c *Calls) (*Values, error) {
	filter, err := answering(c.Program, c.Word)
	if err != nil {
		return everyCall(c, err.Error()), nil
	}
	job := callJob{Original: c.Program, Answering: filter, Word: c.Word, Calls: c.Calls}
	answer, err := job.run()
	if err != nil {
		return nil, err
	}
	if answer.Errno != 0 {
		return &Values{Errno: answer.Errno}, nil
	}
	values := everyCall(c, TooManyKilled)
	for i, v := range answer.Values {
		values.Values[i] = Value{Value: v}
	}
	return values, nil
}

// everyCall is why there is no value for any call.
func everyCall(c *Calls, why string) *Values {
	values := &Values{Values: make([]Value, len(c.Calls))}
	for i := range values.Values {
		values.Values[i].Why = why
	}
	return values
}
