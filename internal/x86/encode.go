package x86

import "encoding/binary"

// Buf is machine code under construction. Its methods append one instruction
// each. Reslice to [:0] to reuse it.
type Buf []byte

// Raw appends bytes as they are.
func (b *Buf) Raw(bytes ...byte) { *b = append(*b, bytes...) }

// Imm32 appends 4 bytes, little endian.
func (b *Buf) Imm32(v uint32) { *b = binary.LittleEndian.AppendUint32(*b, v) }

// Imm64 appends 8 bytes, little endian.
func (b *Buf) Imm64(v uint64) { *b = binary.LittleEndian.AppendUint64(*b, v) }

// imm appends an immediate operand of an instruction of width w: 64-bit
// instructions sign-extend 32 bits.
func (b *Buf) imm(w Width, v int32) {
	switch w {
	case W8:
		*b = append(*b, byte(v))
	case W16:
		*b = binary.LittleEndian.AppendUint16(*b, uint16(v))
	default:
		b.Imm32(uint32(v))
	}
}

// bytewise turns the even opcode of an 8-bit operation into that for width w.
func bytewise(opcode uint16, w Width) uint16 {
	if w == W8 {
		return opcode
	}
	return opcode | 1
}

const (
	rex  = 0x40
	rexW = 0x08
	rexR = 0x04
	rexX = 0x02
	rexB = 0x01
)

// needsREX reports whether the register's low byte can only be named with a
// REX prefix, without which its number means AH ... BH.
func needsREX(r Reg) bool { return r >= SP && r <= DI }

// op appends an instruction with a register and an r/m operand. Opcodes above
// 0xff are two bytes (0f xx). byteReg and byteRM say which of the two operands
// are 8 bits wide.
func (b *Buf) op(w Width, opcode uint16, reg Reg, rm RM, byteReg, byteRM bool) {
	prefix := reg.high() * rexR
	if byteReg && needsREX(reg) || byteRM && rm.form == formReg && needsREX(rm.base) {
		prefix |= rex
	}
	b.modrm(w, prefix, opcode, reg.low(), rm)
	if high := reg >= AH || rm.form == formReg && rm.base >= AH; high && prefix|rm.rex(w) != 0 {
		panic("x86: AH, CH, DH and BH cannot be named beside a REX prefix")
	}
}

// group appends an instruction whose operation is a digit in the reg field.
func (b *Buf) group(w Width, opcode uint16, digit byte, rm RM) {
	prefix := byte(0)
	if w == W8 && rm.form == formReg && needsREX(rm.base) {
		prefix = rex
	}
	b.modrm(w, prefix, opcode, digit, rm)
}

// rex gives the bits that the operand and the width ask of the prefix.
func (rm RM) rex(w Width) (bits byte) {
	if w == W64 {
		bits = rexW
	}
	switch rm.form {
	case formAbs, formRIP:
		return bits
	case formReg:
		return bits | rm.base.high()*rexB
	}
	return bits | rm.base.high()*rexB | rm.index.high()*rexX
}

// shapes gives, by form, the mod bits of the ModRM byte and the size of the
// displacement.
var shapes = [...]struct{ mod, disp byte }{
	formReg:    {0xc0, 0},
	formAuto:   {0x00, 0}, // where it needs none
	formDisp8:  {0x40, 1},
	formDisp32: {0x80, 4},
	formAbs:    {0x00, 4},
	formRIP:    {0x00, 4},
}

// shortest resolves formAuto.
func (rm RM) shortest() form {
	switch {
	case rm.form != formAuto:
		return rm.form
	case rm.disp == 0 && rm.base.low() != BP.low(): // BP and R13 have no form without
		return formAuto
	case Imm8(rm.disp):
		return formDisp8
	}
	return formDisp32
}

// hasSIB reports whether a SIB byte follows the ModRM byte.
func (rm RM) hasSIB() bool {
	switch rm.form {
	case formReg, formRIP:
		return false
	case formAbs:
		return true
	}
	return rm.index != noIndex || rm.base.low() == SP.low()
}

// modrm appends prefixes, opcode, ModRM, SIB and displacement.
func (b *Buf) modrm(w Width, prefix byte, opcode uint16, reg byte, rm RM) {
	var code [11]byte // at most 3 prefixes, 2 of opcode, ModRM, SIB, displacement
	n := 0
	if rm.gs {
		code[n] = 0x65
		n++
	}
	if w == W16 {
		code[n] = 0x66
		n++
	}
	if prefix |= rm.rex(w); prefix != 0 {
		code[n] = prefix | rex
		n++
	}
	if opcode > 0xff {
		code[n] = byte(opcode >> 8)
		n++
	}
	code[n] = byte(opcode)
	n++

	shape := shapes[rm.shortest()]
	code[n] = shape.mod | reg<<3 | rm.base.low()
	if rm.hasSIB() {
		code[n+1] = rm.shift<<6 | rm.index.low()<<3 | rm.base.low()
		code[n] = shape.mod | reg<<3 | 4
		n++
	}
	n++
	binary.LittleEndian.PutUint32(code[n:], uint32(rm.disp))
	*b = append(*b, code[:n+int(shape.disp)]...)
}

// plusReg appends an instruction whose register is in its opcode.
func (b *Buf) plusReg(w Width, opcode uint16, r Reg) {
	prefix := r.high() * rexB
	if w == W64 {
		prefix |= rexW
	}
	if w == W16 {
		b.Raw(0x66)
	}
	if prefix != 0 {
		b.Raw(prefix | rex)
	}
	if opcode > 0xff {
		b.Raw(byte(opcode >> 8))
	}
	b.Raw(byte(opcode) + r.low())
}
