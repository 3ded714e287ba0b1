package arm

import "encoding/binary"

// Buf is machine code under construction. Its methods append one instruction
// each, four bytes. Reslice to [:0] to reuse it.
type Buf []byte

// Word appends a word as it is.
func (b *Buf) Word(v uint32) { *b = binary.LittleEndian.AppendUint32(*b, v) }

// WordAt returns the word at a byte offset.
func (b Buf) WordAt(off int) uint32 { return binary.LittleEndian.Uint32(b[off:]) }

// SetWord replaces the word at a byte offset.
func (b Buf) SetWord(off int, v uint32) { binary.LittleEndian.PutUint32(b[off:], v) }

// The places of fields in an instruction.
const (
	atCond = 28
	atRn   = 16
	atRd   = 12
	atRs   = 8
)

// op appends an instruction whose condition comes in front of its bits.
func (b *Buf) op(cond Cond, word uint32) { b.Word(uint32(cond)<<atCond | word) }

// dp appends a data-processing instruction.
func (b *Buf) dp(cond Cond, op Alu, setFlags bool, rd, rn Reg, op2 Op2) {
	word := uint32(op)<<21 | uint32(rn)<<atRn | uint32(rd)<<atRd | uint32(op2)
	if setFlags {
		word |= 1 << 20
	}
	b.op(cond, word)
}

// mul appends an instruction of the multiply family: rd in bits 19 to 16.
func (b *Buf) mul(cond Cond, word uint32, rd, ra, rs, rm Reg) {
	b.op(cond, word|uint32(rd)<<atRn|uint32(ra)<<atRd|uint32(rs)<<atRs|uint32(rm))
}

// The bits of a load or store that say how it addresses memory.
const (
	bitPre   = 1 << 24 // the offset counts before the access
	bitUp    = 1 << 23 // the offset is added
	bitWrite = 1 << 21
	bitLoad  = 1 << 20
)

// address returns the bits that all loads and stores share, and the offset
// without its sign.
func (m Mem) address() (word, off uint32) {
	word = uint32(m.base)<<atRn | bitUp | bitPre
	off = uint32(m.off)
	if m.off < 0 {
		word &^= bitUp
		off = -off
	}
	if m.post {
		word &^= bitPre // which implies that the base is written
	} else if m.write {
		word |= bitWrite
	}
	return word, off
}

// transfer appends a load or store of a word or byte.
func (b *Buf) transfer(cond Cond, word uint32, rd Reg, m Mem) {
	addr, off := m.address()
	if m.indexed {
		off = immediate | uint32(m.index) // the bit means the opposite here
	} else {
		off &= 0xfff
	}
	b.op(cond, 0x04000000|word|addr|uint32(rd)<<atRd|off)
}

// transferHalf appends a load or store of a halfword or a signed value.
func (b *Buf) transferHalf(cond Cond, word uint32, rd Reg, m Mem) {
	addr, off := m.address()
	if m.indexed {
		off = uint32(m.index)
	} else {
		off = 1<<22 | off>>4&0xf<<8 | off&0xf
	}
	b.op(cond, word|addr|uint32(rd)<<atRd|off)
}
