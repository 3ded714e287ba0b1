package livekernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
)

// ptraceSeccompGetFilter reads a filter of a stopped thread (Linux 4.4,
// linux/ptrace.h PTRACE_SECCOMP_GET_FILTER).
const ptraceSeccompGetFilter = 0x420c

// ProcessFilters returns the seccomp filters of a process, or of a thread by its
// own number, oldest first. It is stopped for a moment. Errors: an
// *UnavailableError, or an *fs.PathError when there is no such process.
func ProcessFilters(pid int) (filters []Filter, err error) {
	const what = "the filters of a process"
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
		return nil, err
	}
	if pid == os.Getpid() {
		return nil, unavailable(what, "a process cannot trace itself", "name another process")
	}
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	release, err := stop(pid)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	for index := 0; ; index++ {
		insns := make([]unix.SockFilter, bpf.MaxInsns)
		n, _, errno := unix.Syscall6(unix.SYS_PTRACE, ptraceSeccompGetFilter, uintptr(pid), uintptr(index),
			uintptr(unsafe.Pointer(unsafe.SliceData(insns))), 0, 0)
		switch errno {
		case 0:
		case unix.ENOENT, unix.EINVAL: // past the last; no filter at all
			return filters, nil
		case unix.EACCES, unix.EPERM:
			return nil, unavailable(what, errno.Error(), "run kjit as root, and outside of any seccomp filter")
		default:
			return nil, unavailable(what, "PTRACE_SECCOMP_GET_FILTER: "+errno.Error(), "boot a kernel with CONFIG_CHECKPOINT_RESTORE")
		}
		filters = append(filters, Filter{
			Name:   fmt.Sprintf("pid-%d-filter-%d", pid, index),
			Holder: fmt.Sprintf("%s (%d), filter %d", command(pid), pid, index),
			Kind:   bpf.Seccomp, Program: fromSockFilters(insns[:n]),
		})
	}
}

// stop stops a thread and returns what lets it go on as if nothing had been.
func stop(pid int) (release func() error, err error) {
	const what = "stopping the process"
	if err := unix.PtraceSeize(pid); err != nil {
		mend := "run kjit as root"
		if os.Geteuid() == 0 {
			mend = "let no other tracer have the process, and run kjit outside of containers and sandboxes"
			if _, err := os.Stat("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
				mend = "sysctl -w kernel.yama.ptrace_scope=0, or " + mend
			}
		}
		return nil, unavailable(what, "ptrace: "+err.Error(), mend)
	}
	// PtraceDetach of the package gives no signal back.
	signal := 0
	release = func() error {
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(signal), 0, 0)
		if errno != 0 && errno != unix.ESRCH {
			return fmt.Errorf("letting process %d go: %w", pid, errno)
		}
		return nil
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return nil, errors.Join(unavailable(what, "ptrace: "+err.Error(), ""), release())
	}
	var status unix.WaitStatus
	for {
		_, err = unix.Wait4(pid, &status, unix.WALL, nil)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil || !status.Stopped() {
		return nil, unavailable(what, fmt.Sprintf("it has ended (%v)", err), "")
	}
	// A signal that it was about to get is not to be lost.
	const eventStop = 128 // PTRACE_EVENT_STOP
	if int(status)>>16 != eventStop {
		signal = int(status.StopSignal())
	}
	return release, nil
}

// command is what a process calls itself.
func command(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(name))
}
