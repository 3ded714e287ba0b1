package main

import (
	"fmt"
	"sync"

	"github.com/kjit-project/kjit/harness/livekernel"
)

// hostAllows are the conditions of test scripts about the machine they run on:
// [live] the running kernel is a runner, [capture] its memory can be read.
func hostAllows(condition string) (bool, error) {
	switch condition {
	case "live":
		return liveKernel(), nil
	case "capture":
		return captureHere(), nil
	}
	return false, fmt.Errorf("no condition %q", condition)
}

var liveKernel = sync.OnceValue(func() bool {
	r, err := livekernel.Open()
	if err == nil {
		r.Close()
	}
	return err == nil
})

var captureHere = sync.OnceValue(func() bool {
	c, err := livekernel.NewCapturer(livekernel.ViaAttach)
	if err == nil {
		c.Close()
	}
	return err == nil
})
