package jitx86

import "github.com/kjit-project/kjit/internal/jit"

// rule emits the code of one instruction.
type rule = jit.Rule[*Compiler]

// entry is what a table knows about an instruction.
type entry = jit.Entry[*Compiler]

// table is an emitter without its name.
type table struct {
	jit.Table[*Compiler]

	passes passes
	frame  frame
}

// replaceJumps rebuilds the conditional jumps with another way to skip.
func (t *table) replaceJumps(skip skipRule) {
	for code, j := range condJumps {
		t.Codes[code].Emit = condJump(j.compare, j.cc)(skip)
	}
}

// seen says which parts of the frame a program needs. It only grows.
type seen uint8

const (
	seenData seen = 1 << iota // r8 and r9d: the packet
	seenX                     // ebx
	seenMem                   // M[]
)
