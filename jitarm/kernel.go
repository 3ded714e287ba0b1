package jitarm

import (
	"math"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// maxOffset is the largest offset of a load of a word or byte.
const maxOffset = 0xfff

// offset returns a field's offset in its struct, 0 if the profile lacks it.
func (c *Compiler) offset(f jit.Field) int32 { return c.Offset(f, maxOffset) }

// skb is a field of the packet's struct sk_buff.
func (c *Compiler) skb(f jit.Field) arm.Mem { return arm.At(skb, c.offset(f)) }

// symbol is a kernel function that code calls.
type symbol = jit.Symbol

const (
	symLoadByte symbol = iota
	symLoadHalf
	symLoadWord
	symUdiv
	symMod
	symPayOffset
	symSeccompLoad
	numSymbols
)

var symbolNames = [numSymbols]string{
	symLoadByte:    "jit_get_skb_b",
	symLoadHalf:    "jit_get_skb_h",
	symLoadWord:    "jit_get_skb_w",
	symUdiv:        "jit_udiv",
	symMod:         "jit_mod",
	symPayOffset:   "skb_get_poff",
	symSeccompLoad: "seccomp_bpf_load",
}

// address returns the address of a symbol, 0 if the profile lacks it.
func (c *Compiler) address(s symbol) uint32 { return uint32(c.Address(s, math.MaxUint32)) }

// call calls a kernel function, which may be anywhere.
func (c *Compiler) call(s symbol) {
	c.target(s)
	c.callTarget()
}

// target loads the address for callTarget.
func (c *Compiler) target(s symbol) { c.mov(arm.R3, c.address(s)) }

func (c *Compiler) callTarget() {
	c.need(seenCall)
	c.Blx(arm.AL, arm.R3)
}
