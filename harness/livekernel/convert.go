package livekernel

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/kjit-project/kjit/bpf"
)

// ConvertError is a program with an instruction that eBPF socket filters have
// nothing for.
type ConvertError struct {
	PC     int // -1: the whole program
	Reason string
}

func (e *ConvertError) Error() string {
	if e.PC < 0 {
		return "it has no eBPF form: " + e.Reason
	}
	return fmt.Sprintf("instruction %d has no eBPF form: %s", e.PC, e.Reason)
}

// The registers of a converted program. They are those of the kernel's own
// conversion, but for R8.
const (
	regA    = asm.R0
	regX    = asm.R7
	regCtx  = asm.R6
	regKeep = asm.R8 // A, while a load uses R0
)

// slot is where M[k] is from the frame pointer.
func slot(k uint32) int16 { return -4 * int16(bpf.MemWords-k) }

// loadSizes are those of the packet loads.
var loadSizes = map[uint16]asm.Size{
	bpf.LdWAbs: asm.Word, bpf.LdHAbs: asm.Half, bpf.LdBAbs: asm.Byte,
	bpf.LdWInd: asm.Word, bpf.LdHInd: asm.Half, bpf.LdBInd: asm.Byte,
}

var (
	aluOps = map[uint16]asm.ALUOp{
		bpf.AddK: asm.Add, bpf.SubK: asm.Sub, bpf.MulK: asm.Mul, bpf.DivK: asm.Div, bpf.ModK: asm.Mod,
		bpf.OrK: asm.Or, bpf.AndK: asm.And, bpf.XorK: asm.Xor, bpf.LshK: asm.LSh, bpf.RshK: asm.RSh,
	}
	jumpOps = map[uint16]asm.JumpOp{
		bpf.JeqK: asm.JEq, bpf.JgtK: asm.JGT, bpf.JgeK: asm.JGE, bpf.JsetK: asm.JSet,
	}
	// skbFields are offsets in struct __sk_buff (linux/bpf.h); all are words.
	skbFields = map[bpf.Extension]int16{
		bpf.ExtPktType: 4, bpf.ExtMark: 8, bpf.ExtQueue: 12, bpf.ExtProtocol: 16,
		bpf.ExtVlanPr: 20, bpf.ExtVlanTCI: 24, bpf.ExtVlanTPID: 28, bpf.ExtIfindex: 40, bpf.ExtRxhash: 68,
	}
)

// sourceX is the bit of a code that says that the operand is X.
const sourceX = 0x08

// convert writes a socket filter in eBPF, so that the verifier takes it: code
// that is never reached is left out, division by X tests X. Errors:
// *bpf.CheckError, *ConvertError.
func convert(prog bpf.Program, kind bpf.Kind) (asm.Instructions, error) {
	if kind != bpf.Socket {
		return nil, &ConvertError{-1, "seccomp filters do not come through bpf(2)"}
	}
	if err := bpf.Check(prog, kind, bpf.RulesCurrent); err != nil {
		return nil, err
	}
	out := asm.Instructions{
		asm.Mov.Reg(regCtx, asm.R1),
		asm.Mov.Imm32(regA, 0),
		asm.Mov.Imm32(regX, 0),
	}
	graph := bpf.Flow(prog)
	divides := false
	for pc, ins := range prog {
		if !graph.Reachable(pc) {
			continue
		}
		insns, err := convertOne(pc, ins)
		if err != nil {
			return nil, err
		}
		insns[0] = insns[0].WithSymbol(label(pc))
		out = append(out, insns...)
		divides = divides || ins.Code == bpf.DivX || ins.Code == bpf.ModX
	}
	if divides {
		out = append(out, asm.Mov.Imm32(asm.R0, 0).WithSymbol("zero"), asm.Return())
	}
	return out, nil
}

func label(pc int) string { return fmt.Sprintf("i%d", pc) }

