package livekernel

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// memory reads a kernel's memory by its addresses.
type memory interface {
	read(addr uint64, buf []byte) error
	Close() error
}

// coreMemory is a kernel's memory as an ELF core file, such as /proc/kcore.
type coreMemory struct {
	file     io.ReaderAt
	closer   io.Closer
	segments []elf.ProgHeader
}

func newCoreMemory(file io.ReaderAt, closer io.Closer) (*coreMemory, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	m := &coreMemory{file: file, closer: closer}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			m.segments = append(m.segments, p.ProgHeader)
		}
	}
	return m, nil
}

func (m *coreMemory) Close() error { return m.closer.Close() }

func (m *coreMemory) read(addr uint64, buf []byte) error {
	for _, s := range m.segments {
		if addr >= s.Vaddr && addr-s.Vaddr <= s.Memsz && uint64(len(buf)) <= s.Memsz-(addr-s.Vaddr) {
			if _, err := m.file.ReadAt(buf, int64(s.Off+(addr-s.Vaddr))); err != nil {
				return fmt.Errorf("kernel memory at %#x: %w", addr, err)
			}
			return nil
		}
	}
	return fmt.Errorf("kernel memory at %#x: it is not in the core file", addr)
}

// reader walks the structs of a kernel. The first fault is kept, and everything
// after it gives 0.
type reader struct {
	memory
	structs
	word int // bytes of a pointer
	err  error
}

// structs finds the offset of a field, "sock.sk_filter", in bytes.
type structs interface {
	offset(field string) (uint64, error)
}

func (r *reader) bytes(addr uint64, n int) []byte {
	buf := make([]byte, n)
	if r.err == nil {
		r.err = r.read(addr, buf)
	}
	return buf
}

func (r *reader) pointer(addr uint64) uint64 {
	b := r.bytes(addr, r.word)
	if r.word == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

func (r *reader) uint32(addr uint64) uint32 { return binary.NativeEndian.Uint32(r.bytes(addr, 4)) }

// at is the address of a field of the struct at addr, which must not be NULL.
func (r *reader) at(addr uint64, field string) uint64 {
	off, err := r.offset(field)
	if err == nil && addr == 0 {
		err = fmt.Errorf("no kernel struct is there that has %s: the pointer to it is NULL", field)
	}
	if r.err == nil {
		r.err = err
	}
	return addr + off
}

// follow goes along pointers.
func (r *reader) follow(addr uint64, fields ...string) uint64 {
	for _, field := range fields {
		addr = r.pointer(r.at(addr, field))
	}
	return addr
}

// socketFilter finds the program (struct bpf_prog) of a socket of a task.
func (r *reader) socketFilter(task uint64, fd int) uint64 {
	table := r.follow(task, "task_struct.files", "files_struct.fdt", "fdtable.fd")
	file := r.pointer(table + uint64(fd*r.word))
	return r.follow(file, "file.private_data", "socket.sk", "sock.sk_filter", "sk_filter.prog")
}

// seccompFilter finds the program of the newest seccomp filter of a task, or 0.
func (r *reader) seccompFilter(task uint64) uint64 {
	filter := r.follow(task, "task_struct.seccomp.filter")
	if filter == 0 {
		return 0
	}
	return r.follow(filter, "seccomp_filter.prog")
}

// taskOf finds a thread of this process in the list of all tasks, which begins
// at init. Numbers are those that the kernel itself counts by.
func (r *reader) taskOf(initTask uint64, pid, tid int) (uint64, error) {
	tasks, thread := r.at(initTask, "task_struct.tasks")-initTask, r.at(initTask, "task_struct.thread_node")-initTask
	const most = 1 << 22 // PID_MAX_LIMIT
	next := r.pointer(initTask + tasks)
	for n := 0; r.err == nil && n < most && next != initTask+tasks; n++ {
		task := next - tasks
		if int(r.uint32(r.at(task, "task_struct.tgid"))) != pid {
			next = r.pointer(next)
			continue
		}
		head := r.at(r.follow(task, "task_struct.signal"), "signal_struct.thread_head")
		for node := r.pointer(head); r.err == nil && node != head && n < most; node, n = r.pointer(node), n+1 {
			if task := node - thread; int(r.uint32(r.at(task, "task_struct.pid"))) == tid {
				return task, r.err
			}
		}
		break
	}
	if r.err != nil {
		return 0, r.err
	}
	return 0, fmt.Errorf("thread %d is not in the kernel's list of tasks: its number may be that of a container", tid)
}

// image reads what became of a program.
func (r *reader) image(prog uint64) (*compiled, error) {
	c := &compiled{
		Base: r.follow(prog, "bpf_prog.bpf_func"),
		Flen: int(r.uint32(r.at(prog, "bpf_prog.len"))),
	}
	n := r.uint32(r.at(prog, "bpf_prog.jited_len"))
	const most = 1 << 20
	switch {
	case r.err != nil:
		return nil, r.err
	case n == 0:
		return nil, unavailable("an image", "the kernel interprets the program", "sysctl -w net.core.bpf_jit_enable=1")
	case n > most:
		return nil, fmt.Errorf("an image of %d bytes: the structs of this kernel are not understood", n)
	}
	c.Image = r.bytes(c.Base, int(n))
	return c, r.err
}
