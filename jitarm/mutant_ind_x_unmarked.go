package jitarm

import "github.com/kjit-project/kjit/bpf"

// indXUnmarked: an indirect load does not count as a use of X. If it is the
// only one, X is what the caller had in r5.
func indXUnmarked() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{
		bpf.LdWInd: loadIndUnmarked(word, inLinear),
		bpf.LdHInd: loadIndUnmarked(half, inLinear),
		bpf.LdBInd: loadIndUnmarked(byte1, inLinear),
	})
	return &Emitter{
		Name:    "arm-ind-x-unmarked",
		Summary: "an indirect load as the only use of X adds what the caller had in r5",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 4.3",
			Fixed:    "4.4",
			Rules:    []string{"ld-ind", "ldh-ind", "ldb-ind", "entry-x"},
		},
		rules: t,
	}
}
