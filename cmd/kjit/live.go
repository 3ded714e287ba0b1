package main

import (
	"fmt"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel"
)

// runnerFlags name runners that are no JIT in the emulator.
type runnerFlags struct {
	Runner []string `placeholder:"NAME" help:"More to run beside the JITs: kernel is the Linux that is running here. What it cannot be given is told as not run."`
}

// open returns the runners, and what closes them.
func (f *runnerFlags) open() (runners []harness.Runner, closeAll func(), err error) {
	for i, name := range f.Runner {
		if name != "kernel" || i > 0 {
			return nil, nil, badInput(fmt.Errorf("--runner %s: there is kernel, once", name))
		}
		r, err := livekernel.Open()
		if err != nil {
			return nil, nil, environment(err)
		}
		runners = append(runners, r)
	}
	return runners, func() {
		for _, r := range runners {
			r.Close()
		}
	}, nil
}
