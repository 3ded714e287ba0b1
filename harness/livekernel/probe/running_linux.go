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

func (r *running) System() System                   { return r.system }
func (r *running) Close() error                     { return r.pair.Close() }
func (r *running) Calls(j *Calls) (*Answers, error) { return j.run() }

func (r *running) Packets(prog bpf.Program, packets [][]byte) (*Passed, error) {
	errno, err := r.pair.Attach(prog)
	if err != nil || errno != 0 {
		return &Passed{Errno: errno}, err
	}
	passed := &Passed{Arrivals: make([]Arrival, len(packets))}
	for i, packet := range packets {
		passed.Arrivals[i] = r.pair.pass(packet)
	}
	return passed, nil
}
