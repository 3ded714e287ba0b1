package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

// shiftX32: shifts by X take the count as the processor does, mod 256, and from
// 32 on leave nothing. Kernels of the time promised nothing for those.
func shiftX32() *Emitter {
	t := kjit()
	t.Replace(map[uint16]rule{bpf.LshX: shiftX(arm.LSL), bpf.RshX: shiftX(arm.LSR)})
	return &Emitter{
		Name:    "arm-shift-x-32",
		Summary: "shifts by X >= 32 leave 0, and by 256 A",
		Fault: &Fault{
			Base:     "kjit-arm",
			Versions: "3.4 to 4.13",
			Fixed:    "never; 4.14 has another JIT (39c13c204bb1)",
			Rules:    []string{"lsh-x", "rsh-x"},
		},
		rules: t,
	}
}
