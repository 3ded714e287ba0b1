package jit

import "github.com/kjit-project/kjit/bpf"

// Rule emits the code of one instruction with the compiler C of an
// architecture.
type Rule[C any] func(c C, in bpf.Instruction)

// Entry is what a table knows about an instruction.
type Entry[C any] struct {
	Emit Rule[C] // nil: the JIT declines programs that hold it

	// SetsA: as the first instruction it needs no cleared A.
	SetsA bool
}

// Table has the rules of an emitter.
type Table[C any] struct {
	Codes [256]Entry[C]               // by opcode
	Exts  [bpf.NumExtensions]Entry[C] // by ancillary load, n/4

	// Seccomp has the codes that mean something else in seccomp filters; nil:
	// all filters are left to the interpreter.
	Seccomp map[uint16]Entry[C]
}

// Lookup returns the entry for an instruction of a program of the given kind.
func (t *Table[C]) Lookup(in bpf.Instruction, kind bpf.Kind) Entry[C] {
	if kind == bpf.Seccomp {
		if e, ok := t.Seccomp[in.Code]; ok {
			return e
		}
	} else if ext, ok := in.Extension(); ok {
		return t.Exts[ext/4]
	}
	if in.Code >= uint16(len(t.Codes)) {
		return Entry[C]{}
	}
	return t.Codes[in.Code]
}

// Replace puts other rules in place of those for the given opcodes.
func (t *Table[C]) Replace(rules map[uint16]Rule[C]) {
	for code, r := range rules {
		t.Codes[code].Emit = r
	}
}

// ReplaceExts puts other rules in place of those for the given ancillary loads.
func (t *Table[C]) ReplaceExts(rules map[bpf.Extension]Rule[C]) {
	for ext, r := range rules {
		t.Exts[ext/4].Emit = r
	}
}
