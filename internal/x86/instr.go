package x86

// Alu is an operation of the add ... cmp family, by its digit.
type Alu uint8

const (
	Add Alu = iota
	Or
	Adc
	Sbb
	And
	Sub
	Xor
	Cmp
)

// Alu is `op dst, src` with the destination in r/m (add: 00, 01 /r).
func (b *Buf) Alu(op Alu, w Width, dst RM, src Reg) {
	b.op(w, bytewise(uint16(op)<<3, w), src, dst, w == W8, w == W8)
}

// AluLoad is `op dst, src` with the source in r/m (add: 02, 03 /r).
func (b *Buf) AluLoad(op Alu, w Width, dst Reg, src RM) {
	b.op(w, bytewise(uint16(op)<<3|2, w), dst, src, w == W8, w == W8)
}

// AluImm8 is `op dst, imm` with a sign-extended byte (83; 80 for W8).
func (b *Buf) AluImm8(op Alu, w Width, dst RM, imm int8) {
	opcode := uint16(0x83)
	if w == W8 {
		opcode = 0x80
	}
	b.group(w, opcode, byte(op), dst)
	b.Raw(byte(imm))
}

// AluImm is `op dst, imm` with an immediate of the operand's width, at most
// 32 bits (81; 80 for W8).
func (b *Buf) AluImm(op Alu, w Width, dst RM, imm int32) {
	b.group(w, bytewise(0x80, w), byte(op), dst)
	b.imm(w, imm)
}

// AluAcc is `op al/ax/eax/rax, imm`, the form without a ModRM byte (add: 04, 05).
func (b *Buf) AluAcc(op Alu, w Width, imm int32) {
	b.acc(w, uint16(op)<<3|4)
	b.imm(w, imm)
}

// acc appends the opcode of an instruction that implies the accumulator.
func (b *Buf) acc(w Width, opcode uint16) {
	switch w {
	case W16:
		b.Raw(0x66)
	case W64:
		b.Raw(rex | rexW)
	}
	b.Raw(byte(bytewise(opcode, w)))
}

// Test is `test dst, src` (84, 85 /r).
func (b *Buf) Test(w Width, dst RM, src Reg) {
	b.op(w, bytewise(0x84, w), src, dst, w == W8, w == W8)
}

// TestImm is `test dst, imm` (f6, f7 /0).
func (b *Buf) TestImm(w Width, dst RM, imm int32) {
	b.group(w, bytewise(0xf6, w), 0, dst)
	b.imm(w, imm)
}

// TestAcc is `test al/ax/eax/rax, imm` (a8, a9).
func (b *Buf) TestAcc(w Width, imm int32) {
	b.acc(w, 0xa8)
	b.imm(w, imm)
}

// Unary is an operation on one r/m operand. Mul, Imul1, Div and Idiv imply the
// accumulator and DX.
type Unary uint8

const (
	Not   Unary = 2
	Neg   Unary = 3
	Mul   Unary = 4
	Imul1 Unary = 5
	Div   Unary = 6
	Idiv  Unary = 7
)

// Unary is `op rm` (f6, f7).
func (b *Buf) Unary(op Unary, w Width, rm RM) { b.group(w, bytewise(0xf6, w), byte(op), rm) }

// Inc is `inc rm` (fe, ff /0).
func (b *Buf) Inc(w Width, rm RM) { b.group(w, bytewise(0xfe, w), 0, rm) }

// Dec is `dec rm` (fe, ff /1).
func (b *Buf) Dec(w Width, rm RM) { b.group(w, bytewise(0xfe, w), 1, rm) }

// Imul is `imul dst, src` (0f af /r), 16 bits or more.
func (b *Buf) Imul(w Width, dst Reg, src RM) { b.op(w, 0x0faf, dst, src, false, false) }

// ImulImm8 is `imul dst, src, imm` with a sign-extended byte (6b).
func (b *Buf) ImulImm8(w Width, dst Reg, src RM, imm int8) {
	b.op(w, 0x6b, dst, src, false, false)
	b.Raw(byte(imm))
}

// ImulImm is `imul dst, src, imm` (69).
func (b *Buf) ImulImm(w Width, dst Reg, src RM, imm int32) {
	b.op(w, 0x69, dst, src, false, false)
	b.imm(w, imm)
}

// Shift is a shift or rotation, by its digit.
type Shift uint8

const (
	Rol Shift = 0
	Ror Shift = 1
	Rcl Shift = 2
	Rcr Shift = 3
	Shl Shift = 4
	Shr Shift = 5
	Sar Shift = 7
)

// ShiftImm is `op rm, count` (c0, c1), also for a count of 1.
func (b *Buf) ShiftImm(op Shift, w Width, rm RM, count uint8) {
	b.group(w, bytewise(0xc0, w), byte(op), rm)
	b.Raw(count)
}

