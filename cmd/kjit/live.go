package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel"
	"github.com/kjit-project/kjit/harness/qemu"
)

// qemuPrefix in front of a runner's name makes it the file of a kernel.
const qemuPrefix = "qemu:"

// runnerFlags name runners that are no JIT in the emulator.
type runnerFlags struct {
	Runner []string `placeholder:"NAME" help:"More to run beside the JITs: kernel is the Linux that is running here, qemu:KERNEL the one in that file (a bzImage, or a zImage for ARM), booted in QEMU. What they cannot be given is told as not run."`
}

// open returns the runners, and what closes them.
func (f *runnerFlags) open(ctx context.Context) (runners []harness.Runner, closeAll func(), err error) {
	closeAll = func() {
		for _, r := range runners {
			r.Close()
		}
	}
	for i, name := range f.Runner {
		err := badInput(fmt.Errorf("--runner %s: once is enough", name))
		var r harness.Runner
		if !slices.Contains(f.Runner[:i], name) {
			r, err = openLive(ctx, name)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		runners = append(runners, r)
	}
	return runners, closeAll, nil
}

// openLive returns a kernel that runs as a runner.
func openLive(ctx context.Context, name string) (harness.Runner, error) {
	if name == "kernel" {
		r, err := livekernel.Open()
		if err != nil {
			return nil, environment(err)
		}
		return r, nil
	}
	file, ok := strings.CutPrefix(name, qemuPrefix)
	if !ok {
		return nil, badInput(fmt.Errorf("--runner %s: there are kernel, and qemu:KERNEL", name))
	}
	if file == "" {
		return nil, badInput(fmt.Errorf("--runner %s: no kernel is named: qemu:FILE", name))
	}
	stop := waiting(os.Stderr, "booting "+file)
	r, err := qemu.Open(ctx, file, qemu.Options{})
	stop()
	var none *qemu.KernelError
	switch {
	case errors.As(err, &none):
		return nil, badInput(fmt.Errorf("--runner %s: %w", name, err))
	case err != nil && ctx.Err() == nil:
		return nil, environment(fmt.Errorf("--runner %s: %w", name, err))
	case err != nil:
		return nil, err
	}
	if !r.JIT() {
		fmt.Fprintf(os.Stderr, "kjit: --runner %s: this kernel has no BPF JIT, and interprets programs\n", name)
	}
	return r, nil
}

// waiting tells on a terminal, from the first second on, what is being waited
// for and how long, until stop is called.
func waiting(w *os.File, what string) (stop func()) {
	if drawable(w) == nil {
		return func() {}
	}
	const clear = "\r\x1b[K"
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for seconds := 1; ; seconds++ {
			select {
			case <-done:
				fmt.Fprint(w, clear)
				return
			case <-tick.C:
				fmt.Fprintf(w, "%s%s, %d s", clear, what, seconds)
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}
