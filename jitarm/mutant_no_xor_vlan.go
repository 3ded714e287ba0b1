package jitarm

import "github.com/kjit-project/kjit/bpf"

// noXorVlan: a JIT that does not know XOR and the VLAN loads leaves programs with
// them to the interpreter. That is no wrong code, but no code.
func noXorVlan() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{bpf.XorK: nil, bpf.XorX: nil})
	t.ReplaceExts(map[bpf.Extension]rule{bpf.ExtXorX: nil, bpf.ExtVlanTCI: nil, bpf.ExtVlanPr: nil})
	return &Emitter{
		Name:    "arm-no-xor-vlan",
		Summary: "programs with XOR or VLAN loads are not compiled",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 3.6, perhaps up to 3.11",
			Fixed:    "3.12 at the latest",
			Rules: []string{
				"no-rule-for-opcode-0xa4", "no-rule-for-opcode-0xac",
				"no-rule-for-xor_x", "no-rule-for-vlan_tci", "no-rule-for-vlan_pr",
			},
		},
		rules: t,
	}
}
