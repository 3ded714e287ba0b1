package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
)

// A seccomp filter is for good, and may kill. It goes into a process that is
// thrown away: this executable once more, which Serve diverts before its main
// function. The parent writes one job to its standard input and reads one answer.

// childEnv tells a process that it is to do a job.
const childEnv = "KJIT_LIVEKERNEL_CHILD"

// childTime is what a job may take.
const childTime = 60 * time.Second

// Serve makes do what a child does that [InChild] was called for with the same
// name: such a process does not return from here. Packages call it when they
// are initialised.
func Serve[Job, Answer any](what string, do func(*Job) (*Answer, error)) {
	if os.Getenv(childEnv) != what {
		return
	}
	// The filtered thread must be alone with its filter: no collector may want
	// it to stop. Its processor stays lost when the thread is killed.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(4)
	if err := serve(do); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve[Job, Answer any](do func(*Job) (*Answer, error)) error {
	var job Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return err
	}
	answer, err := do(&job)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// InChild has a child do a job.
func InChild(what string, job, answer any) error {
	self, err := os.Executable()
	if err != nil {
		return &UnavailableError{"a process for seccomp filters", err.Error(), ""}
	}
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stdin = bytes.NewReader(text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is about this thread
	defer runtime.UnlockOSThread()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return &UnavailableError{"a process for seccomp filters", strings.TrimSpace(fmt.Sprintf("%v: %s", err, said)), ""}
	}
	return nil
}

// The system calls of a filtered thread, made with the raw call: the runtime
// must not notice.

// NoNewPrivs lets the thread have filters without privileges.
func NoNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	return nil
}

// BlockSignals keeps signal handlers, and with them the runtime's preemption,
// away from the thread.
func BlockSignals() {
	all := ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
}

// Install gives the thread a seccomp filter. With SECCOMP_FILTER_FLAG_TSYNC r is
// the thread that stands against it.
func Install(prog bpf.Program, flags uintptr) (r uintptr, errno syscall.Errno) {
	filter := sockFprog(prog)
	r, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(filter)
	return r, errno
}
