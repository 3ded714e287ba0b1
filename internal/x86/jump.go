package x86

// Cond is a condition of a jump, setcc or cmov, by its number.
type Cond uint8

const (
	CondO  Cond = iota // overflow
	CondNO             // no overflow
	CondB              // below (unsigned); carry
	CondAE             // above or equal
	CondE              // equal; zero
	CondNE             // not equal; not zero
	CondBE             // below or equal
	CondA              // above
	CondS              // negative
	CondNS             // not negative
	CondP              // even parity
	CondNP             // odd parity
	CondL              // less (signed)
	CondGE             // greater or equal
	CondLE             // less or equal
	CondG              // greater
)

// Not returns the opposite condition.
func (c Cond) Not() Cond { return c ^ 1 }

// Displacements count from the end of the jump instruction.

// JmpShort is `jmp rel8` (eb).
func (b *Buf) JmpShort(disp int8) { b.Raw(0xeb, byte(disp)) }

// JmpNear is `jmp rel32` (e9).
func (b *Buf) JmpNear(disp int32) {
	b.Raw(0xe9)
	b.Imm32(uint32(disp))
}

// JccShort is `jcc rel8` (70+cc).
func (b *Buf) JccShort(cc Cond, disp int8) { b.Raw(0x70+byte(cc), byte(disp)) }

// JccNear is `jcc rel32` (0f 80+cc).
func (b *Buf) JccNear(cc Cond, disp int32) {
	b.Raw(0x0f, 0x80+byte(cc))
	b.Imm32(uint32(disp))
}

// JmpRM is `jmp rm`, 64 bits (ff /4).
func (b *Buf) JmpRM(rm RM) { b.group(W32, 0xff, 4, rm) }

// CallNear is `call rel32` (e8).
func (b *Buf) CallNear(disp int32) {
	b.Raw(0xe8)
	b.Imm32(uint32(disp))
}

// CallRM is `call rm`, 64 bits (ff /2).
func (b *Buf) CallRM(rm RM) { b.group(W32, 0xff, 2, rm) }

// Setcc is `setcc rm8` (0f 90+cc).
func (b *Buf) Setcc(cc Cond, rm RM) { b.group(W8, 0x0f90+uint16(cc), 0, rm) }

// Cmov is `cmovcc dst, src` (0f 40+cc), 16 bits or more.
func (b *Buf) Cmov(cc Cond, w Width, dst Reg, src RM) {
	b.op(w, 0x0f40+uint16(cc), dst, src, false, false)
}
