package seccompdata

import "github.com/kjit-project/kjit/bpf"

// Linux converts seccomp filters to its internal instructions before it runs or
// compiles them, and counts those against the limit of a task's filters. The
// numbers here were measured on Linux 6.18 by stacking filters until attaching
// one more failed.

// conversionPrologue is what every converted filter begins with: A and X are
// cleared and the context is moved.
const conversionPrologue = 3

// ConvertedInsns returns how many internal instructions an instruction of a
// seccomp filter becomes.
func ConvertedInsns(ins bpf.Instruction) int {
	switch {
	case ins.Code == bpf.RetK:
		return 2 // the value, and the exit
	case ins.Code == bpf.DivX:
		return 5 // X is tested for 0
	case bpf.IsCondJump(ins.Code):
		return convertedJump(ins)
	}
	return 1
}

// convertedJump: internal jumps have one target, so the other takes a jump of
// its own unless it is the next instruction. All but JSET can be turned around
// to get there. A constant that is negative as a signed number goes through a
// register, as internal constants are sign-extended.
func convertedJump(ins bpf.Instruction) int {
	n := 1
	if ins.JF != 0 && (ins.JT != 0 || ins.Code == bpf.JsetK || ins.Code == bpf.JsetX) {
		n++
	}
	if constantJump(ins) && ins.K>>31 != 0 {
		n++
	}
	return n
}

// constantJump reports whether a conditional jump compares with K.
func constantJump(ins bpf.Instruction) bool {
	const sourceX = 0x08 // BPF_X
	return bpf.IsCondJump(ins.Code) && ins.Code&sourceX == 0
}

// ConvertedLen returns the length that Linux counts for a seccomp filter.
func ConvertedLen(prog bpf.Program) int {
	n := conversionPrologue
	for _, ins := range prog {
		n += ConvertedInsns(ins)
	}
	return n
}

// BlindedLen returns the length that Linux counts where constants are blinded
// (net.core.bpf_jit_harden = 2): an internal instruction with a constant takes
// two more. Measured was that for RET K and for a JEQ K of one instruction; for
// programs with anything else the length is an estimate (Linux,
// bpf_jit_blind_insn: neither constants that are 0 and only moved nor counts of
// shifts are blinded), and measured is false.
func BlindedLen(prog bpf.Program) (n int, measured bool) {
	const perConstant = 2
	n, measured = conversionPrologue, true
	for _, ins := range prog {
		size := ConvertedInsns(ins)
		n += size
		if blinded[ins.Code] && (ins.K != 0 || !moves[ins.Code]) {
			n += perConstant
			measured = measured && (ins.Code == bpf.RetK || ins.Code == bpf.JeqK && size == 1)
		} else if blinded[ins.Code] || ins.Class() == bpf.ClassAlu {
			measured = false
		}
	}
	return n, measured
}

// blinded are the codes that are converted to an instruction with a constant.
// LEN is one in seccomp filters, and DIV X compares X with one.
var blinded = map[uint16]bool{
	bpf.LdImm: true, bpf.LdxImm: true, bpf.LdLen: true, bpf.LdxLen: true, bpf.RetK: true,
	bpf.AddK: true, bpf.SubK: true, bpf.MulK: true, bpf.DivK: true, bpf.DivX: true,
	bpf.AndK: true, bpf.OrK: true, bpf.XorK: true,
	bpf.JeqK: true, bpf.JgtK: true, bpf.JgeK: true, bpf.JsetK: true,
}

// moves are those of them whose constant is moved to a register as it is.
var moves = map[uint16]bool{bpf.LdImm: true, bpf.LdxImm: true, bpf.RetK: true}
