package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// lowestOffset is the least packet offset that has a meaning: the link-layer
// header's (Linux, SKF_LL_OFF).
const lowestOffset = -0x200000

func ldImm(c *Compiler, in bpf.Instruction) {
	if in.K == 0 {
		c.clearA()
	} else {
		c.MovImm32(x86.AX, in.K)
	}
}

func ldxImm(c *Compiler, in bpf.Instruction) {
	c.need(seenX)
	if in.K == 0 {
		c.clearX()
	} else {
		c.MovImm32(x86.BX, in.K)
	}
}

// cells is where cell puts M[].
var cells = kernelabi.Cells{Register: "rbp", Offset: -16, Stride: -4}

// cell is M[k] in the frame.
func cell(k uint32) x86.RM { return x86.At8(x86.BP, int8(-16-4*int(k))) }

// A cellRule says where M[k] is.
type cellRule func(k uint32) x86.RM

// memRules are the instructions for M[], and what of the frame they need for it.
func memRules(cell cellRule, needs seen) map[uint16]rule {
	return map[uint16]rule{
		bpf.LdMem:  func(c *Compiler, in bpf.Instruction) { c.need(needs); c.Load(x86.W32, x86.AX, cell(in.K)) },
		bpf.LdxMem: func(c *Compiler, in bpf.Instruction) { c.need(needs | seenX); c.Load(x86.W32, x86.BX, cell(in.K)) },
		bpf.St:     func(c *Compiler, in bpf.Instruction) { c.need(needs); c.Mov(x86.W32, cell(in.K), x86.AX) },
		bpf.Stx:    func(c *Compiler, in bpf.Instruction) { c.need(needs | seenX); c.Mov(x86.W32, cell(in.K), x86.BX) },
	}
}

func ldLen(c *Compiler, _ bpf.Instruction) { c.Load(x86.W32, x86.AX, c.skb(jit.Len)) }

func ldxLen(c *Compiler, _ bpf.Instruction) {
	c.need(seenX)
	c.Load(x86.W32, x86.BX, c.skb(jit.Len))
}

// at returns the entry of the helper for an offset known beforehand. Offsets
// below all that mean anything go where the error is found.
func (s size) at(k uint32) symbol {
	switch off := int32(k); {
	case off >= 0:
		return s.positive()
	case off >= lowestOffset:
		return s.negative()
	}
	return s.plain()
}

// loadAt calls the helper for a fixed offset; behind bytes of the instruction
// follow the call.
func (c *Compiler) loadAt(s size, k uint32, behind int) {
	c.MovImm32(x86.SI, k)
	c.call(s.at(k), behind)
}

// offsetFromX puts X + k, cut to 32 bits, into the helper's offset.
func (c *Compiler) offsetFromX(k uint32) {
	switch {
	case k == 0:
		c.Mov(x86.W32, x86.R(x86.SI), x86.BX)
	case imm8(k):
		c.Lea(x86.W32, x86.SI, x86.At8(x86.BX, int8(k)))
	default:
		c.Lea(x86.W32, x86.SI, x86.At32(x86.BX, int32(k)))
	}
}

func loadAbs(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData)
		c.loadAt(s, in.K, 0)
	}
}

func loadInd(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		c.offsetFromX(in.K)
		c.call(s.plain(), 0)
	}
}

func loadMsh(c *Compiler, in bpf.Instruction) {
	c.need(seenData | seenX)
	c.loadAt(msh, in.K, 0)
}

// bySignOfK takes one rule for offsets from 0 and another for those below.
func bySignOfK(positive, negative rule) rule {
	return func(c *Compiler, in bpf.Instruction) {
		if int32(in.K) >= 0 {
			positive(c, in)
		} else {
			negative(c, in)
		}
	}
}
