package jitarm

// divArgOrder: the dividend is moved to r0 before the divisor is taken from
// there, so that DIV K divides A by itself.
func divArgOrder() *Emitter {
	t := linux45()
	for _, m := range []model{v5, v7} {
		t.cpus[m].div = callDivide(symUdiv, dividendFirst)
	}
	return &Emitter{
		Name:    "arm-div-arg-order",
		Summary: "DIV K without a divide instruction is A / A",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.14 to 4.0",
			Fixed:    "4.1 (19fc99d0c6ba)",
			Rules:    []string{"div-k"},
		},
		rules: t,
	}
}
