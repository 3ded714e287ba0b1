package kernelabi

import (
	"maps"

	"github.com/kjit-project/kjit/bpf"
)

// profilesARM are the built-in ARM kernels, oldest first.
var profilesARM = []*Profile{
	armProfile("linux-3.12-armv5", ARMv5, linux312ARM, Features{}, "the ARM BPF JIT of Linux 3.12 with its faults, on ARMv5"),
	armProfile("linux-3.12-armv7", ARMv7, linux312ARM, Features{}, "the ARM BPF JIT of Linux 3.12 with its faults, on ARMv7"),
	armProfile("seccomp-2013-armv5", ARMv5, seccomp2013ARM, Features{}, "reconstruction of the seccomp JIT posted in 2013, on ARMv5"),
	armProfile("seccomp-2013-armv7", ARMv7, seccomp2013ARM, Features{}, "reconstruction of the seccomp JIT posted in 2013, on ARMv7"),
	armProfile("linux-4.5-armv5", ARMv5, linux45ARM, Features{}, "the classic ARM BPF JIT as of Linux 4.5, on ARMv5"),
	armProfile("linux-4.5-armv7", ARMv7, linux45ARM, Features{}, "the classic ARM BPF JIT as of Linux 4.5, on ARMv7 without a divide instruction"),
	armProfile("linux-4.5-armv7-idiv", ARMv7, linux45ARM, Features{Idiva: true}, "the classic ARM BPF JIT as of Linux 4.5, on ARMv7 with a divide instruction"),
	armProfile("linux-4.5-armv7-fp", ARMv7, linux45ARM, Features{FramePointer: true}, "linux-4.5-armv7 built with frame pointers"),
	armProfile("kjit-armv5", ARMv5, kjitARM, Features{}, "no kernel's: the 4.5 JIT without its faults, on ARMv5"),
	armProfile("kjit-armv7", ARMv7, kjitARM, Features{}, "no kernel's: the 4.5 JIT without its faults, on ARMv7 without a divide instruction"),
	armProfile("kjit-armv7-idiv", ARMv7, kjitARM, Features{Idiva: true}, "no kernel's: the 4.5 JIT without its faults, on ARMv7 with a divide instruction"),
}

// kernelARM is what ARM profiles of one kernel share.
type kernelARM struct {
	emitter string
	layout  Layout
	symbols map[string]uint64
	rules   bpf.Rules
	loads   string
}

var (
	linux312ARM    = kernelARM{"linux-3.12-arm", ARM312Full, helpersARM3, bpf.RulesLinux3_12, LoadHelpers312}
	seccomp2013ARM = kernelARM{"seccomp-2013-arm", ARM312Full, helpers2013, bpf.RulesLinux3_12, LoadHelpers312}
	linux45ARM     = kernelARM{"linux-4.5-arm", ARM44Full, helpersARM4, bpf.RulesLinux4_5, LoadHelpers42}
	kjitARM        = kernelARM{"kjit-arm", ARM44Full, helpersARM4, bpf.RulesLinux4_5, LoadHelpers42}
)

// armProfile is one kernel on one processor. The classic ARM JIT never followed
// the interpreter where that changed what a load without a device returns, so
// all of them have the semantics of 3.x.
func armProfile(name string, arch Arch, k kernelARM, features Features, summary string) *Profile {
	features.ThreadSize = 8192
	features.Endian = "little"
	features.SMP = arch == ARMv7
	return &Profile{
		Name:        name,
		Arch:        arch,
		Emitter:     k.emitter,
		Summary:     summary,
		Layout:      k.layout,
		Symbols:     k.symbols,
		Base:        0xbf00c000, // among the modules
		LoadHelpers: k.loads,
		Features:    features,
		Rules:       k.rules,
		Semantics:   semantics3,
	}
}

// The C functions that ARM code calls. All take the skb in r0 except jit_udiv
// and jit_mod. The load helpers of 3.12 know no negative offsets: they pass
// them to skb_copy_bits.
var (
	helpersARM3 = map[string]uint64{
		"jit_get_skb_b": 0xc0700100,
		"jit_get_skb_h": 0xc0700200,
		"jit_get_skb_w": 0xc0700300,
		"jit_udiv":      0xc0700400,
	}
	helpersARM4 = withSymbols(helpersARM3, map[string]uint64{
		"jit_mod":      0xc0700500,
		"skb_get_poff": 0xc0700600,
	})
	helpers2013 = withSymbols(helpersARM3, map[string]uint64{
		"seccomp_bpf_load": 0xc0700700,
	})
)

func withSymbols(symbols, more map[string]uint64) map[string]uint64 {
	all := maps.Clone(symbols)
	maps.Copy(all, more)
	return all
}
