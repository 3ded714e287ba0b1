package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// rule emits the code of one instruction.
type rule = jit.Rule[*Compiler]

// entry is what a table knows about an instruction.
type entry = jit.Entry[*Compiler]

// table is an emitter without its name.
type table struct {
	jit.Table[*Compiler]

	cpus     [numModels]cpu
	loadHalf func(c *Compiler, rd arm.Reg, f jit.Field) // a 16-bit field of the skb
	frame    frame
	flow     bool // X is followed through the program: Compiler.held is known
}

// seen says what a program needs of the frame. It only grows: the first pass
// collects, the second uses it.
type seen uint32

const (
	seenMem   seen = 1<<bpf.MemWords - 1 // bit k: M[k]
	seenX     seen = 1 << (bpf.MemWords + iota)
	seenReadX      // X is read where nothing may have written it
	seenCall
	seenSkb  // r6
	seenData // r7 and r8: the packet
)
