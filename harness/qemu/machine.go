package qemu

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kjit-project/kjit/harness/livekernel"
)

// machine is one that QEMU plays.
type machine struct {
	goarch  string   // of the guest's program
	command string   // QEMU
	pkg     string   // that has it, in Debian and its likes
	args    []string // for QEMU 7.2 and later
	append  string   // to the kernel's command line
	dtb     string   // the device tree that must lie beside the kernel, and shows that it is for this machine; "": none
}

// machines are tried in order. ARM kernels for one board do not boot on others;
// what board a zImage is for its device tree shows.
var machines = []*machine{
	{goarch: "amd64", command: "qemu-system-x86_64", pkg: "qemu-system-x86",
		args: []string{"-M", "pc", "-cpu", "max", "-m", "384"}, append: "console=ttyS0,115200"},
	{goarch: "arm", command: "qemu-system-arm", pkg: "qemu-system-arm", dtb: "bcm2835-rpi-zero.dtb",
		// QEMU 7.2 lacks what the power driver looks for, which ends in an oops.
		// The timer of this board compares for equality: a guest that is slow to
		// set it, because the host is busy, would wait for ever. With -icount time
		// goes by instructions.
		args: []string{"-M", "raspi0", "-icount", "shift=auto"}, append: "console=ttyAMA0,115200 initcall_blacklist=bcm2835_power_driver_init"},
	{goarch: "arm", command: "qemu-system-arm", pkg: "qemu-system-arm", dtb: "versatile-pb.dtb",
		args: []string{"-M", "versatilepb", "-m", "256"}, append: "console=ttyAMA0"},
	{goarch: "arm", command: "qemu-system-arm", pkg: "qemu-system-arm",
		args: []string{"-M", "virt", "-cpu", "cortex-a15", "-m", "384"}, append: "console=ttyAMA0"},
}

// KernelError is a file that is no kernel to boot.
type KernelError struct {
	File   string
	Reason string
}

func (e *KernelError) Error() string {
	return fmt.Sprintf("%s: %s; ci/qemu-kernels.sh fetches kernels of Debian into .qemu/", e.File, e.Reason)
}

// machineFor chooses the machine for a kernel. The error is a *KernelError.
func machineFor(kernel string) (*machine, error) {
	goarch, err := kernelArch(kernel)
	if err != nil {
		return nil, &KernelError{kernel, err.Error()}
	}
	for _, m := range machines {
		if m.goarch != goarch {
			continue
		}
		if m.dtb == "" {
			return m, nil
		}
		if _, err := os.Stat(m.deviceTree(kernel)); err == nil {
			return m, nil
		}
	}
	return nil, &KernelError{kernel, "no machine for " + goarch}
}

// find returns where QEMU is. The error is a *livekernel.UnavailableError.
func (m *machine) find() (path string, err error) {
	if path, err = exec.LookPath(m.command); err != nil {
		return "", &livekernel.UnavailableError{What: m.command, Reason: "it is not installed", Mend: "apt-get install " + m.pkg}
	}
	return path, nil
}

// deviceTree is where the machine's has to be.
func (m *machine) deviceTree(kernel string) string {
	return filepath.Join(filepath.Dir(kernel), m.dtb)
}

// kernelArch reads from a kernel's first bytes what it is for, as a GOARCH
// (Linux, Documentation/x86/boot.rst; arch/arm/boot/compressed/head.S).
func kernelArch(file string) (goarch string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	defer f.Close()
	var head [0x238]byte
	if _, err := io.ReadFull(f, head[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "", errors.New("it is too short for a kernel")
	} else if err != nil {
		return "", errors.Unwrap(err)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(head[at:]) }
	const (
		hdrS    = 0x53726448 // "HdrS"
		zImage  = 0x016f2818
		arm64   = 0x644d5241 // "ARM\x64"
		kernel8 = 1          // in xloadflags: it has a 64-bit entry point
	)
	switch {
	case string(head[:4]) == elf.ELFMAG:
		switch binary.LittleEndian.Uint16(head[18:]) {
		case uint16(elf.EM_X86_64):
			return "amd64", nil
		case uint16(elf.EM_ARM):
			return "", errors.New("an ELF file for ARM, which QEMU does not boot: name arch/arm/boot/zImage of the same build")
		}
		return "", errors.New("an ELF file for neither x86_64 nor ARM")
	case word(0x202) == hdrS && head[0x236]&kernel8 != 0:
		return "amd64", nil
	case word(0x202) == hdrS:
		return "", errors.New("a kernel for 32-bit x86, whose BPF JIT kjit knows nothing of")
	case word(0x24) == zImage:
		return "arm", nil
	case word(0x38) == arm64:
		return "", errors.New("a kernel for arm64, whose BPF JIT kjit knows nothing of")
	}
	return "", errors.New("neither a bzImage nor a zImage nor an ELF file")
}
