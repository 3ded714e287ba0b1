package jitx86

import (
	"fmt"
	"math"

	"github.com/kjit-project/kjit/internal/x86"
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
}

// offset returns a field's offset in its struct, 0 if the profile lacks it.
func (c *Compiler) offset(f field) int32 {
	if off := c.fields[f]; off >= 0 {
		return int32(off)
	}
	off, err := c.profile.Layout.Offset(fieldNames[f])
	if err == nil && (off < 0 || off > math.MaxInt32) {
		err = fmt.Errorf("%s at offset %d: want 0 to %d", fieldNames[f], off, math.MaxInt32)
	}
	if err != nil {
		c.fail(err)
		return 0
	}
	c.fields[f] = int64(off)
	return int32(off)
}

// skb is a field of the packet's struct sk_buff, with a displacement of 8 bits
// where it fits.
func (c *Compiler) skb(f field) x86.RM {
	off := c.offset(f)
	if x86.Imm8(off) {
		return x86.At8(x86.DI, int8(off))
	}
	return x86.At32(x86.DI, off)
}

// symbol is a kernel symbol that code refers to: the load helpers, by size
// and variant, and the processor number.
type symbol uint8

// size is a width of packet loads; msh is LDX MSH.
type size uint8

const (
	word size = iota
	half
	byte1
	msh
)

func (s size) plain() symbol    { return symbol(s)*4 + 0 } // tests the offset's sign
func (s size) positive() symbol { return symbol(s)*4 + 1 } // offset >= 0
func (s size) negative() symbol { return symbol(s)*4 + 2 } // -0x200000 <= offset < 0
func (s size) indirect() symbol { return symbol(s)*4 + 3 } // adds X (Linux 3.0 to 3.2)

const (
	symCPUNumber = symbol(16)
	numSymbols   = 17
)

var symbolNames = [numSymbols]string{
	"sk_load_word", "sk_load_word_positive_offset", "sk_load_word_negative_offset", "sk_load_word_ind",
	"sk_load_half", "sk_load_half_positive_offset", "sk_load_half_negative_offset", "sk_load_half_ind",
	"sk_load_byte", "sk_load_byte_positive_offset", "sk_load_byte_negative_offset", "sk_load_byte_ind",
	"sk_load_byte_msh", "sk_load_byte_msh_positive_offset", "sk_load_byte_msh_negative_offset", "",
	"cpu_number",
}

// address returns the address of a symbol, 0 if the profile lacks it.
func (c *Compiler) address(s symbol) uint64 {
	entry := &c.symbols[s]
	if !entry.known {
		addr, err := c.profile.Symbol(symbolNames[s])
		if err != nil {
			c.fail(err)
			return 0
		}
		entry.addr, entry.known = addr, true
	}
	return entry.addr
}

// call calls a helper; behind bytes of the instruction follow. The displacement
// trusts the pass before, as the kernel's does.
func (c *Compiler) call(s symbol, behind int) {
	target := c.address(s)
	from := c.profile.Base + uint64(c.end()-behind)
	disp := int64(target - from)
	if c.writing && int64(int32(disp)) != disp {
		c.fail(fmt.Errorf("%s at %#x is more than 2 GiB away from the image at %#x: move one with --symbol or --base",
			symbolNames[s], target, c.profile.Base))
	}
	c.CallNear(int32(disp))
}
