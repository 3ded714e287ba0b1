package selftest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

// Getpid and Getppid are the numbers of the calls that benchmarks make.
const (
	Getpid  = unix.SYS_GETPID
	Getppid = unix.SYS_GETPPID
)

// budget is how many nanoseconds a job without samples takes.
const budget = 1.2e9

func init() { probe.Serve("selftest", serve) }

// ThisHost describes the machine. The error is a *probe.UnavailableError.
func ThisHost() (Host, error) {
	system, err := probe.ThisSystem()
	if err != nil {
		return Host{}, err
	}
	h := Host{System: system}
	harden, _ := os.ReadFile("/proc/sys/net/core/bpf_jit_harden") // root only
	h.Harden = strings.TrimSpace(string(harden))
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if n, ok := strings.CutPrefix(line, "Seccomp_filters:"); ok {
			h.Filters, _ = strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return h, nil
}

func inProcess(job *Job) (*Times, error) {
	var t Times
	if err := probe.InChild("selftest", job, &t); err != nil {
		return nil, err
	}
	if len(t.Nanoseconds) != len(job.Chains) || t.Samples <= 0 {
		return nil, &probe.UnavailableError{What: "a process for seccomp filters", Reason: "it gave no times"}
	}
	return &t, nil
}

// serve does a job in the process for it. Each chain has a thread, and all take
// turns: what becomes of the machine meanwhile becomes of all of them.
func serve(job *Job) (*Times, error) {
	var threads []*thread
	for _, chain := range job.Chains {
		t, err := startThread(uintptr(job.Nr), chain)
		if err != nil {
			return nil, err
		}
		threads = append(threads, t)
	}
	least := make([]float64, len(threads))
	round := func(calls int) (total float64) {
		for i, t := range threads {
			t.calls <- calls
			ns := <-t.times
			if least[i] == 0 || ns < least[i] {
				least[i] = ns
			}
			total += ns
		}
		return total
	}
	samples := job.Samples
	if samples <= 0 {
		round(Block) // to warm up
		samples = max(Block, int(budget/round(Block)))
	}
	clear(least)
	t := &Times{Nanoseconds: least}
	for t.Samples < samples {
		calls := min(Block, samples-t.Samples)
		if rest := samples - t.Samples - calls; rest < Block {
			calls += rest // a short block has a poor time
		}
		round(calls)
		t.Samples += calls
	}
	return t, nil
}

// thread is a thread with filters.
type thread struct {
	calls chan int     // how many to make
	times chan float64 // nanoseconds that one of them took
}

func startThread(nr uintptr, chain []bpf.Program) (*thread, error) {
	t := &thread{make(chan int), make(chan float64)}
	started := make(chan error)
	go func() { // and never return to the runtime's threads
		runtime.LockOSThread()
		started <- attach(chain)
		for calls := range t.calls {
			t.times <- timeCalls(nr, calls)
		}
	}()
	return t, <-started
}

// attach gives the thread its filters.
func attach(chain []bpf.Program) error {
	probe.BlockSignals()
	if len(chain) == 0 {
		return nil
	}
	if err := probe.NoNewPrivs(); err != nil {
		return err
	}
	for _, prog := range chain {
		if _, errno := probe.Install(prog, 0); errno != 0 {
			return fmt.Errorf("seccomp(2): %w", errno)
		}
	}
	return nil
}

// timeCalls returns what one of the calls takes of the thread's processor time.
func timeCalls(nr uintptr, calls int) float64 {
	for range 100 { // the thread has just woken up
		syscall.RawSyscall(nr, 0, 0, 0)
	}
	start := processorTime()
	for range calls {
		syscall.RawSyscall(nr, 0, 0, 0)
	}
	return float64(processorTime()-start) / float64(calls)
}

// processorTime is the thread's, in nanoseconds.
func processorTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6.12
	}
	return t.Nano()
}
