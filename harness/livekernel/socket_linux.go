package livekernel

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// socketPair is a pair of datagram sockets. Filters are attached to the
// receiver.
type socketPair struct{ from, to int }

func newSocketPair() (*socketPair, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &UnavailableError{"a pair of AF_UNIX sockets", err.Error(), ""}
	}
	p := &socketPair{fds[0], fds[1]}
	// As large as packets may be; the kernel cuts it to what it allows.
	_ = unix.SetsockoptInt(p.from, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*kernelabi.MaxPacket)
	return p, nil
}

func (p *socketPair) close() error {
	return errors.Join(unix.Close(p.from), unix.Close(p.to))
}

// attach gives the receiver prog as its filter, in place of the one before. A
// program that the kernel does not take gives its errno; err is an
// *UnavailableError.
func (p *socketPair) attach(prog bpf.Program) (syscall.Errno, error) {
	errno := attachFilter(p.to, prog)
	switch errno {
	case unix.EPERM, unix.EACCES, unix.ENOPROTOOPT, unix.ENOSYS:
		return 0, &UnavailableError{"SO_ATTACH_FILTER", errno.Error(), "leave the sandbox that forbids it"}
	}
	return errno, nil
}

// attachFilter attaches a program to a socket.
func attachFilter(fd int, prog bpf.Program) (errno syscall.Errno) {
	filter := sockFprog(prog)
	errors.As(unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &filter), &errno)
	return errno
}

// sockFprog is a program as the kernel takes it (linux/filter.h, struct
// sock_fprog). One that is too long for the length's 16 bits is cut, to a length
// that the kernel refuses as well.
func sockFprog(prog bpf.Program) unix.SockFprog {
	insns := make([]unix.SockFilter, min(len(prog), 1<<16-1))
	for i := range insns {
		insns[i] = unix.SockFilter{Code: prog[i].Code, Jt: prog[i].JT, Jf: prog[i].JF, K: prog[i].K}
	}
	return unix.SockFprog{Len: uint16(len(insns)), Filter: unsafe.SliceData(insns)}
}

// pass sends a packet through the filter. It returns how much of it arrived,
// and whether anything did: an empty packet may.
func (p *socketPair) pass(packet []byte) (n int, passed bool, errno syscall.Errno) {
	// The filter runs while the packet is sent: what is not there then will not
	// come.
	if err := unix.Send(p.from, packet, 0); err != nil {
		errors.As(err, &errno)
		return 0, false, errno
	}
	var none [1]byte
	n, _, err := unix.Recvfrom(p.to, none[:], unix.MSG_TRUNC)
	switch {
	case err == unix.EAGAIN:
		return 0, false, 0
	case err != nil:
		errors.As(err, &errno)
		return 0, false, errno
	}
	return n, true, 0
}

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
