package kernelabi

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// privilegedX86 are the instructions that only a kernel may execute, or that
// leave it, as far as the decoder knows them. Moves from and to control and
// debug registers are told by their operands.
var privilegedX86 = map[x86asm.Op]bool{
	x86asm.CLI: true, x86asm.STI: true, x86asm.HLT: true, x86asm.CLTS: true, x86asm.LMSW: true,
	x86asm.LGDT: true, x86asm.LIDT: true, x86asm.LLDT: true, x86asm.LTR: true,
	x86asm.INVD: true, x86asm.WBINVD: true, x86asm.INVLPG: true, x86asm.INVPCID: true,
	x86asm.RDMSR: true, x86asm.WRMSR: true, x86asm.SWAPGS: true, x86asm.XSETBV: true,
	x86asm.IN: true, x86asm.OUT: true, x86asm.INSB: true, x86asm.INSD: true, x86asm.INSW: true,
	x86asm.OUTSB: true, x86asm.OUTSD: true, x86asm.OUTSW: true,
	x86asm.POPF: true, x86asm.POPFD: true, x86asm.POPFQ: true,
	x86asm.IRET: true, x86asm.IRETD: true, x86asm.IRETQ: true,
	x86asm.SYSCALL: true, x86asm.SYSENTER: true, x86asm.SYSEXIT: true, x86asm.SYSRET: true,
	x86asm.WRFSBASE: true, x86asm.WRGSBASE: true, x86asm.MONITOR: true, x86asm.MWAIT: true,
}

// Privileged returns a *CodeError for the first instruction of an x86_64 image
// that has no place in a compiled filter, because it changes the state of the
// processor behind the kernel's back: with it, code could switch off the very
// protections by which it is judged. Of ARM code such instructions are not even
// decoded. It looks as far as the code can be decoded, from its beginning on and
// from where it jumps to, which may be inside another instruction.
func (i *Image) Privileged() error {
	if i.Profile == nil || i.Profile.Arch != X86_64 {
		return nil
	}
	seen := make([]bool, len(i.Code))
	for from := []int{0}; len(from) > 0; {
		at := from[len(from)-1]
		from = from[:len(from)-1]
		for at < len(i.Code) && !seen[at] {
			seen[at] = true
			ins, err := decodeX86(i.Code[at:])
			if err != nil {
				break
			}
			if isPrivileged(ins) {
				return &CodeError{at, strings.ToLower(ins.String()) + ": a compiled filter has no business with the processor's state"}
			}
			at += ins.Len
			if rel, ok := ins.Args[0].(x86asm.Rel); ok {
				if to := int64(at) + int64(rel); to >= 0 && to < int64(len(i.Code)) && !seen[to] {
					from = append(from, int(to))
				}
			}
		}
	}
	return nil
}

func isPrivileged(ins x86asm.Inst) bool {
	for _, arg := range ins.Args {
		if reg, ok := arg.(x86asm.Reg); ok && (reg >= x86asm.CR0 && reg <= x86asm.CR15 || reg >= x86asm.DR0 && reg <= x86asm.DR15) {
			return true
		}
	}
	return privilegedX86[ins.Op]
}
