//go:build !linux

package livekernel

import (
	"context"
	"runtime"

	"github.com/kjit-project/kjit/kernelabi"
)

func noLinux(what string) error {
	return unavailable(what, "this is "+runtime.GOOS, "run kjit on Linux")
}

// Capturer captures nothing here.
type Capturer struct{}

// NewCapturer returns an *UnavailableError: there is no Linux here.
func NewCapturer(Path) (*Capturer, error) { return nil, noLinux("capture") }

// Close does nothing.
func (c *Capturer) Close() error { return nil }

// Capture returns an *UnavailableError: there is no Linux here.
func (c *Capturer) Capture(context.Context, *Request) (*kernelabi.KernelImageRecord, error) {
	return nil, noLinux("capture")
}

// ProcessFilters returns an *UnavailableError: there is no Linux here.
func ProcessFilters(int) ([]Filter, error) { return nil, noLinux("the filters of a process") }

// SocketFilters returns an *UnavailableError: there is no Linux here.
func SocketFilters() ([]Filter, error) { return nil, noLinux("the filters of sockets") }
