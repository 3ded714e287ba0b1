// Package x86 encodes the x86_64 instructions that a JIT and small guest
// routines need. A method of [Buf] appends one instruction in one encoding;
// where several encodings exist there is a method for each, so that an emitter
// can choose the one that another compiler chose. Nothing here allocates
// beyond the growth of the buffer. [Asm] adds labels.
//
// Source of the encodings: Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 2.
package x86

// Reg is a general register by its number. Its width comes from the
// instruction; AH, CH, DH and BH exist for 8-bit operations without a REX
// prefix only.
type Reg uint8

const (
	AX Reg = iota
	CX
	DX
	BX
	SP
	BP
	SI
	DI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
	AH
	CH
	DH
	BH
)

// low is the register's part of a ModRM, SIB or opcode byte.
func (r Reg) low() byte {
	if r >= AH {
		return byte(r-AH) + 4
	}
	return byte(r) & 7
}

// high is 1 for the registers that a REX bit selects.
func (r Reg) high() byte {
	if r >= AH {
		return 0
	}
	return byte(r) >> 3
}

// Width is an operand width.
type Width uint8

const (
	W8 Width = iota
	W16
	W32
	W64
)

// form says how an RM is encoded.
type form uint8

const (
	formReg    form = iota // the register itself
	formAuto               // [base+index+disp], shortest displacement
	formDisp8              // the same with an 8-bit displacement, even if it is 0
	formDisp32             // the same with a 32-bit displacement
	formAbs                // [disp32], sign-extended, no base
	formRIP                // [rip+disp32]
)

// noIndex in a SIB byte means that there is no index register, noBase in one,
// or in a ModRM byte, that there is no base register.
const (
	noIndex = SP
	noBase  = BP
)

// RM is an operand that may be a register or memory: the r/m of the manual.
type RM struct {
	base, index Reg
	shift       uint8 // log2 of the index's scale
	form        form
	gs          bool
	disp        int32
}

// R is a register operand.
func R(r Reg) RM { return RM{base: r, form: formReg} }

// At is [base+disp] with the shortest displacement: none, 8 or 32 bits.
func At(base Reg, disp int32) RM {
	return RM{base: base, index: noIndex, form: formAuto, disp: disp}
}

// At8 is [base+disp] with an 8-bit displacement, even where none is needed.
func At8(base Reg, disp int8) RM {
	return RM{base: base, index: noIndex, form: formDisp8, disp: int32(disp)}
}

// At32 is [base+disp] with a 32-bit displacement, even where 8 bits would do.
func At32(base Reg, disp int32) RM {
	return RM{base: base, index: noIndex, form: formDisp32, disp: disp}
}

// Indexed is [base+index*scale+disp] with the shortest displacement. The scale
// is 1, 2, 4 or 8; the index cannot be SP.
func Indexed(base, index Reg, scale uint8, disp int32) RM {
	rm := RM{base: base, index: index, form: formAuto, disp: disp}
	for scale > 1 {
		rm.shift++
		scale >>= 1
	}
	return rm
}

// Abs is [addr], the address sign-extended from 32 bits.
func Abs(addr uint32) RM { return RM{base: noBase, index: noIndex, form: formAbs, disp: int32(addr)} }

// GS is gs:[addr], the address sign-extended from 32 bits: how 64-bit kernels
// reach per-CPU variables.
func GS(addr uint32) RM {
	rm := Abs(addr)
	rm.gs = true
	return rm
}

// RIP is [rip+disp]; disp counts from the end of the instruction.
func RIP(disp int32) RM { return RM{base: noBase, index: noIndex, form: formRIP, disp: disp} }

// Imm8 reports whether the value survives sign extension from 8 bits.
func Imm8(v int32) bool { return v == int32(int8(v)) }
