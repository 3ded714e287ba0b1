package livekernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
)

// fakeCore is a core file with the given segments.
func fakeCore(segments map[uint64][]byte) []byte {
	var out, bodies bytes.Buffer
	header := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_CORE), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(segments)),
	}
	binary.Write(&out, binary.LittleEndian, header)
	at := 64 + 56*uint64(len(segments))
	for addr, data := range segments {
		binary.Write(&out, binary.LittleEndian, elf.Prog64{
			Type: uint32(elf.PT_LOAD), Vaddr: addr, Off: at + uint64(bodies.Len()),
			Filesz: uint64(len(data)), Memsz: uint64(len(data)),
		})
		bodies.Write(data)
	}
	return append(out.Bytes(), bodies.Bytes()...)
}

// fakeStructs are offsets of fields.
type fakeStructs map[string]uint64

func (f fakeStructs) offset(field string) (uint64, error) {
	off, ok := f[field]
	if !ok {
		return 0, fmt.Errorf("no %s", field)
	}
	return off, nil
}

// kernel is a memory with a task, its socket 3, and its seccomp filter.
func kernel(t *testing.T) *reader {
	t.Helper()
	const base = 0xffff888000000000
	data := make([]byte, 0x1000)
	put := func(at, value uint64) { binary.NativeEndian.PutUint64(data[at:], value) }
	list := [...]uint64{0x10, 0x20, 0x30 + 3*8, 0x50, 0x60, 0x70, 0x80} // task, files, fd 3, file, socket, sock, filter
	next := [...]uint64{0x20, 0x28, 0x50, 0x60, 0x70, 0x80, 0x90}
	for i, at := range list {
		put(at, base+next[i])
	}
	put(0x28, base+0x30)       // fdtable.fd
	put(0x18, base+0x88)       // task.seccomp.filter
	put(0x88, base+0x90)       // seccomp_filter.prog
	put(0x90, base+0x100)      // bpf_func
	put(0x98, 5<<32|4)         // len, jited_len
	copy(data[0x100:], "code") // the image
	// The list of tasks: init's at 0x200, ours at 0x300 with two threads.
	put(0x200, base+0x300)
	put(0x300, base+0x200)
	put(0x308, 42|42<<32) // pid, tgid
	put(0x310, base+0x380)
	put(0x380, base+0x318) // thread_head to the first thread's node
	put(0x318, base+0x418)
	put(0x408, 43|42<<32)
	put(0x418, base+0x380)

	file := bytes.NewReader(fakeCore(map[uint64][]byte{base: data, 0x1000: []byte("low")}))
	core, err := newCoreMemory(file, io.NopCloser(file))
	if err != nil {
		t.Fatal(err)
	}
	return &reader{memory: core, word: 8, structs: fakeStructs{
		"task_struct.files": 0, "task_struct.seccomp.filter": 8, "files_struct.fdt": 0, "fdtable.fd": 0,
		"file.private_data": 0, "socket.sk": 0, "sock.sk_filter": 0, "sk_filter.prog": 0, "seccomp_filter.prog": 0,
		"bpf_prog.bpf_func": 0, "bpf_prog.len": 8, "bpf_prog.jited_len": 12,
		"task_struct.tasks": 0, "task_struct.pid": 8, "task_struct.tgid": 12, "task_struct.signal": 16,
		"signal_struct.thread_head": 0, "task_struct.thread_node": 24,
	}}
}

const kernelBase = 0xffff888000000000

func TestWalk(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the memory of the test is little-endian")
	}
	// files points to fdt at 0x20, whose first word is the address of the array.
	k := kernel(t)
	k.structs.(fakeStructs)["files_struct.fdt"] = 0
	prog := k.socketFilter(kernelBase+0x10, 3)
	if prog != kernelBase+0x90 || k.err != nil {
		t.Fatalf("socket filter at %#x, %v", prog, k.err)
	}
	if prog := k.seccompFilter(kernelBase + 0x10); prog != kernelBase+0x90 || k.err != nil {
		t.Fatalf("seccomp filter at %#x, %v", prog, k.err)
	}
	c, err := k.image(prog)
	if err == nil && (string(c.Image) != "code\x00" || c.Flen != 4 || c.Base != kernelBase+0x100) {
		t.Errorf("image %+v", c)
	}
	if err != nil {
		t.Error(err)
	}
	for tid, want := range map[int]uint64{42: 0x300, 43: 0x400} {
		if task, err := k.taskOf(kernelBase+0x200, 42, tid); task != kernelBase+want || err != nil {
			t.Errorf("task of %d at %#x, %v", tid, task, err)
		}
	}
	if _, err := k.taskOf(kernelBase+0x200, 42, 99); err == nil || !strings.Contains(err.Error(), "thread 99 is not in the kernel's list") {
		t.Errorf("a thread that there is not: %v", err)
	}
}

func TestWalkErrors(t *testing.T) {
	for _, test := range []struct {
		desc string
		do   func(*reader)
		want string
	}{
		{"An address outside the core file is named.", func(r *reader) { r.pointer(0x5000) }, "kernel memory at 0x5000: it is not in the core file"},
		{"A read across the end of a segment is refused.", func(r *reader) { r.bytes(0x1001, 8) }, "kernel memory at 0x1001"},
		{"A NULL pointer names the field that it should lead to.", func(r *reader) { r.follow(0, "sock.sk_filter") }, "has sock.sk_filter: the pointer to it is NULL"},
		{"An unknown field is named.", func(r *reader) { r.follow(kernelBase, "sock.none") }, "no sock.none"},
		{"The first fault is kept.", func(r *reader) { r.follow(kernelBase, "sock.none"); r.pointer(0x5000) }, "no sock.none"},
	} {
		r := kernel(t)
		test.do(r)
		if r.err == nil || !strings.Contains(r.err.Error(), test.want) {
			t.Errorf("%s got %v, want %s", test.desc, r.err, test.want)
		}
	}
}
