package seccompdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// The architectures that kernels report in struct seccomp_data (linux/audit.h).
const (
	ArchX86_64  = 0xc000003e // AUDIT_ARCH_X86_64; x32 calls carry it too
	ArchI386    = 0x40000003 // AUDIT_ARCH_I386
	ArchARM     = 0x40000028 // AUDIT_ARCH_ARM, little endian
	ArchAARCH64 = 0xc00000b7 // AUDIT_ARCH_AARCH64
)

// X32Bit marks the number of an x32 call (__X32_SYSCALL_BIT, asm/unistd.h).
const X32Bit = 0x40000000

// ABI is one way to make system calls: an architecture with its numbers.
type ABI struct {
	Name string // as kjit and seccomp tools call it: x86_64, i386, x32, arm, aarch64
	Arch uint32 // AUDIT_ARCH_*
	Bit  uint32 // set in all its numbers: X32Bit or 0
	Bits int    // size of a register, and so of an argument: 32 or 64

	info *arch.Info
}

var (
	X86_64  = &ABI{Name: "x86_64", Arch: ArchX86_64, Bits: 64, info: arch.X86_64}
	X32     = &ABI{Name: "x32", Arch: ArchX86_64, Bit: X32Bit, Bits: 64, info: arch.X32}
	I386    = &ABI{Name: "i386", Arch: ArchI386, Bits: 32, info: arch.I386}
	ARM     = &ABI{Name: "arm", Arch: ArchARM, Bits: 32, info: arch.ARM}
	AARCH64 = &ABI{Name: "aarch64", Arch: ArchAARCH64, Bits: 64, info: arch.AARCH64}
)

// ABIs returns all that are known.
func ABIs() []*ABI { return []*ABI{X86_64, I386, X32, ARM, AARCH64} }

func (a *ABI) String() string { return a.Name }

// ABIByName finds an ABI. Names of other tools (SCMP_ARCH_X86_64, amd64, x86,
// arm64) are understood.
func ABIByName(name string) (*ABI, error) {
	lower := strings.TrimPrefix(strings.ToLower(name), "scmp_arch_")
	if other, ok := otherNames[lower]; ok {
		lower = other
	}
	var known []string
	for _, a := range ABIs() {
		if a.Name == lower {
			return a, nil
		}
		known = append(known, a.Name)
	}
	return nil, fmt.Errorf("unknown ABI %q; known are %s", name, strings.Join(known, ", "))
}

var otherNames = map[string]string{
	"amd64": "x86_64", "x64": "x86_64",
	"x86": "i386", "386": "i386", "i686": "i386",
	"armel": "arm", "armhf": "arm", "armeabi": "arm",
	"arm64": "aarch64",
}

// ABIOf returns the ABI that a call belongs to, or nil.
func ABIOf(arch, nr uint32) *ABI {
	for _, a := range ABIs() {
		if a.Arch == arch && (a.Arch != ArchX86_64 || nr&X32Bit == a.Bit) {
			return a
		}
	}
	return nil
}

// Call returns the name of the system call with the number nr, which has Bit set.
func (a *ABI) Call(nr uint32) (string, bool) {
	if nr&a.Bit != a.Bit {
		return "", false
	}
	name, ok := a.info.SyscallNumbers[int(nr&^a.Bit)]
	return name, ok
}

// Number returns the number of the system call, with Bit set.
func (a *ABI) Number(name string) (uint32, bool) {
	nr, ok := a.info.SyscallNames[name]
	return uint32(nr) | a.Bit, ok
}

// Numbers returns the numbers of all named calls, in ascending order, with Bit set.
func (a *ABI) Numbers() []uint32 {
	var out []uint32
	for _, nr := range slices.Sorted(maps.Keys(a.info.SyscallNumbers)) {
		out = append(out, uint32(nr)|a.Bit)
	}
	return out
}
