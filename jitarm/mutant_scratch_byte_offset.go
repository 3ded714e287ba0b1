package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

// scratchByteOffset: the cells of M[] are a byte apart and overlap.
func scratchByteOffset() *Emitter {
	t := linux45()
	t.Replace(map[uint16]rule{
		bpf.LdMem: ldMem(cellByByte), bpf.LdxMem: ldxMem(cellByByte),
		bpf.St: st(cellByByte), bpf.Stx: stx(cellByByte),
	})
	return &Emitter{
		Name:    "arm-scratch-byte-offset",
		Summary: "M[k] is at sp + k instead of sp + 4k",
		Fault: &Fault{
			Base:     "linux-4.5-arm",
			Versions: "3.4 to 3.6, perhaps up to 3.11",
			Fixed:    "3.12 at the latest",
			Rules:    []string{"ld-mem", "ldx-mem", "st", "stx"},
		},
		rules: t,
	}
}

func cellByByte(k uint32) arm.Mem { return arm.At(arm.SP, int32(k)) }
