package jitarm

import (
	"fmt"
	"math"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// field is a struct field that code reads.
type field uint8

const (
	fieldLen field = iota
	fieldDataLen
	fieldData
	fieldProtocol
	fieldPktType
	fieldMark
	fieldRxhash
	fieldQueue
	fieldVlanTCI
	fieldDev
	fieldIfindex
	fieldDevType
	fieldCPU
	numFields
)

var fieldNames = [numFields]string{
	fieldLen:      kernelabi.SkbLen,
	fieldDataLen:  kernelabi.SkbDataLen,
	fieldData:     kernelabi.SkbData,
	fieldProtocol: kernelabi.SkbProtocol,
	fieldPktType:  kernelabi.SkbPktType,
	fieldMark:     kernelabi.SkbMark,
	fieldRxhash:   kernelabi.SkbRxhash,
	fieldQueue:    kernelabi.SkbQueue,
	fieldVlanTCI:  kernelabi.SkbVlanTCI,
	fieldDev:      kernelabi.SkbDev,
	fieldIfindex:  kernelabi.DevIfindex,
	fieldDevType:  kernelabi.DevType,
	fieldCPU:      kernelabi.ThreadInfoCPU,
}

// maxOffset is the largest offset of a load of a word or byte.
const maxOffset = 0xfff

// offset returns a field's offset in its struct, 0 if the profile lacks it.
func (c *Compiler) offset(f field) int32 {
	if off := c.fields[f]; off >= 0 {
		return int32(off)
	}
	off, err := c.profile.Layout.Offset(fieldNames[f])
	if err == nil && (off < 0 || off > maxOffset) {
		err = fmt.Errorf("%s at offset %d: want 0 to %d", fieldNames[f], off, maxOffset)
	}
	if err != nil {
		c.fail(err)
		off = 0
	}
	c.fields[f] = int64(off)
	return int32(off)
}

// skb is a field of the packet's struct sk_buff.
func (c *Compiler) skb(f field) arm.Mem { return arm.At(skb, c.offset(f)) }

// symbol is a kernel function that code calls.
type symbol uint8

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
func (c *Compiler) address(s symbol) uint32 {
	if addr := c.symbols[s]; addr >= 0 {
		return uint32(addr)
	}
	addr, err := c.profile.Symbol(symbolNames[s])
	if err == nil && addr > math.MaxUint32 {
		err = fmt.Errorf("%s at %#x: want a 32-bit address", symbolNames[s], addr)
	}
	if err != nil {
		c.fail(err)
		addr = 0
	}
	c.symbols[s] = int64(addr)
	return uint32(addr)
}

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
