package jitarm

import "github.com/kjit-project/kjit/bpf"

// mshNegative: LDX MSH with a negative offset is compiled, and the helper of
// the time, which knows no negative offsets, reads in front of the packet. The
// helper of later kernels would be right.
func mshNegative() *Emitter {
	t := linux312()
	t.Replace(map[uint16]rule{bpf.LdxMsh: loadMsh})
	return &Emitter{
		Name:    "arm-msh-negative",
		Summary: "LDX MSH with a negative offset reads in front of the packet",
		Fault: &Fault{
			Base:     "linux-3.12-arm",
			Versions: "3.4 to 3.6, perhaps up to 3.11",
			Fixed:    "3.12 at the latest",
			Rules:    []string{"ldx-msh"},
		},
		rules: t,
	}
}
