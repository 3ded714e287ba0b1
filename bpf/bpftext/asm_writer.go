package bpftext

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/kjit-project/kjit/bpf"
)

// asmByCode is how bpf_asm writes the 50 codes: as libpcap does, and two codes
// that libpcap has no name for.
var asmByCode = func() map[uint16]pcapOp {
	ops := map[uint16]pcapOp{
		bpf.LdxLen: {bpf.LdxLen, "ldx", shape{"len", "", noNumber}},
		bpf.RetX:   {bpf.RetX, "ret", register},
	}
	for _, op := range pcapOps {
		ops[op.code] = op
	}
	ops[bpf.LdLen] = pcapOp{bpf.LdLen, "ld", shape{"len", "", noNumber}}
	ops[bpf.RetA] = pcapOp{bpf.RetA, "ret", shape{"a", "", noNumber}}
	return ops
}()

// ZeroUnused returns the program with 0 in all fields that its instructions do
// not use, which means the same. tcpdump leaves numbers there ("tax" with a k);
// forms [D] and [Asm] have no place for them. Codes that Linux does not have
// are left alone.
func ZeroUnused(prog bpf.Program) bpf.Program {
	zeroed := make(bpf.Program, len(prog))
	for pc, ins := range prog {
		zeroed[pc] = zeroUnused(ins)
	}
	return zeroed
}

func zeroUnused(ins bpf.Instruction) bpf.Instruction {
	op, ok := asmByCode[ins.Code]
	if !ok {
		return ins
	}
	if !bpf.IsCondJump(ins.Code) {
		ins.JT, ins.JF = 0, 0
	}
	if op.shape.number == noNumber {
		ins.K = 0
	}
	return ins
}

// formatAsm writes source that bpf_asm assembles to ZeroUnused(prog). It has no
// words for unknown codes and for jumps out of the program, which give a
// *FormatError. Only "ja" can go backwards.
func formatAsm(prog bpf.Program) ([]byte, error) {
	targets := make([]bool, len(prog))
	for pc, ins := range prog {
		if reason := asmGap(pc, ins, len(prog)); reason != "" {
			return nil, &FormatError{Asm, pc, reason}
		}
		for _, t := range asmTargets(pc, ins) {
			targets[t] = true
		}
	}
	var b bytes.Buffer
	for pc, ins := range prog {
		if targets[pc] {
			fmt.Fprintf(&b, "L%d:", pc)
		}
		op := asmByCode[ins.Code]
		fmt.Fprintf(&b, "\t%s", op.name)
		sep := " "
		if ins.Code != bpf.Ja && op.shape != nothing {
			b.WriteString(sep + asmOperand(op, ins))
			sep = ", "
		}
		for _, t := range asmTargets(pc, ins) {
			fmt.Fprintf(&b, "%sL%d", sep, t)
			sep = ", "
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// asmGap tells why bpf_asm has no words for an instruction.
func asmGap(pc int, ins bpf.Instruction, length int) (reason string) {
	if _, ok := asmByCode[ins.Code]; !ok {
		return fmt.Sprintf("bpf_asm has no instruction for code 0x%x", ins.Code)
	}
	for _, t := range asmTargets(pc, ins) {
		if t < 0 || t >= length {
			return fmt.Sprintf("jump to %d, outside the program: bpf_asm has no label for it", t)
		}
	}
	return ""
}

// asmTargets are the absolute jump targets that source names.
func asmTargets(pc int, ins bpf.Instruction) []int {
	switch {
	case bpf.IsCondJump(ins.Code):
		return []int{pc + 1 + int(ins.JT), pc + 1 + int(ins.JF)}
	case ins.Code == bpf.Ja:
		return []int{pc + 1 + int(int32(ins.K))}
	}
	return nil
}

// asmOperand writes the operand. Constants are hex: bpf_asm on a 32-bit host
// cuts decimal ones above 2^31.
func asmOperand(op pcapOp, ins bpf.Instruction) string {
	if ext, ok := ins.Extension(); ok && ext != bpf.ExtXorX { // which bpf_asm has no name for
		return ext.String()
	}
	number := ""
	switch {
	case op.shape == hexImm || op.shape == decImm:
		number = fmt.Sprintf("0x%x", ins.K)
	case op.shape.number == signed:
		number = strconv.Itoa(int(int32(ins.K)))
	}
	return op.shape.pre + number + op.shape.post
}
