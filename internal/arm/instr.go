package arm

// Alu is a data-processing operation by its number.
type Alu uint8

const (
	And Alu = iota
	Eor
	Sub
	Rsb // op2 - rn
	Add
	Adc
	Sbc
	Rsc
	Tst
	Teq
	Cmp
	Cmn
	Orr
	opMov
	Bic
	opMvn
)

// Alu is `op rd, rn, op2` and leaves the flags alone. Comparisons have a method
// of their own.
func (b *Buf) Alu(cond Cond, op Alu, rd, rn Reg, op2 Op2) { b.dp(cond, op, false, rd, rn, op2) }

// AluS is `ops rd, rn, op2`, which sets the flags.
func (b *Buf) AluS(cond Cond, op Alu, rd, rn Reg, op2 Op2) { b.dp(cond, op, true, rd, rn, op2) }

// Compare is `op rn, op2` for Tst, Teq, Cmp and Cmn.
func (b *Buf) Compare(cond Cond, op Alu, rn Reg, op2 Op2) { b.dp(cond, op, true, 0, rn, op2) }

// Mov is `mov rd, op2`. Shifts are moves of a shifted register.
func (b *Buf) Mov(cond Cond, rd Reg, op2 Op2) { b.dp(cond, opMov, false, rd, 0, op2) }

// Mvn is `mvn rd, op2`: the complement.
func (b *Buf) Mvn(cond Cond, rd Reg, op2 Op2) { b.dp(cond, opMvn, false, rd, 0, op2) }

// Nop is `mov r0, r0`, which does nothing on every version.
func (b *Buf) Nop() { b.Mov(AL, R0, R(R0)) }

// Movw is `movw rd, #imm`; the upper half becomes 0. ARMv6T2 and later.
func (b *Buf) Movw(cond Cond, rd Reg, imm uint16) { b.wide(cond, 0x03000000, rd, imm) }

// Movt is `movt rd, #imm`: the upper half only. ARMv6T2 and later.
func (b *Buf) Movt(cond Cond, rd Reg, imm uint16) { b.wide(cond, 0x03400000, rd, imm) }

func (b *Buf) wide(cond Cond, word uint32, rd Reg, imm uint16) {
	b.op(cond, word|uint32(rd)<<atRd|uint32(imm>>12)<<16|uint32(imm&0xfff))
}

// Mul is `mul rd, rm, rs`. Before ARMv6 rd and rm must differ.
func (b *Buf) Mul(cond Cond, rd, rm, rs Reg) { b.mul(cond, 0x00000090, rd, 0, rs, rm) }

// Mla is `mla rd, rm, rs, ra`: rm * rs + ra.
func (b *Buf) Mla(cond Cond, rd, rm, rs, ra Reg) { b.mul(cond, 0x00200090, rd, ra, rs, rm) }

// Mls is `mls rd, rm, rs, ra`: ra - rm * rs. ARMv6T2 and later.
func (b *Buf) Mls(cond Cond, rd, rm, rs, ra Reg) { b.mul(cond, 0x00600090, rd, ra, rs, rm) }

// Umull is `umull lo, hi, rm, rs`: all 64 bits of the product. Before ARMv6 lo,
// hi and rm must differ.
func (b *Buf) Umull(cond Cond, lo, hi, rm, rs Reg) { b.mul(cond, 0x00800090, hi, lo, rs, rm) }

// Udiv is `udiv rd, rn, rm`: rn / rm, and 0 for rm = 0. Some ARMv7 only.
func (b *Buf) Udiv(cond Cond, rd, rn, rm Reg) { b.mul(cond, 0x0730f010, rd, 0, rm, rn) }

// Clz is `clz rd, rm`: the leading zeros. ARMv5T and later.
func (b *Buf) Clz(cond Cond, rd, rm Reg) { b.misc(cond, 0x016f0f10, rd, rm) }

// Rev is `rev rd, rm`: the bytes in reverse. ARMv6 and later.
func (b *Buf) Rev(cond Cond, rd, rm Reg) { b.misc(cond, 0x06bf0f30, rd, rm) }

// Rev16 is `rev16 rd, rm`: the bytes of each half in reverse. ARMv6 and later.
func (b *Buf) Rev16(cond Cond, rd, rm Reg) { b.misc(cond, 0x06bf0fb0, rd, rm) }

func (b *Buf) misc(cond Cond, word uint32, rd, rm Reg) {
	b.op(cond, word|uint32(rd)<<atRd|uint32(rm))
}

const bitByte = 1 << 22

