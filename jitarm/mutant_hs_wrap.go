package jitarm

import "github.com/kjit-project/kjit/bpf"

// hsWrap: headlen - size is compared as an unsigned number, so that a linear
// part shorter than the load seems to hold everything.
func hsWrap() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{
		bpf.LdWAbs: loadAbs(word, inLinearUnsigned), bpf.LdWInd: loadInd(word, inLinearUnsigned),
		bpf.LdHAbs: loadAbs(half, inLinearUnsigned), bpf.LdHInd: loadInd(half, inLinearUnsigned),
	})
	return &Emitter{
		Name:    "arm-hs-wrap",
		Summary: "words and halfwords are read past a linear part shorter than they are",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 4.1",
			Fixed:    "4.2 (7aed35cb6534)",
			Rules:    []string{"ld-abs", "ld-ind", "ldh-abs", "ldh-ind"},
		},
		rules: t,
	}
}
