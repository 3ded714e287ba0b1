package jitarm

// xOnePath: whether X needs to be cleared goes by the order of the text, in which
// something writes it before anything reads it. A way through the program that
// jumps over the write reads what the caller had in r5.
func xOnePath() *Emitter {
	t := kjit()
	t.frame.readX = readXByText
	return &Emitter{
		Name:    "arm-x-one-path",
		Summary: "X is what the caller had in r5 where a program writes it on one path only",
		Fault: &Fault{
			Base:     "kjit-arm",
			Versions: "3.4 to 4.13",
			Fixed:    "never; 4.14 has another JIT (39c13c204bb1)",
			Rules:    []string{"entry-x"},
		},
		rules: t,
	}
}
