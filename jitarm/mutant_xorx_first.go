package jitarm

import "github.com/kjit-project/kjit/bpf"

// xorXFirst: the ancillary load A ^= X is thought to set A, like the others.
// As the first instruction it lets out what the caller had in r4.
func xorXFirst() *Emitter {
	t := linux45()
	t.Exts[bpf.ExtXorX/4].SetsA = true
	return &Emitter{
		Name:    "arm-xorx-first",
		Summary: "A is not cleared in front of an ancillary A ^= X",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.16 to 4.4 (since 3480593131e0)",
			Fixed:    "4.5 (55795ef54692)",
			Rules:    []string{"entry-a"},
		},
		rules: t,
	}
}
