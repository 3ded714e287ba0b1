package jitarm

import "github.com/kjit-project/kjit/bpf"

// vlanMask: the tag is cut to the VLAN's number, and a tag's presence is told
// by 0x1000 instead of 1.
func vlanMask() *Emitter {
	t := linux45()
	t.ReplaceExts(map[bpf.Extension]rule{
		bpf.ExtVlanTCI: extVlanMasked(0xfff),
		bpf.ExtVlanPr:  extVlanMasked(vlanTagPresent),
	})
	return &Emitter{
		Name:    "arm-vlan-mask",
		Summary: "the VLAN tag lacks its upper bits, and its presence is 1000 (hex)",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.9 or so to 4.1",
			Fixed:    "4.2",
			Rules:    []string{"vlan_tci", "vlan_pr"},
		},
		rules: t,
	}
}
