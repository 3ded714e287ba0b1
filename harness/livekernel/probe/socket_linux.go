package probe

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
)

// maxPacket is as large as packets may be (kernelabi.MaxPacket).
const maxPacket = 262144

// SocketPair is a pair of AF_UNIX datagram sockets. Filters are attached to the
// receiver.
type SocketPair struct{ From, To int }

// NewSocketPair makes a pair. The error is an *UnavailableError.
func NewSocketPair() (*SocketPair, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &UnavailableError{"a pair of AF_UNIX sockets", err.Error(), ""}
	}
	p := &SocketPair{fds[0], fds[1]}
	// As large as packets may be; the kernel cuts it to what it allows.
	_ = unix.SetsockoptInt(p.From, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*maxPacket)
	return p, nil
}

// Close closes both.
func (p *SocketPair) Close() error {
	return errors.Join(unix.Close(p.From), unix.Close(p.To))
}

// Attach gives the receiver prog as its filter, in place of the one before. A
// program that the kernel does not take gives its errno; err is an
// *UnavailableError.
func (p *SocketPair) Attach(prog bpf.Program) (syscall.Errno, error) {
	errno := AttachFilter(p.To, prog)
	switch errno {
	case unix.EPERM, unix.EACCES, unix.ENOPROTOOPT, unix.ENOSYS:
		return 0, &UnavailableError{"SO_ATTACH_FILTER", errno.Error(), "leave the sandbox that forbids it"}
	}
	return errno, nil
}

// AttachFilter attaches a program to a socket.
func AttachFilter(fd int, prog bpf.Program) (errno syscall.Errno) {
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

// pass sends a packet through the filter.
func (p *SocketPair) pass(packet []byte) arrival {
	// The filter runs while the packet is sent: what is not there then will not
	// come.
	if err := unix.Send(p.From, packet, 0); err != nil {
		return notSent(err)
	}
	var none [1]byte
	n, _, err := unix.Recvfrom(p.To, none[:], unix.MSG_TRUNC)
	switch {
	case err == unix.EAGAIN:
		return dropped
	case err != nil:
		return notSent(err)
	}
	return arrival(n)
}

func notSent(err error) arrival {
	var errno syscall.Errno
	errors.As(err, &errno)
	return dropped - arrival(errno)
}
