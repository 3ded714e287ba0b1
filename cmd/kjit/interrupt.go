package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/kjit-project/kjit/harness/plugin"
)

// grace is how long a command that was interrupted may take to tell what it
// has so far.
const grace = time.Second

// errInterrupted is the error of a command that was interrupted.
var errInterrupted = &codedError{errors.New("interrupted"), exitInterrupted, false}

// patient is set by a command that ends by itself some time after an interrupt,
// and as a success: only a second interrupt ends it at once.
var patient atomic.Bool

// dieAfter ends the process when ctx is done and the command does not end by
// itself: it may be waiting for input, or for an engine in the middle of a
// batch.
func dieAfter(ctx context.Context, std streams, asJSON bool, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	late := time.After(grace)
	again := make(chan os.Signal, 1)
	if patient.Load() {
		late = nil
		signal.Notify(again, os.Interrupt)
	}
	select {
	case <-done:
		return
	case <-late:
	case <-again:
	}
	plugin.KillAll()
	// Nobody may be reading what the command writes.
	told := make(chan struct{})
	go func() {
		fail(errInterrupted, std, asJSON)
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(grace):
	}
	os.Exit(exitInterrupted)
}

// interruptible is a reader that ends with the context's error once it is done.
// A read that waits, on a terminal say, is left behind.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	type result struct {
		data []byte
		err  error
	}
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	read := make(chan result, 1)
	go func() {
		// Not into p: a read that was left behind must not write there.
		data := make([]byte, min(len(p), 1<<16))
		n, err := i.r.Read(data)
		read <- result{data[:n], err}
	}()
	select {
	case r := <-read:
		return copy(p, r.data), r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}

// checkedWriter remembers the first error of writing: a command whose output
// was lost has not succeeded, whatever it thinks.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}
