package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

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
	codes [256]entry               // by opcode
	exts  [bpf.NumExtensions]entry // by ancillary load, n/4

	// seccomp has the codes that mean something else in seccomp filters; nil:
	// all filters are left to the interpreter.
	seccomp map[uint16]entry

	cpus     [numModels]cpu
	loadHalf func(c *Compiler, rd arm.Reg, f field) // a 16-bit field of the skb
	frame    frame
}

// lookup returns the entry for an instruction of a program of the given kind.
func (t *table) lookup(in bpf.Instruction, kind bpf.Kind) entry {
	if kind == bpf.Seccomp {
		if e, ok := t.seccomp[in.Code]; ok {
			return e
		}
	} else if ext, ok := in.Extension(); ok {
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

// replaceExts puts other rules in place of those for the given ancillary loads.
func (t *table) replaceExts(rules map[bpf.Extension]rule) {
	for ext, r := range rules {
		t.exts[ext/4].emit = r
	}
}

// seen says what a program needs of the frame. It only grows: the first pass
// collects, the second uses it.
type seen uint32

const (
	seenMem   seen = 1<<bpf.MemWords - 1 // bit k: M[k]
	seenX     seen = 1 << (bpf.MemWords + iota)
	seenReadX      // X is read in front of everything that writes it
	seenCall
	seenSkb  // r6
	seenData // r7 and r8: the packet
)
