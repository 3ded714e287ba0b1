package seccompdata

import (
	"fmt"
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

	table func() *table // made when it is first needed: most commands name no call
}

var (
	X86_64  = &ABI{Name: "x86_64", Arch: ArchX86_64, Bits: 64, table: tableOf(arch.X86_64, 0, onlyX86_64)}
	X32     = &ABI{Name: "x32", Arch: ArchX86_64, Bit: X32Bit, Bits: 64, table: tableOf(arch.X32, X32Bit, notX32)}
	I386    = &ABI{Name: "i386", Arch: ArchI386, Bits: 32, table: tableOf(arch.I386, 0)}
	ARM     = &ABI{Name: "arm", Arch: ArchARM, Bits: 32, table: tableOf(arch.ARM, 0)}
	AARCH64 = &ABI{Name: "aarch64", Arch: ArchAARCH64, Bits: 64, table: tableOf(arch.AARCH64, 0, notAARCH64)}
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

// Label names a call for people: by its name, or by its number.
func (a *ABI) Label(nr uint32) string {
	if name, ok := a.Call(nr); ok {
		return name
	}
	return fmt.Sprint(int32(nr))
}

// Calls returns the numbers of the calls that a kernel has, in ascending order,
// with Bit set. See [Since].
func (a *ABI) Calls(k Kernel) []uint32 {
	return slices.DeleteFunc(a.Numbers(), func(nr uint32) bool { return !a.has(nr, k) })
}

func (a *ABI) has(nr uint32, k Kernel) bool {
	since := Since(a, nr)
	return k.AtLeast(since.Major, since.Minor)
}

// TableSize is the number of calls in a kernel's table, with the holes: numbers
// from there on are none of it. Calls of x32 and ARM's private calls are in no
// table. A kernel for ARM rounds up to what an ARM instruction can compare with
// (arch/arm/tools/syscallnr.sh); the same calls on an AARCH64 kernel are not
// rounded, see [ABI.TableSizeOn].
func (a *ABI) TableSize(k Kernel) int { return a.TableSizeOn(a, k) }

// TableSizeOn is TableSize on a kernel for another ABI of the same processor.
func (a *ABI) TableSizeOn(native *ABI, k Kernel) int {
	size := 0
	for _, nr := range a.Calls(k) {
		if nr < firstPrivate {
			size = max(size, int(nr)+1)
		}
	}
	if a == ARM && native == ARM && size > 256 {
		size = (size + 3) &^ 3
	}
	return size
}
