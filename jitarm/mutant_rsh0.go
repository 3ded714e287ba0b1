package jitarm

import "github.com/kjit-project/kjit/bpf"

// rsh0: a shift to the right by 0 is encoded as one by 32.
func rsh0() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{bpf.RshK: rshKAlways})
	return &Emitter{
		Name:    "arm-rsh0",
		Summary: "RSH by 0 leaves 0",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 4.4",
			Fixed:    "4.5",
			Rules:    []string{"rsh-k"},
		},
		rules: t,
	}
}