// Ldr is `ldr rd, mem`: a word.
func (b *Buf) Ldr(cond Cond, rd Reg, m Mem) { b.transfer(cond, bitLoad, rd, m) }

// Str is `str rd, mem`.
func (b *Buf) Str(cond Cond, rd Reg, m Mem) { b.transfer(cond, 0, rd, m) }

// Ldrb is `ldrb rd, mem`: a byte; the other bits become 0.
func (b *Buf) Ldrb(cond Cond, rd Reg, m Mem) { b.transfer(cond, bitByte|bitLoad, rd, m) }

// Strb is `strb rd, mem`.
func (b *Buf) Strb(cond Cond, rd Reg, m Mem) { b.transfer(cond, bitByte, rd, m) }

// Ldrh is `ldrh rd, mem`: a halfword; the upper half becomes 0.
func (b *Buf) Ldrh(cond Cond, rd Reg, m Mem) { b.transferHalf(cond, 0xb0|bitLoad, rd, m) }

// Strh is `strh rd, mem`.
func (b *Buf) Strh(cond Cond, rd Reg, m Mem) { b.transferHalf(cond, 0xb0, rd, m) }

// Push is `push {set}` in the form for several registers, also for one.
func (b *Buf) Push(set RegSet) { b.op(AL, 0x092d0000|uint32(set)) }

// Pop is `pop {set}` in the form for several registers, also for one.
func (b *Buf) Pop(set RegSet) { b.op(AL, 0x08bd0000|uint32(set)) }

// Ldm is `ldm base, {set}` from base upwards, which stays as it is.
func (b *Buf) Ldm(cond Cond, base Reg, set RegSet) {
	b.op(cond, 0x08900000|uint32(base)<<atRn|uint32(set))
}

// Stm is `stm base, {set}` from base upwards, which stays as it is.
func (b *Buf) Stm(cond Cond, base Reg, set RegSet) {
	b.op(cond, 0x08800000|uint32(base)<<atRn|uint32(set))
}

// LdmInc is `ldm base!, {set}`: base ends behind the last word.
func (b *Buf) LdmInc(cond Cond, base Reg, set RegSet) {
	b.op(cond, 0x08b00000|uint32(base)<<atRn|uint32(set))
}

// StmInc is `stm base!, {set}`: base ends behind the last word.
func (b *Buf) StmInc(cond Cond, base Reg, set RegSet) {
	b.op(cond, 0x08a00000|uint32(base)<<atRn|uint32(set))
}

// Mrc is `mrc pN, opc1, rd, cN, cM, opc2`: from a coprocessor register.
func (b *Buf) Mrc(cond Cond, p, opc1 uint8, rd Reg, crn, crm, opc2 uint8) {
	b.coprocessor(cond, bitLoad, p, opc1, rd, crn, crm, opc2)
}

// Mcr is `mcr pN, opc1, rd, cN, cM, opc2`: to a coprocessor register. The one
// that waits for an interrupt on ARMv5 is Mcr(AL, 15, 0, rd, 7, 0, 4).
func (b *Buf) Mcr(cond Cond, p, opc1 uint8, rd Reg, crn, crm, opc2 uint8) {
	b.coprocessor(cond, 0, p, opc1, rd, crn, crm, opc2)
}

func (b *Buf) coprocessor(cond Cond, word uint32, p, opc1 uint8, rd Reg, crn, crm, opc2 uint8) {
	b.op(cond, 0x0e000010|word|uint32(opc1&7)<<21|uint32(crn&15)<<atRn|uint32(rd)<<atRd|
		uint32(p&15)<<8|uint32(opc2&7)<<5|uint32(crm&15))
}

// Mrs is `mrs rd, cpsr`.
func (b *Buf) Mrs(cond Cond, rd Reg) { b.op(cond, 0x010f0000|uint32(rd)<<atRd) }

// Msr is `msr cpsr_c, rm`: mode and interrupt masks.
func (b *Buf) Msr(cond Cond, rm Reg) { b.op(cond, 0x0121f000|uint32(rm)) }

// Bare is an instruction without operands.
type Bare uint32

const (
	Wfi  Bare = 0xe320f003 // wait for an interrupt; a hint before ARMv7
	Bkpt Bare = 0xe1200070 // breakpoint 0
	Udf  Bare = 0xe7fddef1 // undefined for ever; Linux fills unused JIT memory with it
)

// Bare appends an instruction without operands.
func (b *Buf) Bare(op Bare) { b.Word(uint32(op)) }
