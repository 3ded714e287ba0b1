package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

func init() { Serve("calls", answerCalls) }

// callJob runs a seccomp filter on system calls.
type callJob struct {
	Original  bpf.Program // has to be acceptable, and is never in force
	Answering bpf.Program // what is made of it
	Word      uint32      // where it expects the signal
	Calls     []seccompdata.Data
}

type callAnswer struct {
	Errno  syscall.Errno // the kernel refused the original
	Values []uint32      // of the calls, up to one that killed the thread
	Killed bool          // one more call killed it: its value is 0
}

// run does the job in as many children as it takes.
func (j *callJob) run() (*callAnswer, error) {
	total := &callAnswer{}
	rest := *j
	for killed := 0; killed <= MaxKilled; killed++ {
		var answer callAnswer
		if err := InChild("calls", &rest, &answer); err != nil {
			return nil, err
		}
		total.Errno = answer.Errno
		total.Values = append(total.Values, answer.Values...)
		if !answer.Killed {
			break
		}
		total.Values = append(total.Values, 0)
		if rest.Calls = j.Calls[len(total.Values):]; len(rest.Calls) == 0 {
			break
		}
	}
	return total, nil
}

// answerCalls does a job in the child.
func answerCalls(job *callJob) (*callAnswer, error) {
	bystander, err := startBystander()
	if err != nil {
		return nil, err
	}
	var (
		answer = &callAnswer{Values: make([]uint32, len(job.Calls))}
		done   atomic.Int64
		tid    atomic.Int64
		end    = make(chan error, 1)
	)
	go func() { // and never return to the runtime's threads
		runtime.LockOSThread()
		tid.Store(int64(unix.Gettid()))
		end <- job.filtered(bystander, answer, &done)
		select {}
	}()
	// A thread that its filter kills says nothing more.
	for {
		select {
		case err := <-end:
			return answer, err
		case <-time.After(2 * time.Millisecond):
		}
		if t := int(tid.Load()); t != 0 && unix.Tgkill(os.Getpid(), t, 0) == unix.ESRCH {
			answer.Values, answer.Killed = answer.Values[:done.Load()], true
			return answer, nil
		}
	}
}

// startBystander starts a thread with a filter that lets all calls pass, and
// returns its number. With it around no other thread can have its filter shared
// (SECCOMP_FILTER_FLAG_TSYNC), which the kernel finds after it has checked and
// compiled the filter, and before the filter is in force.
func startBystander() (tid int, err error) {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		tid = unix.Gettid()
		err := NoNewPrivs()
		if err == nil {
			if _, errno := Install(bpf.Program{{Code: bpf.RetK, K: retAllow}}, 0); errno != 0 {
				err = fmt.Errorf("seccomp(2): %w", errno)
			}
		}
		started <- err
		select {}
	}()
	err = <-started
	return tid, err
}

// filtered tries the original, gives the thread the answering filter, and makes
// the calls.
func (j *callJob) filtered(bystander int, answer *callAnswer, done *atomic.Int64) error {
	if err := NoNewPrivs(); err != nil {
		return err
	}
	BlockSignals()
	r, errno := Install(j.Original, unix.SECCOMP_FILTER_FLAG_TSYNC)
	if errno != 0 {
		answer.Errno, answer.Values = errno, nil
		return nil
	}
	if int(r) != bystander {
		return errors.New("seccomp(2) did not find the thread that keeps the filter from being in force")
	}
	if _, errno := Install(j.Answering, 0); errno != 0 {
		return fmt.Errorf("seccomp(2), for a filter that shows the value of another that it accepts: %w", errno)
	}
	for i := range j.Calls {
		call := j.Calls[i]
		for part := range uint32(parts) {
			bits, err := ask(&call, j.Word, part)
			if err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
			answer.Values[i] |= bits << (part * partBits)
		}
		done.Store(int64(i) + 1)
	}
	return nil
}

// ask makes the call with the signal in it, and returns the answer.
func ask(call *seccompdata.Data, word, part uint32) (uint32, error) {
	n, shift := (word-seccompdata.OffArgs)/8, word%8*8
	args := call.Args
	args[n] = args[n]&^(0xffffffff<<shift) | uint64(signal|part)<<shift
	r, errno := filteredCall(uintptr(call.Nr), &args)
	// 4095 is an error number to the kernel and a result to Go.
	if negative := -int(r); errno == 0 && negative > 0 && negative < 1<<partBits {
		return uint32(negative), nil
	}
	if errno == 0 && r != 0 {
		return 0, fmt.Errorf("the filter did not answer: the call returned %#x", r)
	}
	return uint32(errno), nil
}

// filteredCall makes a system call and then another one that leaves no signal in
// the registers: all registers are arguments to a filter, also those of the
// calls that the runtime makes next.
//
//go:nosplit
func filteredCall(nr uintptr, args *[6]uint64) (r uintptr, errno syscall.Errno) {
	r, _, errno = syscall.RawSyscall6(nr, uintptr(args[0]), uintptr(args[1]), uintptr(args[2]),
		uintptr(args[3]), uintptr(args[4]), uintptr(args[5]))
	syscall.RawSyscall6(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	return r, errno
}
