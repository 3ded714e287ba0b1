package jitarm

import "github.com/kjit-project/kjit/internal/arm"

// v5Swap16Left: on ARMv5 the bytes of the protocol are shifted to the left
// only, twice by the low byte of r8 where 8 was meant. What comes out depends
// on what the caller had in r8.
func v5Swap16Left() *Emitter {
	t := linux45()
	t.cpus[v5].swap16 = swap16Left
	return &Emitter{
		Name:    "arm-v5-swap16-left",
		Summary: "the protocol is shifted by the caller's r8 on ARMv5",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 3.6, perhaps up to 3.11",
			Fixed:    "3.12 at the latest",
			Rules:    []string{"proto"},
		},
		rules: t,
	}
}

func swap16Left(c *Compiler) {
	c.Mov(arm.AL, arm.R1, arm.ShiftedBy(arm.R0, arm.LSL, arm.R8))
	c.Alu(arm.AL, arm.Orr, a, arm.R1, arm.Shifted(arm.R0, arm.LSL, 8))
	c.Mov(arm.AL, a, arm.Shifted(a, arm.LSL, 8))
	c.Mov(arm.AL, a, arm.ShiftedBy(a, arm.LSL, arm.R8))
}
