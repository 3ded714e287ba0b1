package jitx86

// jccSkip6: a conditional jump with both targets skips the jump to jf by 2 or 6
// bytes, although that is 5 bytes long when it is far and nothing when it leads
// to the next instruction. The jump to jt lands inside an instruction.
func jccSkip6() *Emitter {
	t := linux310()
	t.replaceJumps(skip2Or6)
	return &Emitter{
		Name:    "x86-jcc-skip6",
		Summary: "conditional jumps skip the wrong number of bytes",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.1",
			Fixed:    "3.2 (a03ffcf873fe)",
			Rules:    []string{"jeq-k", "jeq-x", "jgt-k", "jgt-x", "jge-k", "jge-x", "jset-k", "jset-x"},
		},
		rules: t,
	}
}

// skip2Or6 takes a far jump for 6 bytes and an empty one for 2.
func skip2Or6(f int) int {
	if isImm8(f) {
		return shortJump
	}
	return 6
}
