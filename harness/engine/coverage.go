package engine

import (
	"encoding/binary"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// ruleForms is the length of a map of rules and their forms.
const ruleForms = 1 << 16

// Coverage is what a target was seen to do. Maps have 1 at the hash of
// everything seen; what is set in them before the first program does not count
// as new.
type Coverage struct {
	// Entries is the number of different opcodes and ancillary loads that were
	// compiled, Rules that of the different forms that their code took: lengths
	// of jumps and operands, with or without a call, and so on.
	Entries, Rules int
	RuleMap        []byte

	// Edges is the number of pairs of native blocks that ran one after the
	// other, see [emulator.WithCoverage].
	Edges   int
	EdgeMap []byte
}

// Coverage returns that of a target, nil without [Config.Coverage]. It is valid
// until Close and goes on to change.
func (e *Engine) Coverage(target int) *Coverage {
	t := &e.targets[target]
	if t.cover == nil {
		return nil
	}
	return &t.cover.Coverage
}

// cover is the coverage of a target, and the rules of the program at hand.
type cover struct {
	Coverage
	entries [numEntries]byte
	rules   []uint32

	// What is new since the last Recall or Learn.
	newRules []uint32 // in RuleMap
	known    uint64   // the machine's edges before
}

// image gives the image its Rules and returns how many of them are new.
func (c *cover) image(img *kernelabi.Image, prog bpf.Program, kind bpf.Kind) (fresh int) {
	c.rules = c.rules[:0]
	Forms(img, prog, kind, func(entry, rule uint32) {
		if c.entries[entry] == 0 {
			c.entries[entry] = 1
			c.Entries++
		}
		c.rules = append(c.rules, rule)
		if at := rule % ruleForms; c.RuleMap[at] == 0 {
			c.RuleMap[at] = 1
			c.newRules = append(c.newRules, at)
			fresh++
		}
	})
	c.Rules += fresh
	if len(c.rules) == len(prog) { // an image with a broken map is compared all the same
		img.Rules = c.rules
	}
	return fresh
}

// EntryOf is the number of an instruction's opcode, or from 256 on of its
// ancillary load, in features.
func EntryOf(in bpf.Instruction, kind bpf.Kind) uint32 {
	if ext, ok := in.Extension(); ok && kind == bpf.Socket {
		return 256 + uint32(ext)/4
	}
	return uint32(in.Code & 0xff)
}

// Forms calls each with the entry of every instruction that has code, and with
// a hash of the form that its code takes, as rules are counted.
func Forms(img *kernelabi.Image, prog bpf.Program, kind bpf.Kind, each func(entry, rule uint32)) {
	if len(img.PCMap) != len(prog)+1 {
		return
	}
	form := formOf(img)
	for pc, in := range prog {
		lo, hi := img.PCMap[pc], img.PCMap[pc+1]
		if lo < 0 || hi < lo || hi > len(img.Code) {
			return
		}
		entry := EntryOf(in, kind)
		each(entry, form(mix(entry, uint32(hi-lo)), img.Code[lo:hi]))
	}
}

// formOf returns what hashes the forms of an image's code.
func formOf(img *kernelabi.Image) func(hash uint32, code []byte) uint32 {
	if img.Profile != nil && img.Profile.Arch == kernelabi.X86_64 {
		return x86Form
	}
	return armForm
}

// mix adds x to a hash.
func mix(hash, x uint32) uint32 {
	h := (uint64(hash)<<32 | uint64(x)) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return uint32(h * 0xbf58476d1ce4e5b9 >> 32)
}

// armForm adds the kinds of instructions to a hash: condition, operation and
// form of the operand, but no registers and no constants.
func armForm(hash uint32, code []byte) uint32 {
	for ; len(code) >= 4; code = code[4:] {
		word := binary.LittleEndian.Uint32(code)
		shift := 20
		if word>>25&7 == 5 {
			shift = 24 // of a branch, what is below is its offset
		}
		hash = mix(hash, word>>shift)
	}
	return hash
}

// x86Immediate are the one-byte opcodes that the operand follows at once.
var x86Immediate = func() (set [256]bool) {
	for op := 0x04; op < 0x40; op += 8 {
		set[op], set[op+1] = true, true // alu al, imm8; alu eax, imm32
	}
	for _, r := range [][2]int{{0x70, 0x7f}, {0xa8, 0xa9}, {0xb0, 0xbf}, {0xe8, 0xe9}, {0xeb, 0xeb}} {
		for op := r[0]; op <= r[1]; op++ {
			set[op] = true
		}
	}
	return set
}()

// x86Form adds the first instruction's opcode to a hash, and what follows if it
// is no constant: the second byte of the opcode or the kind of the operand.
// That and the length tell the forms of a rule apart.
func x86Form(hash uint32, code []byte) uint32 {
	if len(code) == 0 {
		return hash
	}
	hash = mix(hash, uint32(code[0]))
	if len(code) > 1 && !x86Immediate[code[0]] {
		hash = mix(hash, uint32(code[1]))
	}
	return hash
}
