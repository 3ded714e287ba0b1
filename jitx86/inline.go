package jitx86

import (
	"math"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

func inlineEmitter() *Emitter {
	return &Emitter{
		Name:    "inline",
		Summary: "linux-3.10 with loads from the linear part inlined; no kernel shipped it",
		rules:   inline(),
	}
}

// inline is linux310 with the fast path of every packet load in place. What
// is not wholly in the linear part, or at a negative offset, calls the helper
// that linux-3.10 calls. A program that uses neither X nor M[] needs a frame
// only there, so that its fast path is all but free of stack operations.
//
// Seccomp filters it compiles too, which the kernels of that form did not.
func inline() table {
	t := linux310()
	t.Replace(map[uint16]rule{
		bpf.LdWAbs: inlineAbs(word), bpf.LdWInd: inlineInd(word),
		bpf.LdHAbs: inlineAbs(half), bpf.LdHInd: inlineInd(half),
		bpf.LdBAbs: inlineAbs(byte1), bpf.LdBInd: inlineInd(byte1),
		bpf.LdxMsh: inlineMsh,
	})
	t.passes.frameless = seenData
	t.Seccomp = seccompRules()
	return t
}

// A fetch loads from memory that is known to be there.
type fetch func(c *Compiler, from x86.RM)

// inlined is, by size, how many bytes a load reads and how.
var inlined = [...]struct {
	bytes int32
	fetch fetch
}{
	word:  {4, fetchWord},
	half:  {2, fetchHalf},
	byte1: {1, fetchByte},
	msh:   {1, fetchMsh},
}

func fetchWord(c *Compiler, from x86.RM) {
	c.Load(x86.W32, x86.AX, from)
	c.Bswap(x86.W32, x86.AX)
}

func fetchHalf(c *Compiler, from x86.RM) {
	c.MovZX(x86.AX, x86.W16, from)
	c.ShiftImm(x86.Rol, x86.W16, a, 8)
}

func fetchByte(c *Compiler, from x86.RM) { c.MovZX(x86.AX, x86.W8, from) }

func fetchMsh(c *Compiler, from x86.RM) {
	c.MovZX(x86.BX, x86.W8, from)
	c.AluImm8(x86.And, x86.W32, x, 15)
	c.ShiftImm(x86.Shl, x86.W32, x, 2)
}

// measure returns the size of what emit emits without leaving it in the code.
func (c *Compiler) measure(emit func()) int {
	start := len(c.Buf)
	emit()
	size := len(c.Buf) - start
	c.Buf = c.Buf[:start]
	return size
}

const callSize = 5

// slowAt calls the helper for a fixed offset. It makes the frame that the
// helper relies on where the program has none: the helper's error exit leaves
// through it as it would through the program's own.
func (c *Compiler) slowAt(s size, k uint32, behind int) {
	if c.framed(c.snapshot) {
		c.loadAt(s, k, behind)
		return
	}
	c.pushFrame()
	c.Mov(x86.W64, savedX, x86.BX)
	c.loadAt(s, k, len(x86.Leave)+behind)
	c.Bare(x86.Leave)
}

func inlineAbs(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData)
		c.inlineAt(s, in.K)
	}
}

func inlineMsh(c *Compiler, in bpf.Instruction) {
	c.need(seenData | seenX)
	c.inlineAt(msh, in.K)
}

// inlineAt loads from a fixed offset. The code is
//
//	cmp r9d, k+bytes; jge fast; call of the helper; jmp done; fast: fetch; done:
//
// A load whose end is beyond all signed 32-bit numbers is never in the linear
// part, and the helper alone is right.
func (c *Compiler) inlineAt(s size, k uint32) {
	load := &inlined[s]
	if int32(k) < 0 || int32(k) > math.MaxInt32-load.bytes {
		c.slowAt(s, k, 0)
		return
	}
	from := x86.At(x86.R8, int32(k))
	behind := c.measure(func() { load.fetch(c, from) })
	slow := c.measure(func() { c.slowAt(s, k, 0) })

	if end := int32(k) + load.bytes; x86.Imm8(end) {
		c.AluImm8(x86.Cmp, x86.W32, x86.R(x86.R9), int8(end))
	} else {
		c.AluImm(x86.Cmp, x86.W32, x86.R(x86.R9), end)
	}
	c.JccShort(x86.CondGE, int8(slow+shortJump))
	c.slowAt(s, k, shortJump+behind)
	c.JmpShort(int8(behind))
	load.fetch(c, from)
}

// inlineInd loads from X+k. The sum wraps at 32 bits; its end, X+k+bytes, is
// compared in 64 bits, where neither a sum that is negative to the helper nor
// one near the wrap can pass for one inside. The code is
//
//	lea esi, [rbx+k]; lea rcx, [rsi+bytes]; cmp rcx, r9; jbe fast
//	call helper; jmp done; fast: fetch; done:
//
// and for a byte cmp r9d, esi; ja fast.
func inlineInd(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		load := &inlined[s]
		from := x86.Indexed(x86.R8, x86.SI, 1, 0)
		behind := c.measure(func() { load.fetch(c, from) })

		c.offsetFromX(in.K)
		inside := x86.CondBE
		if load.bytes == 1 {
			c.Alu(x86.Cmp, x86.W32, x86.R(x86.R9), x86.SI)
			inside = x86.CondA
		} else {
			c.Lea(x86.W64, x86.CX, x86.At(x86.SI, load.bytes))
			c.Alu(x86.Cmp, x86.W64, x86.R(x86.CX), x86.R9)
		}
		c.JccShort(inside, callSize+shortJump)
		c.call(s.plain(), shortJump+behind)
		c.JmpShort(int8(behind))
		load.fetch(c, from)
	}
}
