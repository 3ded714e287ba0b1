// Package arm encodes the 32-bit ARM instructions (A32, little endian) that a
// JIT and small guest routines need. A method of [Buf] appends one instruction
// in one encoding. Nothing here allocates beyond the growth of the buffer.
// [Asm] adds labels and a literal pool.
//
// Source of the encodings: ARM Architecture Reference Manual, ARMv7-A edition.
package arm

import (
	"fmt"
	"math/bits"
)

// Reg is a general register by its number.
type Reg uint8

const (
	R0 Reg = iota
	R1
	R2
	R3
	R4
	R5
	R6
	R7
	R8
	R9
	R10
	FP // r11
	IP // r12
	SP
	LR
	PC
)

// RegSet is a set of registers, one bit each, as push, pop and ldm take it.
type RegSet uint16

// Regs is the set of the given registers.
func Regs(regs ...Reg) (set RegSet) {
	for _, r := range regs {
		set |= 1 << r
	}
	return set
}

// Len returns how many registers the set has.
func (s RegSet) Len() int { return bits.OnesCount16(uint16(s)) }

// Shift is a way to shift, by its number.
type Shift uint8

const (
	LSL Shift = iota
	LSR
	ASR
	ROR
)

// Op2 is the last operand of a data-processing instruction: an immediate, or a
// register that may be shifted. Its bits are those of the instruction.
type Op2 uint32

// immediate is the bit that tells an immediate from a register.
const immediate = 1 << 25

// R is a register operand.
func R(r Reg) Op2 { return Op2(r) }

// Shifted is a register shifted by a constant. A count of 0 shifts by 32 for
// LSR and ASR and is rrx for ROR.
func Shifted(r Reg, by Shift, count uint8) Op2 {
	return Op2(r) | Op2(by)<<5 | Op2(count&31)<<7
}

// ShiftedBy is a register shifted by the low byte of another one. Counts of 32
// and more leave nothing (LSL, LSR), so this is no shift mod 32.
func ShiftedBy(r Reg, by Shift, count Reg) Op2 {
	return Op2(r) | Op2(by)<<5 | 1<<4 | Op2(count)<<8
}

// ImmOp2 is an immediate operand: 8 bits rotated by an even count. Of the
// encodings that a value may have it takes the one with the smallest rotation,
// as assemblers do; ok is false if there is none.
func ImmOp2(v uint32) (op Op2, ok bool) {
	for r := range 16 {
		if rotated := bits.RotateLeft32(v, 2*r); rotated <= 0xff {
			return immediate | Op2(r)<<8 | Op2(rotated), true
		}
	}
	return 0, false
}

// Imm is [ImmOp2] for values known to have an encoding; it panics on others.
func Imm(v uint32) Op2 {
	op, ok := ImmOp2(v)
	if !ok {
		panic(fmt.Sprintf("arm: %#x is no immediate operand", v))
	}
	return op
}

// Mem is a memory operand.
type Mem struct {
	base, index Reg
	off         int32
	indexed     bool
	post        bool // the base is used as it is, and written afterwards
	write       bool // the base is written
}

// At is [base, #off]. Offsets are up to 4095 bytes either way for words and
// bytes, up to 255 for halfwords; what does not fit is cut off, as the kernel's
// JIT does.
func At(base Reg, off int32) Mem { return Mem{base: base, off: off} }

// Indexed is [base, index].
func Indexed(base, index Reg) Mem { return Mem{base: base, index: index, indexed: true} }

// Pre is [base, #off]!, which leaves the address in the base.
func Pre(base Reg, off int32) Mem { return Mem{base: base, off: off, write: true} }

// Post is [base], #off, which adds to the base after the access.
func Post(base Reg, off int32) Mem { return Mem{base: base, off: off, post: true, write: true} }
