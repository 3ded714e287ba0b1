package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
)

// rule emits the code of one instruction.
type rule = jit.Rule[*Compiler]

// entry is what a table knows about an instruction.
type entry = jit.Entry[*Compiler]

// table is an emitter without its name.
type table struct {
	jit.Table[*Compiler]

	// seccomp has the codes that mean something else in seccomp filters; nil:
	// all filters are left to the interpreter.
	seccomp map[uint16]entry

	passes passes
	frame  frame
}

// lookup returns the entry for an instruction of a program of the given kind.
func (t *table) lookup(in bpf.Instruction, kind bpf.Kind) entry {
	if kind != bpf.Seccomp {
		return t.Lookup(in)
	}
	if e, ok := t.seccomp[in.Code]; ok {
		return e
	}
	return t.Code(in.Code)
}

// replaceJumps rebuilds the conditional jumps with another way to skip.
func (t *table) replaceJumps(skip skipRule) {
	for code, jump := range condJumps {
		t.Codes[code].Emit = jump(skip)
	}
}

// seen says which parts of the frame a program needs. It only grows.
type seen uint8

const (
	seenData seen = 1 << iota // r8 and r9d: the packet
	seenX                     // ebx
	seenMem                   // M[]
)
