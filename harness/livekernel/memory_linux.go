package livekernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/kernelabi"
)

// bpfMemory reads kernel memory with a small program of its own, which runs when
// it is asked for something (BPF_PROG_TYPE_SYSCALL, Linux 5.14).
type bpfMemory struct {
	buffer        *ebpf.Map // one value, where the programs leave what they find
	peek, current *ebpf.Program
}

// window is how much one run reads.
const window = 4096

func newBPFMemory() (*bpfMemory, error) {
	m := &bpfMemory{}
	var err error
	m.buffer, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "kjit_window", Type: ebpf.Array, KeySize: 4, ValueSize: window, MaxEntries: 1,
	})
	if err != nil {
		return nil, err
	}
	load := func(name string, insns asm.Instructions) *ebpf.Program {
		if err != nil {
			return nil
		}
		var p *ebpf.Program
		p, err = ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: name, Type: ebpf.Syscall, Flags: unix.BPF_F_SLEEPABLE, License: "Dual MIT/GPL", Instructions: insns,
		})
		return p
	}
	// The context is an address and a length.
	m.peek = load("kjit_peek", asm.Instructions{
		asm.LoadMem(asm.R3, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
		asm.Mov.Imm(asm.R0, -1),
		asm.JGT.Imm(asm.R2, window, "out"),
		asm.LoadMapValue(asm.R1, m.buffer.FD(), 0),
		asm.FnProbeReadKernel.Call(),
		asm.Return().WithSymbol("out"),
	})
	m.current = load("kjit_current", asm.Instructions{
		asm.FnGetCurrentTask.Call(),
		asm.LoadMapValue(asm.R1, m.buffer.FD(), 0),
		asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *bpfMemory) Close() error {
	for _, p := range []*ebpf.Program{m.peek, m.current} {
		if p != nil {
			p.Close()
		}
	}
	return m.buffer.Close()
}

func (m *bpfMemory) run(p *ebpf.Program, addr, length uint64) ([]byte, error) {
	ret, err := p.Run(&ebpf.RunOptions{Context: [2]uint64{addr, length}})
	if err != nil {
		return nil, err
	}
	if ret != 0 {
		return nil, fmt.Errorf("kernel memory at %#x: error %d", addr, int32(ret))
	}
	return m.buffer.LookupBytes(uint32(0))
}

func (m *bpfMemory) read(addr uint64, buf []byte) error {
	for done := 0; done < len(buf); {
		n := min(len(buf)-done, window)
		found, err := m.run(m.peek, addr+uint64(done), uint64(n))
		if err != nil {
			return err
		}
		done += copy(buf[done:], found[:n])
	}
	return nil
}

// task is that of the calling thread.
func (m *bpfMemory) task() (uint64, error) {
	found, err := m.run(m.current, 0, 0)
	if err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(found), nil
}

// kernelReader is a reader of the running kernel.
type kernelReader struct {
	reader
	task func() (uint64, error) // of the calling thread
}

// openKernel finds a way to the kernel's memory and its structs. The error is an
// *UnavailableError.
func openKernel() (*kernelReader, error) {
	const what = "reading kernel memory"
	const alternative = "kernels with net.core.bpf_jit_enable=2 log their images, which kjit replay --image reads"
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, unavailable(what, "the kernel does not describe its structs (CONFIG_DEBUG_INFO_BTF, /sys/kernel/btf/vmlinux): "+err.Error(), alternative)
	}
	k := &kernelReader{reader: reader{structs: btfStructs{spec}, word: strconv.IntSize / 8}}
	viaBPF, err := newBPFMemory()
	if err == nil {
		k.memory, k.task = viaBPF, viaBPF.task
		return k, nil
	}
	core, coreErr := openCore()
	if coreErr != nil {
		mend := "run kjit as root"
		if os.Geteuid() == 0 {
			mend = "this takes CAP_BPF and CAP_PERFMON, Linux 5.14, and no lockdown; " + alternative
		}
		return nil, unavailable(what, fmt.Sprintf("bpf(2): %v; /proc/kcore: %v", firstLine(err), coreErr), mend)
	}
	k.memory = core
	k.task = func() (uint64, error) {
		init, err := kernelSymbol("init_task")
		if err != nil {
			return 0, err
		}
		return k.taskOf(init, os.Getpid(), unix.Gettid())
	}
	return k, nil
}

func openCore() (memory, error) {
	f, err := os.Open("/proc/kcore")
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	core, err := newCoreMemory(f, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return core, nil
}

// kernelSymbol is the address of data of the kernel.
func kernelSymbol(name string) (uint64, error) {
	data, err := os.ReadFile(kallsyms)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[2] == name {
			if addr, err := strconv.ParseUint(fields[0], 16, 64); err == nil && addr != 0 {
				return addr, nil
			}
		}
	}
	return 0, unavailable("the address of "+name, kallsyms+" does not give it", "run kjit as root with kernel.kptr_restrict=0 on a kernel with CONFIG_KALLSYMS_ALL")
}

const kallsyms = "/proc/kallsyms"

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// attached compiles a program by attaching it to a socket of this process.
func (k *kernelReader) attached(pair *probe.SocketPair, req *Request) (*compiled, error) {
	errno, err := pair.Attach(req.Program)
	if err != nil || errno != 0 {
		return &compiled{Errno: int(errno)}, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	task, err := k.task()
	if err != nil {
		return nil, err
	}
	k.err = nil
	return k.image(k.socketFilter(task, pair.To))
}

// refusal makes a record of errnos that say something of the program, and an
// error of the others.
func refusal(errno syscall.Errno) error {
	switch errno {
	case 0, unix.EINVAL, kernelabi.ENOTSUPP:
		return nil
	case unix.ENOMEM:
		return unavailable("memory for the filter", errno.Error(), "sysctl -w net.core.optmem_max=4000000")
	}
	return unavailable("compiling in the running kernel", errno.Error(), "")
}
