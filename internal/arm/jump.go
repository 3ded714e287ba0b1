package arm

// Cond is a condition by its number. Every instruction here has one.
type Cond uint8

const (
	EQ Cond = iota // equal; zero
	NE             // not equal; not zero
	HS             // unsigned at or above; carry
	LO             // unsigned below
	MI             // negative
	PL             // not negative
	VS             // overflow
	VC             // no overflow
	HI             // unsigned above
	LS             // unsigned at or below
	GE             // signed at or above
	LT             // signed below
	GT             // signed above
	LE             // signed at or below
	AL             // always
)

// Not returns the opposite condition. AL has none.
func (c Cond) Not() Cond { return c ^ 1 }

// pcAhead is how far the program counter is ahead of the instruction that
// reads it, a branch for instance.
const pcAhead = 8

// Displacements count in bytes from the branch plus 8 and are multiples of 4,
// up to 32 MiB either way; what does not fit is cut off.

// B is `b disp`.
func (b *Buf) B(cond Cond, disp int32) { b.op(cond, 0x0a000000|imm24(disp)) }

// Bl is `bl disp`, a call.
func (b *Buf) Bl(cond Cond, disp int32) { b.op(cond, 0x0b000000|imm24(disp)) }

func imm24(disp int32) uint32 { return uint32(disp) >> 2 & 0xffffff }

// Bx is `bx rm`. ARMv4T and later.
func (b *Buf) Bx(cond Cond, rm Reg) { b.op(cond, 0x012fff10|uint32(rm)) }

// Blx is `blx rm`, a call. ARMv5T and later.
func (b *Buf) Blx(cond Cond, rm Reg) { b.op(cond, 0x012fff30|uint32(rm)) }
