package jitx86

import "github.com/kjit-project/kjit/bpf"

// rule emits the code of one instruction.
type rule func(c *Compiler, in bpf.Instruction)

// entry is what a table knows about an instruction.
type entry struct {
	emit rule // nil: the JIT declines programs that hold it

	// setsA: as the first instruction it needs no cleared A.
	setsA bool
}

// table is an emitter without its name.
type table struct {
	codes  [256]entry               // by opcode
	exts   [bpf.NumExtensions]entry // by ancillary load, n/4
	passes passes
}

// lookup returns the entry for an instruction.
func (t *table) lookup(in bpf.Instruction) entry {
	if ext, ok := in.Extension(); ok {
		return t.exts[ext/4]
	}
	if in.Code >= uint16(len(t.codes)) {
		return entry{}
	}
	return t.codes[in.Code]
}

// replace puts other rules in place of those for the given opcodes.
func (t *table) replace(rules map[uint16]rule) {
	for code, r := range rules {
		t.codes[code].emit = r
	}
}

// replaceJumps rebuilds the conditional jumps with another way to skip.
func (t *table) replaceJumps(skip skipRule) {
	for code, jump := range condJumps {
		t.codes[code].emit = jump(skip)
	}
}

// seen says which parts of the frame a program needs. It only grows.
type seen uint8

const (
	seenData seen = 1 << iota // r8 and r9d: the packet
	seenX                     // ebx
	seenMem                   // M[]
)
