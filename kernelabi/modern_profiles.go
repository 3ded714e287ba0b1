package kernelabi

import "github.com/kjit-project/kjit/bpf"

// profilesModern are kernels that convert classic programs to internal (eBPF)
// instructions and compile those. Nothing here emits such code: images are
// imported. Load helpers have the convention of C functions, bpf_skb_load_helper_N(skb,
// data, headlen, offset); the context is in rdi, or in r0. On 32-bit ARM every
// argument and the result are pairs of registers or stack words.
//
// Addresses of symbols are those of one boot of each kernel.
var profilesModern = []*Profile{
	modernProfile("linux-6.18-x86_64", X86_64, Features{}, "images of Linux 6.18, x86_64: imported, not emitted", layouts6["6.18-x86_64"], 0xffffffffc0022000,
		map[string]uint64{
			"bpf_skb_load_helper_8":   0xffffffff81e9ad60,
			"bpf_skb_load_helper_16":  0xffffffff81e9ae50,
			"bpf_skb_load_helper_32":  0xffffffff81e9af50,
			"srso_alias_return_thunk": 0xffffffff8110410b,
		}).reachingFrags(),
	modernProfile("linux-6.1-x86_64", X86_64, Features{}, "images of Linux 6.1, x86_64: imported, not emitted", layouts6["6.1-amd64"], 0xffffffffc009e000,
		map[string]uint64{
			"bpf_skb_load_helper_8":  0xffffffffb1403510,
			"bpf_skb_load_helper_16": 0xffffffffb14035f0,
			"bpf_skb_load_helper_32": 0xffffffffb14036d0,
		}),
	modernProfile("linux-6.1-armv7", ARMv7, Features{Idiva: true}, "images of Linux 6.1, ARMv7 (multi-platform): imported, not emitted", layouts6["6.1-arm"], 0xbf000000,
		map[string]uint64{
			"bpf_skb_load_helper_8":  0xc0b2c628,
			"bpf_skb_load_helper_16": 0xc0b2c708,
			"bpf_skb_load_helper_32": 0xc0b2c7f8,
		}),
	modernProfile("linux-6.1-armv6", ARMv6, Features{}, "images of Linux 6.1, ARMv6 (ARM1176): imported, not emitted", layouts6["6.1-arm"], 0xbf000000,
		map[string]uint64{
			"bpf_skb_load_helper_8":  0xc073afe8,
			"bpf_skb_load_helper_16": 0xc073b0d0,
			"bpf_skb_load_helper_32": 0xc073b1d4,
			"jit_udiv32":             0xc0118d58,
			"jit_mod32":              0xc0118d6c,
		}),
	modernProfile("linux-6.1-armv5", ARMv5, Features{}, "images of Linux 6.1, ARMv5 with few options: imported, not emitted", layouts6["6.1-armv5"], 0xbf000000,
		map[string]uint64{
			"bpf_skb_load_helper_8":  0xc0265364,
			"bpf_skb_load_helper_16": 0xc02654f0,
			"bpf_skb_load_helper_32": 0xc02655d8,
			"jit_udiv32":             0xc0012250,
			"jit_mod32":              0xc001225c,
		}),
}

// modernProfile is one kernel of the 6 series.
func modernProfile(name string, arch Arch, features Features, summary string, layout Layout, base uint64, symbols map[string]uint64) *Profile {
	if arch != X86_64 {
		features.ThreadSize = 8192
		features.Endian = "little"
	}
	features.SMP = arch == X86_64 || arch == ARMv7
	return &Profile{
		Name: name, Arch: arch, Summary: summary,
		Layout: layout, Symbols: symbols, Base: base,
		Features:  features,
		LogsCopy:  arch == X86_64,
		Rules:     bpf.RulesCurrent,
		Semantics: semantics6,
	}
}

// semantics6 is what kernels of the 6 series before 6.16 do.
var semantics6 = Semantics{NoDeviceKeepsA: true, NlattrFailLoads0: true}

// reachingFrags changes a profile to what Linux 6.16 and later do with negative
// offsets.
func (p *Profile) reachingFrags() *Profile {
	p.Semantics.NegativeOffsetsReachFrags = true
	return p
}

// Fields that layouts of later kernels have.
const (
	SkbVlanProto   = "sk_buff.vlan_proto"
	SkbVlanPresent = "sk_buff.vlan_present" // bit 0 of the byte; from 6.2 on there is none
	SkbVlanAll     = "sk_buff.vlan_all"     // vlan_proto and vlan_tci as one word
)

// columns6 are the fields of rows6. A 0 in a row is a field that there is not,
// or that nobody measured.
var columns6 = [...]string{
	SkbLen, SkbDataLen, SkbDev, SkbQueue, SkbPktType, SkbVlanPresent, SkbVlanAll, SkbIif, SkbRxhash, SkbVlanProto, SkbVlanTCI,
	SkbMark, SkbProtocol, SkbTransport, SkbNetHeader, SkbMacHeader, SkbTail, SkbEnd, SkbHead, SkbData, SkbSize,
	DevIfindex, DevType,
}

// rows6 are layouts of the 6 series: x86_64 from the BTF of a 6.18.44 and of
// Debian's 6.1.176, ARM read off images (Debian's armmp and rpi kernels have no
// BTF; "6.1-armv5" is a kernel with few options).
var rows6 = map[string][len(columns6)]int{
	"6.18-x86_64": {112, 116, 16, 124, 128, 0, 152, 144, 148, 152, 154, 164, 176, 178, 180, 182, 184, 188, 192, 200, 224, 224, 536},
	"6.1-amd64":   {112, 116, 16, 124, 128, 130, 0, 144, 148, 152, 154, 168, 180, 182, 184, 186, 188, 192, 200, 208, 232, 216, 296},
	"6.1-arm":     {84, 88, 8, 96, 100, 102, 0, 0, 120, 124, 126, 140, 152, 0, 0, 0, 0, 0, 0, 172, 0, 124, 208},
	"6.1-armv5":   {80, 84, 8, 92, 96, 98, 0, 0, 112, 116, 118, 128, 140, 0, 0, 0, 0, 0, 0, 160, 0, 124, 208},
}

// layouts6 are the layouts of rows6 by name.
var layouts6 = func() map[string]Layout {
	layouts := make(map[string]Layout, len(rows6))
	for name, row := range rows6 {
		layout := Layout{}
		for column, field := range columns6 {
			if row[column] != 0 {
				layout[field] = row[column]
			}
		}
		layouts[name] = layout
	}
	return layouts
}()
