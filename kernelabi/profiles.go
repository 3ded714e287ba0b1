package kernelabi

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// profiles are the built-in kernels: by architecture, oldest first, and those
// whose images can only be imported at the end.
var profiles = slices.Concat(profilesX86, profilesARM, profilesModern)

var profilesX86 = []*Profile{
	{
		Name:      "linux-3.0-x86_64",
		Arch:      X86_64,
		Emitter:   "linux-3.0",
		Summary:   "the first BPF JIT, Linux 3.0 and 3.1, with its faults",
		Layout:    L60,
		Symbols:   symbolsX86(helpers3_0, 0xffffffff813a2c30, 0xffffffff81338a50),
		Base:      0xffffffffa00b5000,
		Features:  Features{SMP: true},
		Rules:     bpf.RulesLinux3_0,
		Semantics: semantics3,
	},
	{
		Name:      "linux-3.10-x86_64",
		Arch:      X86_64,
		Emitter:   "linux-3.10",
		Summary:   "the classic BPF JIT as of Linux 3.10.99; same bytes in 3.14 and 3.15",
		Layout:    L68,
		Symbols:   symbolsX86(helpers3_10, 0xffffffff810630b0, 0xffffffff8143f6a0),
		Base:      0xffffffffa00b5000,
		Features:  Features{SMP: true},
		Rules:     bpf.RulesLinux3_10,
		Semantics: semantics3,
	},
	{
		Name:      "inline-x86_64",
		Arch:      X86_64,
		Emitter:   "inline",
		Summary:   "no kernel's: the 3.10 JIT with packet loads inlined; takes seccomp filters",
		Layout:    L68,
		Symbols:   symbolsX86(helpers3_10, 0xffffffff810630b0, 0xffffffff8143f6a0),
		Base:      0xffffffffa00b5000,
		Features:  Features{SMP: true},
		Rules:     bpf.RulesLinux3_10,
		Semantics: semantics3,
	},
}

// semantics3 is what the interpreters of Linux 3.x do.
var semantics3 = Semantics{VlanPresentInTCI: true}

// helpers3_0 and helpers3_10 are the entry points of the assembled load helpers,
// as offsets in their block of code (Linux 3.0.1 and 3.10.99, bpf_jit.S). The
// emitter needs nothing but addresses; real distances keep images plausible.
var (
	helpers3_0 = map[string]uint64{
		"sk_load_word_ind": 0x00,
		"sk_load_word":     0x04,
		"sk_load_half_ind": 0x15,
		"sk_load_half":     0x19,
		"sk_load_byte_ind": 0x2d,
		"sk_load_byte":     0x31,
		"sk_load_byte_msh": 0x40,
	}
	helpers3_10 = map[string]uint64{
		"sk_load_word":                     0x00,
		"sk_load_word_positive_offset":     0x08,
		"sk_load_half":                     0x19,
		"sk_load_half_positive_offset":     0x21,
		"sk_load_byte":                     0x35,
		"sk_load_byte_positive_offset":     0x3d,
		"sk_load_byte_msh":                 0x48,
		"sk_load_byte_msh_positive_offset": 0x50,
		"sk_load_word_negative_offset":     0x114,
		"sk_load_half_negative_offset":     0x13e,
		"sk_load_byte_negative_offset":     0x16a,
		"sk_load_byte_msh_negative_offset": 0x18f,
	}
)

// symbolsX86 places the helper block at block and the C functions that its slow
// paths call from skbCopyBits on. cpu_number is not an address but the per-CPU
// offset that a gs-relative load takes.
func symbolsX86(helpers map[string]uint64, block, skbCopyBits uint64) map[string]uint64 {
	symbols := map[string]uint64{
		"cpu_number":                           0xb0a0,
		"skb_copy_bits":                        skbCopyBits,
		"bpf_internal_load_pointer_neg_helper": skbCopyBits + 0x1d3c0,
	}
	for name, offset := range helpers {
		symbols[name] = block + offset
	}
	return symbols
}

// Current is today's Linux, for interpreting without a JIT: it has rules and
// semantics and nothing that compiled code would need.
func Current() *Profile { return current }

var current = &Profile{
	Name:      "linux",
	Summary:   "today's Linux, interpreter only",
	Rules:     bpf.RulesCurrent,
	Semantics: Semantics{NoDeviceKeepsA: true, NlattrFailLoads0: true, NegativeOffsetsReachFrags: true},
}
