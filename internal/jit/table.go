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
}

// Lookup returns the entry for an instruction of a socket filter.
func (t *Table[C]) Lookup(in bpf.Instruction) Entry[C] {
	if ext, ok := in.Extension(); ok {
		return t.Exts[ext/4]
	}
	return t.Code(in.Code)
}

// Code returns the entry for an opcode, whatever it loads.
func (t *Table[C]) Code(code uint16) Entry[C] {
	if code >= uint16(len(t.Codes)) {
		return Entry[C]{}
	}
	return t.Codes[code]
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
