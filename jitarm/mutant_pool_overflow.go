package jitarm

// poolOverflow: on ARMv5, the distance of a constant 4 KiB away and farther
// changes the register that is loaded.
func poolOverflow() *Emitter {
	t := linux45()
	t.cpus[v5].constant = fromPoolUnchecked
	return &Emitter{
		Name:    "arm-pool-overflow",
		Summary: "a far literal is loaded from elsewhere into another register on ARMv5",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 4.0",
			Fixed:    "4.1 (0b59d8806a31)",
		},
		rules: t,
	}
}
