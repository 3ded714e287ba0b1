package bpf

// step is an instruction in the form that is executed. The checker has made
// sure that jumps only go forward and that cells exist. For opExt, k is an
// Extension.
type step struct {
	op     op
	jt, jf uint8
	k      uint32
}

// op is what a step does. The numbers are dense, for the jump table of exec.
type op uint8

const (
	opNone op = iota

	opLdWAbs
	opLdHAbs
	opLdBAbs
	opLdWInd
	opLdHInd
	opLdBInd
	opLdxMsh
	opLdData // seccomp's LD W ABS
	opExt
	opLdImm
	opLdMem
	opLdLen
	opLdxImm
	opLdxMem
	opLdxLen
	opSt
	opStx

	opAddK
	opAddX
	opSubK
	opSubX
	opMulK
	opMulX
	opDivK
	opDivX
	opOrK
	opOrX
	opAndK
	opAndX
	opLshK
	opLshX
	opRshK
	opRshX
	opNeg
	opModK
	opModX
	opXorK
	opXorX

	opJa
	opJeqK
	opJgtK
	opJgeK
	opJsetK
	opJeqX
	opJgtX
	opJgeX
	opJsetX

	opRetK
	opRetA
	opTax
	opTxa

	// Fused: the first instruction does the second, too, which keeps its own
	// step for its operands and for jumps to it. Compiled expressions consist
	// of loads with a JEQ behind them for the greater part, and seccomp filters
	// of runs of JEQ.
	opLdWAbsJeqK
	opLdHAbsJeqK
	opLdBAbsJeqK
	opLdWIndJeqK
	opLdHIndJeqK
	opLdBIndJeqK
	opLdHAbsJsetK
	opJeqRun // JEQ K that falls through to another JEQ K

	opTrace // stop to report the state
)

// decode makes a step of an instruction that the checker has accepted.
func decode(ins Instruction, kind Kind, rules Rules) step {
	s := step{op: opcodes[ins.Code].op, jt: ins.JT, jf: ins.JF, k: ins.K}
	ext, isExt := rules.Extension(ins)
	switch {
	case kind == Seccomp && s.op == opLdWAbs:
		s.op = opLdData
	case isExt && ext == ExtXorX:
		s.op = opXorX
	case isExt:
		s.op, s.k = opExt, uint32(ext)
	}
	return s
}

// beforeJeqK is the fused op of a load with JEQ K behind it.
var beforeJeqK = [opTrace]op{
	opLdWAbs: opLdWAbsJeqK, opLdHAbs: opLdHAbsJeqK, opLdBAbs: opLdBAbsJeqK,
	opLdWInd: opLdWIndJeqK, opLdHInd: opLdHIndJeqK, opLdBInd: opLdBIndJeqK,
}

// fuse gives steps fused ops and returns them.
func fuse(steps []step) []step {
	for pc := range steps[:len(steps)-1] {
		s, next := &steps[pc], steps[pc+1].op // which is not fused yet
		switch {
		case next == opJeqK && beforeJeqK[s.op] != opNone:
			s.op = beforeJeqK[s.op]
		case next == opJeqK && s.op == opJeqK && s.jf == 0:
			s.op = opJeqRun
		case next == opJsetK && s.op == opLdHAbs:
			s.op = opLdHAbsJsetK
		}
	}
	return steps
}
