package livekernel

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
)

// getFilter returns the classic program of a socket, or nil if it has none. A
// filter that never was a classic program is EACCES.
func getFilter(fd int) (bpf.Program, error) {
	// The length counts instructions; a length of 0 asks for it.
	var count uint32
	get := func(at unsafe.Pointer) error {
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			uintptr(at), uintptr(unsafe.Pointer(&count)), 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	if err := get(nil); err != nil || count == 0 {
		return nil, err
	}
	if count > bpf.MaxInsns {
		return nil, fmt.Errorf("a filter of %d instructions", count)
	}
	insns := make([]unix.SockFilter, count)
	if err := get(unsafe.Pointer(unsafe.SliceData(insns))); err != nil {
		return nil, err
	}
	return fromSockFilters(insns[:min(int(count), len(insns))]), nil
}

func fromSockFilters(insns []unix.SockFilter) bpf.Program {
	prog := make(bpf.Program, len(insns))
	for i, ins := range insns {
		prog[i] = bpf.Instruction{Code: ins.Code, JT: ins.Jt, JF: ins.Jf, K: ins.K}
	}
	return prog
}
