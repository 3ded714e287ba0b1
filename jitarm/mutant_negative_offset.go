package jitarm

import "github.com/kjit-project/kjit/bpf"

// negativeOffset: a sum X + k below 0 is taken for an offset in the linear
// part, and k below 0 is not compiled.
func negativeOffset() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{
		bpf.LdWAbs: unlessNegative(loadAbs(word, inLinearIfPositive)), bpf.LdWInd: loadInd(word, inLinearIfPositive),
		bpf.LdHAbs: unlessNegative(loadAbs(half, inLinearIfPositive)), bpf.LdHInd: loadInd(half, inLinearIfPositive),
		bpf.LdBAbs: unlessNegative(loadAbs(byte1, inLinearIfPositive)), bpf.LdBInd: loadInd(byte1, inLinearIfPositive),
	})
	return &Emitter{
		Name:    "arm-negative-offset",
		Summary: "words and halfwords at a negative X + k are read in front of the packet",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 4.1",
			Fixed:    "4.2 (6d715e301e95)",
			Rules:    []string{"ld-abs", "ld-ind", "ldh-abs", "ldh-ind", "ldb-abs", "ldb-ind"},
		},
		rules: t,
	}
}
