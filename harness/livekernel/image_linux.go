package livekernel

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

// imageJob captures the image of a seccomp filter.
type imageJob struct{ Program bpf.Program }

type imageAnswer struct {
	compiled
	Unavailable *UnavailableError
}

func init() { probe.Serve("image", answerImage) }

// answerImage does a job in the child: one thread gets the filter and makes no
// system call any more, another reads the kernel's memory. The process ends
// with the answer.
func answerImage(job *imageJob) (*imageAnswer, error) {
	var none *UnavailableError
	k, err := openKernel()
	if errors.As(err, &none) {
		return &imageAnswer{Unavailable: none}, nil
	}
	if err != nil {
		return nil, err
	}
	type started struct {
		task uint64
		err  error
	}
	ready := make(chan started)
	var errno atomic.Int64
	errno.Store(-1)
	go func() {
		runtime.LockOSThread()
		err := probe.NoNewPrivs()
		var task uint64
		if err == nil {
			task, err = k.task()
		}
		ready <- started{task, err}
		if err == nil {
			probe.BlockSignals()
			installAndSpin(job.Program, &errno)
		}
	}()
	s := <-ready
	if s.err != nil {
		return nil, s.err
	}
	for range 5000 {
		time.Sleep(time.Millisecond)
		k.err = nil
		prog := k.seccompFilter(s.task)
		switch {
		case errno.Load() > 0:
			return &imageAnswer{compiled: compiled{Errno: int(errno.Load())}}, nil
		case k.err != nil:
			return nil, k.err
		case prog == 0:
			continue
		}
		c, err := k.image(prog)
		if errors.As(err, &none) {
			return &imageAnswer{Unavailable: none}, nil
		}
		if err != nil {
			return nil, err
		}
		return &imageAnswer{compiled: *c}, nil
	}
	return nil, fmt.Errorf("the filter did not come into force")
}

// installAndSpin gives the thread a filter that may allow it nothing. It does
// not return; after a refusal it says so.
func installAndSpin(prog bpf.Program, errno *atomic.Int64) {
	_, e := probe.Install(prog, 0)
	errno.Store(int64(e))
	//lint:ignore SA5002 it is to make no system call, not even to sleep
	for {
	}
}
