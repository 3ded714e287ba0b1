package bpf

// The 50 codes of classic BPF. A code is class | size | mode for loads,
// class | operation | source for arithmetic and jumps (linux/bpf_common.h).
const (
	LdImm  = 0x00 // A = k
	LdWAbs = 0x20 // A = be32 P[k], or an ancillary load
	LdHAbs = 0x28 // A = be16 P[k], or an ancillary load
	LdBAbs = 0x30 // A = P[k], or an ancillary load
	LdWInd = 0x40 // A = be32 P[X+k]
	LdHInd = 0x48 // A = be16 P[X+k]
	LdBInd = 0x50 // A = P[X+k]
	LdMem  = 0x60 // A = M[k]
	LdLen  = 0x80 // A = length of the packet

	LdxImm = 0x01 // X = k
	LdxMem = 0x61 // X = M[k]
	LdxLen = 0x81 // X = length of the packet
	LdxMsh = 0xb1 // X = 4 * (P[k] & 15)

	St  = 0x02 // M[k] = A
	Stx = 0x03 // M[k] = X

	AddK, AddX = 0x04, 0x0c
	SubK, SubX = 0x14, 0x1c
	MulK, MulX = 0x24, 0x2c
	DivK, DivX = 0x34, 0x3c // unsigned; X = 0 ends the program with 0
	OrK, OrX   = 0x44, 0x4c
	AndK, AndX = 0x54, 0x5c
	LshK, LshX = 0x64, 0x6c // a count in X is taken mod 32
	RshK, RshX = 0x74, 0x7c // logical
	Neg        = 0x84       // A = -A
	ModK, ModX = 0x94, 0x9c // unsigned; X = 0 ends the program with 0
	XorK, XorX = 0xa4, 0xac

	Ja         = 0x05 // pc += k
	JeqK, JeqX = 0x15, 0x1d
	JgtK, JgtX = 0x25, 0x2d // unsigned
	JgeK, JgeX = 0x35, 0x3d // unsigned
	JsetK      = 0x45
	JsetX      = 0x4d

	RetK = 0x06
	RetX = 0x0e // part of the encoding; Linux never accepted it
	RetA = 0x16

	Tax = 0x07
	Txa = 0x87
)

// The instruction classes, code & 7.
const (
	ClassLd   = 0x00
	ClassLdx  = 0x01
	ClassSt   = 0x02
	ClassStx  = 0x03
	ClassAlu  = 0x04
	ClassJmp  = 0x05
	ClassRet  = 0x06
	ClassMisc = 0x07
)

// IsCondJump reports whether the code is a conditional jump that Linux knows.
func IsCondJump(code uint16) bool {
	switch code {
	case JeqK, JeqX, JgtK, JgtX, JgeK, JgeX, JsetK, JsetX:
		return true
	}
	return false
}

// IsRet reports whether the code ends the program.
func IsRet(code uint16) bool { return code == RetK || code == RetA || code == RetX }

// operand says what a code asks of the fields of its instruction.
type operand uint8

const (
	anyOperand operand = iota
	cell               // K < MemWords
	divisor            // K is not 0
	count              // K < 32
	position           // K is a packet offset or an ancillary load; in seccomp a word of the data
	jump               // K stays inside the program
	branch             // JT and JF stay inside the program
)

// opcode is what the checker and the interpreter know about a code.
type opcode struct {
	op      op // what the interpreter does; opNone if Linux takes the code nowhere
	operand operand
	seccomp bool // seccomp filters may hold it
	modXor  bool // came with 3.7
}

// opcodes has a row for each of the 49 codes that Linux takes in socket
// filters; 41 of them may stand in seccomp filters.
var opcodes = [256]opcode{
	LdImm:  {op: opLdImm, seccomp: true},
	LdWAbs: {op: opLdWAbs, operand: position, seccomp: true},
	LdHAbs: {op: opLdHAbs, operand: position},
	LdBAbs: {op: opLdBAbs, operand: position},
	LdWInd: {op: opLdWInd},
	LdHInd: {op: opLdHInd},
	LdBInd: {op: opLdBInd},
	LdMem:  {op: opLdMem, operand: cell, seccomp: true},
	LdLen:  {op: opLdLen, seccomp: true},

	LdxImm: {op: opLdxImm, seccomp: true},
	LdxMem: {op: opLdxMem, operand: cell, seccomp: true},
	LdxLen: {op: opLdxLen, seccomp: true},
	LdxMsh: {op: opLdxMsh},

	St:  {op: opSt, operand: cell, seccomp: true},
	Stx: {op: opStx, operand: cell, seccomp: true},

	AddK: {op: opAddK, seccomp: true},
	AddX: {op: opAddX, seccomp: true},
	SubK: {op: opSubK, seccomp: true},
	SubX: {op: opSubX, seccomp: true},
	MulK: {op: opMulK, seccomp: true},
	MulX: {op: opMulX, seccomp: true},
	DivK: {op: opDivK, operand: divisor, seccomp: true},
	DivX: {op: opDivX, seccomp: true},
	OrK:  {op: opOrK, seccomp: true},
	OrX:  {op: opOrX, seccomp: true},
	AndK: {op: opAndK, seccomp: true},
	AndX: {op: opAndX, seccomp: true},
	LshK: {op: opLshK, operand: count, seccomp: true},
	LshX: {op: opLshX, seccomp: true},
	RshK: {op: opRshK, operand: count, seccomp: true},
	RshX: {op: opRshX, seccomp: true},
	Neg:  {op: opNeg, seccomp: true},
	ModK: {op: opModK, operand: divisor, modXor: true},
	ModX: {op: opModX, modXor: true},
	XorK: {op: opXorK, seccomp: true, modXor: true},
	XorX: {op: opXorX, seccomp: true, modXor: true},

	Ja:    {op: opJa, operand: jump, seccomp: true},
	JeqK:  {op: opJeqK, operand: branch, seccomp: true},
	JeqX:  {op: opJeqX, operand: branch, seccomp: true},
	JgtK:  {op: opJgtK, operand: branch, seccomp: true},
	JgtX:  {op: opJgtX, operand: branch, seccomp: true},
	JgeK:  {op: opJgeK, operand: branch, seccomp: true},
	JgeX:  {op: opJgeX, operand: branch, seccomp: true},
	JsetK: {op: opJsetK, operand: branch, seccomp: true},
	JsetX: {op: opJsetX, operand: branch, seccomp: true},

	RetK: {op: opRetK, seccomp: true},
	RetA: {op: opRetA, seccomp: true},

	Tax: {op: opTax, seccomp: true},
	Txa: {op: opTxa, seccomp: true},
}
