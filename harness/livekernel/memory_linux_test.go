package livekernel

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTask: the list of all tasks leads to the same place as the kernel's own
// word for the running one.
func TestTask(t *testing.T) {
	k, err := openKernel()
	skipUnavailable(t, err)
	defer k.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	want, err := k.task()
	if err != nil {
		t.Fatal(err)
	}
	if got := int(k.uint32(k.at(want, "task_struct.pid"))); got != unix.Gettid() {
		t.Skipf("thread %d is %d to the kernel: this is a container", unix.Gettid(), got)
	}
	// The first task is its own parent; not all kernels name it (init_task).
	init := want
	for parent := uint64(0); k.err == nil && parent != init; {
		if parent != 0 {
			init = parent
		}
		parent = k.follow(init, "task_struct.real_parent")
	}
	got, err := k.taskOf(init, os.Getpid(), unix.Gettid())
	if err != nil || got != want {
		t.Errorf("got %#x, %v, want %#x", got, err, want)
	}
}
