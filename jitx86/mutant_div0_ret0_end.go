package jitx86

import "github.com/kjit-project/kjit/bpf"

// div0Ret0End: a division by X = 0 jumps to the end of the first RET #0 instead
// of its start, and goes on with whatever follows: the next instruction, an
// endless loop, or what lies behind the image.
func div0Ret0End() *Emitter {
	t := linux310()
	t.Replace(map[uint16]rule{
		bpf.DivX: divX(ret0End),
		bpf.ModX: modX(ret0End),
	})
	return &Emitter{
		Name:    "x86-div0-ret0-end",
		Summary: "division by X = 0 continues behind the first RET #0",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.2",
			Fixed:    "3.3 (d00a9dd21bdf)",
			Rules:    []string{"div-x", "mod-x"},
		},
		rules: t,
	}
}
