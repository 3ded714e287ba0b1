package livekernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/kernelabi/btflayout"
	"github.com/kjit-project/kjit/seccompdata"
)

// btfFile is the kernel's description of its structs.
const btfFile = "/sys/kernel/btf/vmlinux"

// Capturer has the running kernel compile programs. It belongs to one
// goroutine.
type Capturer struct {
	path        Path
	kernel, cpu string
	layout      kernelabi.Layout
	symbols     *kernelabi.SymbolTable

	memory *kernelReader // ViaAttach
	pair   *probe.SocketPair
}

// NewCapturer gets access to the running kernel. The error is an
// *UnavailableError.
func NewCapturer(path Path) (*Capturer, error) {
	system, err := probe.ThisSystem()
	if err != nil {
		return nil, err
	}
	host, err := newHost(system)
	if err != nil {
		return nil, err
	}
	c := &Capturer{path: path}
	if c.kernel, c.cpu, err = host.names(); err != nil {
		return nil, err
	}
	if err := c.describe(); err != nil {
		return nil, err
	}
	if path == ViaBPF {
		return c, nil
	}
	if c.memory, err = openKernel(); err != nil {
		return nil, err
	}
	if c.pair, err = probe.NewSocketPair(); err != nil {
		return nil, errors.Join(err, c.memory.Close())
	}
	return c, nil
}

// describe reads the kernel's layout and symbols.
func (c *Capturer) describe() error {
	data, err := os.ReadFile(btfFile)
	if err != nil {
		return unavailable("the kernel's layout", err.Error(), "boot a kernel with CONFIG_DEBUG_INFO_BTF")
	}
	if c.layout, err = btflayout.Read(btfFile, data); err != nil {
		return unavailable("the kernel's layout", err.Error(), "")
	}
	if data, err = os.ReadFile(kallsyms); err == nil {
		c.symbols, err = kernelabi.ParseSymbols(kallsyms, data)
	}
	var hidden *kernelabi.SymbolError
	if errors.As(err, &hidden) {
		err = errors.New(kallsyms + " shows no addresses to this user")
	}
	if err != nil {
		return unavailable("the kernel's symbols", err.Error(), "sysctl -w kernel.kptr_restrict=0, and run kjit as root")
	}
	return nil
}

// Close ends the access.
func (c *Capturer) Close() error {
	if c.memory == nil {
		return nil
	}
	return errors.Join(c.pair.Close(), c.memory.Close())
}

// seccompLayout is what seccomp filters read.
var seccompLayout = kernelabi.Layout{
	"seccomp_data.nr": seccompdata.OffNr, "seccomp_data.arch": seccompdata.OffArch,
	"seccomp_data.instruction_pointer": seccompdata.OffIP, "seccomp_data.args": seccompdata.OffArgs,
}

// Capture has the kernel compile a program and returns the record of the image,
// or of the refusal. Errors: *UnavailableError, *ConvertError,
// *kernelabi.UnresolvedError.
func (c *Capturer) Capture(ctx context.Context, req *Request) (*kernelabi.KernelImageRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	made, err := c.compile(req)
	if err != nil {
		return nil, err
	}
	if err := refusal(syscall.Errno(made.Errno)); err != nil {
		return nil, err
	}
	layout := c.layout
	if req.Kind == bpf.Seccomp {
		layout = seccompLayout
	}
	return req.record(c.kernel, c.cpu, made, layout, c.symbols)
}

func (c *Capturer) compile(req *Request) (*compiled, error) {
	switch {
	case c.path == ViaBPF:
		return compileBPF(req)
	case req.Kind == bpf.Socket:
		return c.memory.attached(c.pair, req)
	}
	var answer imageAnswer
	if err := probe.InChild("image", &imageJob{req.Program}, &answer); err != nil {
		return nil, err
	}
	if answer.Unavailable != nil {
		return nil, answer.Unavailable
	}
	return &answer.compiled, nil
}

// compileBPF takes the way of bpf(2).
func compileBPF(req *Request) (*compiled, error) {
	insns, err := convert(req.Program, req.Kind)
	if err != nil {
		return nil, err
	}
	const what = "bpf(2)"
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "kjit_capture", Type: ebpf.SocketFilter, License: "Dual MIT/GPL", Instructions: insns,
	})
	var refused *ebpf.VerifierError
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%s: the verifier refuses what the program converts to: %w", req.Name, err)
	case err != nil:
		return nil, unavailable(what, firstLine(err), "run kjit as root")
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return nil, unavailable(what, err.Error(), "")
	}
	code, hasCode := info.JitedInsns()
	addrs, hasAddrs := info.JitedKsymAddrs()
	switch {
	case !hasCode || len(code) == 0:
		return nil, unavailable("an image", "the kernel interprets the program, or does not show its code", "sysctl -w net.core.bpf_jit_enable=1, and run kjit as root")
	case !hasAddrs || len(addrs) == 0 || addrs[0] == 0:
		return nil, unavailable("the address of an image", "the kernel does not tell it", "sysctl -w kernel.kptr_restrict=0 net.core.bpf_jit_harden=0")
	case len(addrs) > 1:
		return nil, fmt.Errorf("%s: the kernel made %d functions of it", req.Name, len(addrs))
	}
	size, err := info.TranslatedSize()
	if err != nil {
		return nil, err
	}
	return &compiled{Base: uint64(addrs[0]), Image: code, Flen: size / 8}, nil
}