// Shift1 is `op rm, 1`, the form without a count (d0, d1).
func (b *Buf) Shift1(op Shift, w Width, rm RM) { b.group(w, bytewise(0xd0, w), byte(op), rm) }

// ShiftCL is `op rm, cl` (d2, d3).
func (b *Buf) ShiftCL(op Shift, w Width, rm RM) { b.group(w, bytewise(0xd2, w), byte(op), rm) }

// Mov is `mov dst, src` with the destination in r/m (88, 89 /r): register to
// register as assemblers choose it, and stores.
func (b *Buf) Mov(w Width, dst RM, src Reg) {
	b.op(w, bytewise(0x88, w), src, dst, w == W8, w == W8)
}

// Load is `mov dst, src` with the source in r/m (8a, 8b /r).
func (b *Buf) Load(w Width, dst Reg, src RM) {
	b.op(w, bytewise(0x8a, w), dst, src, w == W8, w == W8)
}

// MovImm32 is `mov r32, imm32` (b8+r); the upper half becomes 0.
func (b *Buf) MovImm32(dst Reg, imm uint32) {
	b.plusReg(W32, 0xb8, dst)
	b.Imm32(imm)
}

// MovImm64 is `movabs r64, imm64` (REX.W b8+r).
func (b *Buf) MovImm64(dst Reg, imm uint64) {
	b.plusReg(W64, 0xb8, dst)
	b.Imm64(imm)
}

// MovImm is `mov rm, imm` (c6, c7 /0); W64 sign-extends 32 bits.
func (b *Buf) MovImm(w Width, dst RM, imm int32) {
	b.group(w, bytewise(0xc6, w), 0, dst)
	b.imm(w, imm)
}

// MovZX is `movzx r32, src` from 8 or 16 bits (0f b6, 0f b7); the upper half
// becomes 0.
func (b *Buf) MovZX(dst Reg, from Width, src RM) {
	b.op(W32, bytewise(0x0fb6, from), dst, src, false, from == W8)
}

// MovSX is `movsx dst, src` from 8 or 16 bits (0f be, 0f bf), and movsxd from
// 32 bits (63).
func (b *Buf) MovSX(to Width, dst Reg, from Width, src RM) {
	if from == W32 {
		b.op(to, 0x63, dst, src, false, false)
		return
	}
	b.op(to, bytewise(0x0fbe, from), dst, src, false, from == W8)
}

// Lea is `lea dst, mem` (8d): the address cut to w.
func (b *Buf) Lea(w Width, dst Reg, mem RM) { b.op(w, 0x8d, dst, mem, false, false) }

// Xchg is `xchg rm, r` (86, 87 /r).
func (b *Buf) Xchg(w Width, rm RM, r Reg) {
	b.op(w, bytewise(0x86, w), r, rm, w == W8, w == W8)
}

// Bswap is `bswap r` (0f c8+r), 32 or 64 bits.
func (b *Buf) Bswap(w Width, r Reg) { b.plusReg(w, 0x0fc8, r) }

// Push is `push r64` (50+r).
func (b *Buf) Push(r Reg) { b.plusReg(W32, 0x50, r) }

// Pop is `pop r64` (58+r).
func (b *Buf) Pop(r Reg) { b.plusReg(W32, 0x58, r) }

// Bare is an instruction without operands, as its bytes.
type Bare string

const (
	Ret      Bare = "\xc3"
	Leave    Bare = "\xc9"
	Hlt      Bare = "\xf4"
	Nop      Bare = "\x90"
	Int3     Bare = "\xcc"
	Ud2      Bare = "\x0f\x0b"
	Cld      Bare = "\xfc"
	Std      Bare = "\xfd"
	Cli      Bare = "\xfa"
	Sti      Bare = "\xfb"
	Pushf    Bare = "\x9c"
	Popf     Bare = "\x9d"
	Cdq      Bare = "\x99"
	Cqo      Bare = "\x48\x99"
	Rdtsc    Bare = "\x0f\x31"
	RepMovsb Bare = "\xf3\xa4"     // CX bytes from [SI] to [DI]
	RepMovsq Bare = "\xf3\x48\xa5" // CX quadwords from [SI] to [DI]
	RepStosb Bare = "\xf3\xaa"     // CX bytes of AL to [DI]
	RepStosq Bare = "\xf3\x48\xab" // CX quadwords of AX to [DI]
	Iretq    Bare = "\x48\xcf"
	Swapgs   Bare = "\x0f\x01\xf8"
)

// Bare appends an instruction without operands.
func (b *Buf) Bare(op Bare) { *b = append(*b, op...) }