func convertOne(pc int, ins bpf.Instruction) ([]asm.Instruction, error) {
	one := func(i asm.Instruction) ([]asm.Instruction, error) { return []asm.Instruction{i}, nil }
	k := int32(ins.K)
	if ext, ok := ins.Extension(); ok {
		return convertExtension(pc, ext)
	}
	switch ins.Code {
	case bpf.LdImm:
		return one(asm.Mov.Imm32(regA, k))
	case bpf.LdxImm:
		return one(asm.Mov.Imm32(regX, k))
	case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs:
		return one(asm.LoadAbs(k, loadSizes[ins.Code]))
	case bpf.LdWInd, bpf.LdHInd, bpf.LdBInd:
		return one(asm.LoadInd(regA, regX, k, loadSizes[ins.Code]))
	case bpf.LdxMsh:
		return []asm.Instruction{
			asm.Mov.Reg32(regKeep, regA),
			asm.LoadAbs(k, asm.Byte),
			asm.And.Imm32(regA, 15),
			asm.LSh.Imm32(regA, 2),
			asm.Mov.Reg32(regX, regA),
			asm.Mov.Reg32(regA, regKeep),
		}, nil
	case bpf.LdLen:
		return one(asm.LoadMem(regA, regCtx, 0, asm.Word))
	case bpf.LdxLen:
		return one(asm.LoadMem(regX, regCtx, 0, asm.Word))
	case bpf.LdMem:
		return one(asm.LoadMem(regA, asm.RFP, slot(ins.K), asm.Word))
	case bpf.LdxMem:
		return one(asm.LoadMem(regX, asm.RFP, slot(ins.K), asm.Word))
	case bpf.St:
		return one(asm.StoreMem(asm.RFP, slot(ins.K), regA, asm.Word))
	case bpf.Stx:
		return one(asm.StoreMem(asm.RFP, slot(ins.K), regX, asm.Word))
	case bpf.Neg:
		return one(asm.Neg.Imm32(regA, 0))
	case bpf.Tax:
		return one(asm.Mov.Reg32(regX, regA))
	case bpf.Txa:
		return one(asm.Mov.Reg32(regA, regX))
	case bpf.RetK:
		return []asm.Instruction{asm.Mov.Imm32(regA, k), asm.Return()}, nil
	case bpf.RetA:
		return one(asm.Return())
	case bpf.Ja:
		return one(asm.Ja.Label(label(pc + 1 + int(ins.K))))
	}
	base, withX := ins.Code&^sourceX, ins.Code&sourceX != 0
	if op, ok := aluOps[base]; ok {
		switch {
		case !withX:
			return one(op.Imm32(regA, k))
		case op == asm.Div || op == asm.Mod:
			return []asm.Instruction{asm.JEq.Imm32(regX, 0, "zero"), op.Reg32(regA, regX)}, nil
		}
		return one(op.Reg32(regA, regX))
	}
	if op, ok := jumpOps[base]; ok {
		yes, no := pc+1+int(ins.JT), pc+1+int(ins.JF)
		if yes == no {
			return one(asm.Ja.Label(label(yes)))
		}
		jump := op.Imm32(regA, k, label(yes))
		if withX {
			jump = op.Reg32(regA, regX, label(yes))
		}
		if no == pc+1 {
			return one(jump)
		}
		return []asm.Instruction{jump, asm.Ja.Label(label(no))}, nil
	}
	return nil, &ConvertError{pc, fmt.Sprintf("code %#x is not known", ins.Code)}
}

func convertExtension(pc int, ext bpf.Extension) ([]asm.Instruction, error) {
	if ext == bpf.ExtXorX {
		return []asm.Instruction{asm.Xor.Reg32(regA, regX)}, nil
	}
	off, ok := skbFields[ext]
	if !ok {
		return nil, &ConvertError{pc, fmt.Sprintf("a load of %s", ext)}
	}
	load := []asm.Instruction{asm.LoadMem(regA, regCtx, off, asm.Word)}
	if ext == bpf.ExtProtocol || ext == bpf.ExtVlanTPID {
		load = append(load, asm.HostTo(asm.BE, regA, asm.Half)) // in network order
	}
	return load, nil
}
