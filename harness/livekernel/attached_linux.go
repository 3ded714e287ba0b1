package livekernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
)

// SocketFilters returns the classic programs of all sockets that can be looked
// at, by the number of their inodes. There are two ways to them: packet sockets
// are listed by the kernel (sock_diag, for CAP_NET_ADMIN), those of processes
// are borrowed (pidfd_getfd, Linux 5.6). An *UnavailableError says that there
// may be more.
func SocketFilters() ([]Filter, error) {
	found := map[uint64]*Filter{}
	err := errors.Join(packetSockets(found), processSockets(found))
	var filters []Filter
	for _, f := range found {
		if f != nil {
			filters = append(filters, *f)
		}
	}
	slices.SortFunc(filters, func(a, b Filter) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	if err != nil {
		reason := strings.ReplaceAll(err.Error(), "\n", "; ")
		mend := "run kjit as root"
		if os.Geteuid() == 0 {
			mend = "run kjit outside of containers and sandboxes, with CAP_SYS_PTRACE and CAP_NET_ADMIN"
		}
		return filters, unavailable("the filters of all sockets", reason, mend)
	}
	return filters, nil
}

func socketFilter(inode uint64, holder string, prog bpf.Program) *Filter {
	return &Filter{Name: fmt.Sprintf("socket-%d", inode), Holder: holder, Kind: bpf.Socket, Program: prog}
}

// processSockets looks at the sockets of all processes. Sockets without a filter
// are noted as nil.
func processSockets(found map[uint64]*Filter) error {
	tables, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return err
	}
	closed := 0
	var why error
	note := func(err error) {
		// What is gone by now is no loss.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EBADF) {
			closed, why = closed+1, err
		}
	}
	for _, table := range tables {
		pid, _ := strconv.Atoi(strings.Split(table, "/")[2])
		files, err := os.ReadDir(table)
		note(err)
		for _, file := range files {
			number, _ := strconv.Atoi(file.Name())
			note(processSocket(found, table, pid, number))
		}
	}
	if closed > 0 {
		return fmt.Errorf("%d processes or sockets cannot be looked at: %w", closed, why)
	}
	return nil
}

// processSocket looks at a file of a process, if it is a socket that is not yet
// known.
func processSocket(found map[uint64]*Filter, table string, pid, number int) error {
	target, err := os.Readlink(filepath.Join(table, strconv.Itoa(number)))
	if err != nil {
		return err
	}
	inode, isSocket := socketInode(target)
	if f, known := found[inode]; !isSocket || known && (f == nil || f.Holder != packetHolder) {
		return nil
	}
	prog, kind, err := borrow(pid, number)
	if err != nil && !errors.Is(err, errNotClassic) {
		return err
	}
	found[inode] = nil
	if len(prog) > 0 {
		found[inode] = socketFilter(inode, fmt.Sprintf("%s (%d), fd %d, %s", command(pid), pid, number, kind), prog)
	}
	return nil
}

// socketInode reads "socket:[5127]".
func socketInode(link string) (uint64, bool) {
	digits, ok := strings.CutPrefix(link, "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(digits, "]"), 10, 64)
	return inode, ok && err == nil
}

var errNotClassic = errors.New("the socket's filter is an eBPF program")

// borrow reads the filter of a socket of another process.
func borrow(pid, number int) (prog bpf.Program, kind string, err error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, "", os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return nil, "", os.NewSyscallError("pidfd_getfd", err)
	}
	defer unix.Close(fd)
	prog, err = getFilter(fd)
	if errors.Is(err, unix.EACCES) {
		err = errNotClassic
	}
	return prog, family(fd), err
}

// families are the address families that may be met (linux/socket.h).
var families = map[int]string{
	unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6",
	unix.AF_NETLINK: "AF_NETLINK", unix.AF_PACKET: "AF_PACKET", unix.AF_VSOCK: "AF_VSOCK",
}

func family(fd int) string {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if name, ok := families[n]; ok && err == nil {
		return name
	}
	return fmt.Sprintf("family %d", n)
}

// The request for packet sockets and what comes back (linux/packet_diag.h).
const (
	packetDiagRequest = 20 // bytes
	packetDiagAnswer  = 16
	packetShowFilter  = 1 << 5
	packetDiagFilter  = 7 // attribute
)

// packetHolder is all that the kernel's list says of who has a socket.
const packetHolder = "AF_PACKET"

// packetSockets asks the kernel for the filters of packet sockets, which are of
// this network namespace.
func packetSockets(found map[uint64]*Filter) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fmt.Errorf("sock_diag: %w", err)
	}
	defer unix.Close(fd)
	request := make([]byte, unix.SizeofNlMsghdr+packetDiagRequest)
	*(*unix.NlMsghdr)(unsafe.Pointer(&request[0])) = unix.NlMsghdr{
		Len: uint32(len(request)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP,
	}
	body := request[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_PACKET
	binary.NativeEndian.PutUint32(body[8:], packetShowFilter)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("sock_diag: %w", err)
	}
	buf := make([]byte, 1<<18) // a filter of full length has 32 KiB
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return fmt.Errorf("sock_diag: %w", err)
		}
		done, err := packetMessages(buf[:n], found)
		if done || err != nil {
			return err
		}
	}
}

// packetMessages reads netlink messages about packet sockets.
func packetMessages(buf []byte, found map[uint64]*Filter) (done bool, err error) {
	for len(buf) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(buf))
		if size < unix.SizeofNlMsghdr || size > len(buf) {
			return false, fmt.Errorf("sock_diag: a message of %d bytes in %d", size, len(buf))
		}
		kind, body := binary.NativeEndian.Uint16(buf[4:]), buf[unix.SizeofNlMsghdr:size]
		buf = buf[min((size+3)&^3, len(buf)):]
		switch {
		case kind == unix.NLMSG_DONE:
			return true, nil
		case kind == unix.NLMSG_ERROR && len(body) >= 4:
			return true, fmt.Errorf("sock_diag: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(body))))
		case len(body) < packetDiagAnswer:
			continue
		}
		inode := uint64(binary.NativeEndian.Uint32(body[4:]))
		for attr := body[packetDiagAnswer:]; len(attr) >= 4; {
			size := int(binary.NativeEndian.Uint16(attr))
			if size < 4 || size > len(attr) {
				break
			}
			if value := attr[4:size]; binary.NativeEndian.Uint16(attr[2:]) == packetDiagFilter && len(value) >= 8 {
				found[inode] = socketFilter(inode, packetHolder, programOf(value))
			}
			attr = attr[min((size+3)&^3, len(attr)):]
		}
	}
	return false, nil
}

// programOf reads an array of struct sock_filter.
func programOf(b []byte) bpf.Program {
	var prog bpf.Program
	for ; len(b) >= 8; b = b[8:] {
		prog = append(prog, bpf.Instruction{
			Code: binary.NativeEndian.Uint16(b), JT: b[2], JF: b[3], K: binary.NativeEndian.Uint32(b[4:]),
		})
	}
	return prog
}
