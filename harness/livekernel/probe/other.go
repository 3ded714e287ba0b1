//go:build !linux

package probe

import "runtime"

// Running returns an *UnavailableError: there is no Linux here.
func Running() (Kernel, error) {
	return nil, &UnavailableError{"the running kernel as a runner", "this is " + runtime.GOOS, "run kjit on Linux"}
}
