package jitx86

import (
	"math"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

// inlineTraps are faults of loads in place: what a rule that inlines them gets
// wrong, and what helpers get wrong that a rule can as well.
var inlineTraps = []trap{
	{"inline-end-plus-1", "loads may end a byte behind the linear part", allInlineAbs, inlineBy(absRule{slack: 1})},
	{"inline-end-overflow", "the end of a load near 7fffffff (hex) is a negative number", allInlineAbs, inlineBy(absRule{overflows: true})},
	{"inline-slow-r9", "the slow path of a load spoils headlen", allLoads, inlineBy(absRule{after: func(c *Compiler) {
		c.MovImm32(x86.R9, math.MaxInt32)
	}})},
	{"inline-slow-rbx", "the frame that a slow path makes does not save rbx, which the helper's error exit restores", allInlineAbs,
		inlineBy(absRule{unsaved: true})},
	{"inline-half-upper-bits", "a halfword leaves the upper half of A", []string{"ldh-abs"},
		inlineBy(absRule{fetch: map[size]fetch{half: func(c *Compiler, from x86.RM) {
			c.Load(x86.W16, x86.AX, from)
			c.ShiftImm(x86.Rol, x86.W16, a, 8)
		}}})},
	{"inline-half-order", "a halfword is in network order", []string{"ldh-abs"},
		inlineBy(absRule{fetch: map[size]fetch{half: func(c *Compiler, from x86.RM) { c.MovZX(x86.AX, x86.W16, from) }}})},
	{"inline-word-order", "a word has the bytes of each half swapped, and not the halves", []string{"ld-abs"},
		inlineBy(absRule{fetch: map[size]fetch{word: func(c *Compiler, from x86.RM) {
			fetchWord(c, from)
			c.ShiftImm(x86.Rol, x86.W32, a, 16)
		}}})},
	{"inline-byte-signed", "a byte is sign-extended", []string{"ldb-abs"},
		inlineBy(absRule{fetch: map[size]fetch{byte1: func(c *Compiler, from x86.RM) { c.MovSX(x86.W32, x86.AX, x86.W8, from) }}})},
	{"inline-msh-order", "LDX MSH multiplies before it masks", []string{"ldx-msh"},
		inlineBy(absRule{fetch: map[size]fetch{msh: func(c *Compiler, from x86.RM) {
			c.MovZX(x86.BX, x86.W8, from)
			c.ShiftImm(x86.Shl, x86.W32, x, 2)
			c.AluImm8(x86.And, x86.W32, x, 15)
		}}})},
	{"inline-msh-unmasked", "LDX MSH keeps the upper half of the byte", []string{"ldx-msh"},
		inlineBy(absRule{fetch: map[size]fetch{msh: func(c *Compiler, from x86.RM) {
			c.MovZX(x86.BX, x86.W8, from)
			c.ShiftImm(x86.Shl, x86.W32, x, 2)
		}}})},
	{"inline-ind-wraps", "X + k + size is cut to 32 bits, and wraps around to what is inside", []string{"ld-ind", "ldh-ind"}, inlineIndBy(indRule{wraps: true})},
	{"inline-ind-signed", "X + k is compared as a signed number", allInd, inlineIndBy(indRule{wraps: true, signed: true})},
}

var allInlineAbs = []string{"ld-abs", "ldh-abs", "ldb-abs", "ldx-msh"}

// absRule is inlineAt with faults.
type absRule struct {
	slack     int32           // added to the length of the linear part
	overflows bool            // offsets up to 7fffffff are compared like others
	unsaved   bool            // slow paths that make a frame do not save rbx in it
	after     func(*Compiler) // comes behind slow paths
	fetch     map[size]fetch  // in place of those of inlined
}

func inlineBy(r absRule) func(*table) {
	abs := func(s size, needs seen) rule {
		return func(c *Compiler, in bpf.Instruction) {
			c.need(needs)
			r.load(c, s, in.K)
		}
	}
	return replaced(map[uint16]rule{
		bpf.LdWAbs: abs(word, seenData), bpf.LdHAbs: abs(half, seenData), bpf.LdBAbs: abs(byte1, seenData),
		bpf.LdxMsh: abs(msh, seenData|seenX),
	})
}

func (r *absRule) load(c *Compiler, s size, k uint32) {
	load := inlined[s]
	if f, ok := r.fetch[s]; ok {
		load.fetch = f
	}
	if int32(k) < 0 || !r.overflows && int32(k) > math.MaxInt32-load.bytes-1 {
		c.slowAt(s, k, 0)
		return
	}
	from := x86.At(x86.R8, int32(k))
	behind := c.measure(func() { load.fetch(c, from) })
	slow := c.measure(func() { r.slow(c, s, k, 0) })
	c.AluImm(x86.Cmp, x86.W32, x86.R(x86.R9), int32(k)+load.bytes-r.slack)
	c.JccShort(x86.CondGE, int8(slow+shortJump))
	r.slow(c, s, k, shortJump+behind)
	c.JmpShort(int8(behind))
	load.fetch(c, from)
}

// slow calls the helper; behind bytes of the instruction follow.
func (r *absRule) slow(c *Compiler, s size, k uint32, behind int) {
	after := r.after
	if after == nil || s == msh {
		after = func(*Compiler) {}
	}
	behind += c.measure(func() { after(c) })
	if r.unsaved && !c.framed(c.snapshot) {
		c.pushFrame()
		c.loadAt(s, k, len(x86.Leave)+behind)
		c.Bare(x86.Leave)
	} else {
		c.slowAt(s, k, behind)
	}
	after(c)
}

// indRule is inlineInd with faults.
type indRule struct {
	wraps  bool // the sum has 32 bits
	signed bool // and a sign
}

func inlineIndBy(r indRule) func(*table) {
	return replaced(map[uint16]rule{bpf.LdWInd: r.rule(word), bpf.LdHInd: r.rule(half), bpf.LdBInd: r.rule(byte1)})
}

func (r indRule) rule(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		load := &inlined[s]
		from := x86.Indexed(x86.R8, x86.SI, 1, 0)
		behind := c.measure(func() { load.fetch(c, from) })
		c.offsetFromX(in.K)
		inside := x86.CondBE
		switch {
		case r.signed:
			inside = x86.CondLE
			fallthrough
		case load.bytes > 1:
			c.Lea(x86.W32, x86.CX, x86.At(x86.SI, load.bytes))
			c.Alu(x86.Cmp, x86.W32, x86.R(x86.CX), x86.R9)
		default:
			c.Alu(x86.Cmp, x86.W32, x86.R(x86.R9), x86.SI)
			inside = x86.CondA
		}
		c.JccShort(inside, callSize+shortJump)
		c.call(s.plain(), shortJump+behind)
		c.JmpShort(int8(behind))
		load.fetch(c, from)
	}
}
