package jitx86

import (
	"fmt"
	"math"

	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

// offset returns a field's offset in its struct, 0 if the profile lacks it.
func (c *Compiler) offset(f jit.Field) int32 { return c.Offset(f, math.MaxInt32) }

// skb is a field of the packet's struct sk_buff, with a displacement of 8 bits
// where it fits.
func (c *Compiler) skb(f jit.Field) x86.RM {
	off := c.offset(f)
	if x86.Imm8(off) {
		return x86.At8(x86.DI, int8(off))
	}
	return x86.At32(x86.DI, off)
}

// symbol is a kernel symbol that code refers to: the load helpers, by size
// and variant, and the processor number.
type symbol = jit.Symbol

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
func (c *Compiler) address(s symbol) uint64 { return c.Address(s, math.MaxUint64) }

// call calls a helper; behind bytes of the instruction follow. The displacement
// trusts the pass before, as the kernel's does.
func (c *Compiler) call(s symbol, behind int) {
	target := c.address(s)
	from := c.Profile.Base + uint64(c.end()-behind)
	disp := int64(target - from)
	if c.writing && int64(int32(disp)) != disp {
		c.Fail(fmt.Errorf("%s at %#x is more than 2 GiB away from the image at %#x: move one with --symbol or --base",
			symbolNames[s], target, c.Profile.Base))
	}
	c.CallNear(int32(disp))
}
