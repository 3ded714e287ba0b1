//go:build !linux

package selftest

import (
	"runtime"

	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

// Getpid and Getppid are the numbers of the calls that benchmarks make.
const (
	Getpid  = 0
	Getppid = 0
)

func noLinux() error {
	return &probe.UnavailableError{What: "seccomp", Reason: "this is " + runtime.GOOS, Mend: "run kjit on Linux"}
}

// ThisHost returns a *probe.UnavailableError: there is no Linux here.
func ThisHost() (Host, error) { return Host{}, noLinux() }

func inProcess(*Job) (*Times, error) { return nil, noLinux() }
