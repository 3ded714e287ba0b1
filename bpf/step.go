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

	// Fused: the first instruction does those behind it, too, which keep their own
	// steps for their operands and for jumps to them. Compiled expressions consist
	// of loads with a comparison behind them for the greater part, and seccomp
	// filters of runs of JEQ.
	opLdWAbsJeqK
	opLdHAbsJeqK
	opLdBAbsJeqK
	opLdWIndJeqK
	opLdHIndJeqK
	opLdBIndJeqK
	opLdWAbsTest // with JSET, JGT or JGE K behind it, or with AND K and any test of K
	opLdHAbsTest
	opLdBAbsTest
	opLdWIndTest
	opLdHIndTest
	opLdBIndTest
	opLdxMshLdHIndJeqK // a port
	opJeqRun           // JEQ K that falls through to another JEQ K

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

// beforeTest is the fused op of a load with another of the tests behind it, or
// with AND K and one of them.
var beforeTest = [opTrace]op{
	opLdWAbs: opLdWAbsTest, opLdHAbs: opLdHAbsTest, opLdBAbs: opLdBAbsTest,
	opLdWInd: opLdWIndTest, opLdHInd: opLdHIndTest, opLdBInd: opLdBIndTest,
}

// tests are the jumps that compare with K.
var tests = [opTrace]bool{opJeqK: true, opJsetK: true, opJgtK: true, opJgeK: true}

// fuse gives steps fused ops and returns them. What is behind a step is not fused
// yet, and behind the last, which returns, there is nothing.
func fuse(steps []step) []step {
	for pc := range steps[:len(steps)-1] {
		s, next := &steps[pc], steps[pc+1].op
		switch {
		case next == opJeqK && beforeJeqK[s.op] != opNone:
			s.op = beforeJeqK[s.op]
		case next == opJeqK && s.op == opJeqK && s.jf == 0:
			s.op = opJeqRun
		case beforeTest[s.op] != opNone && (tests[next] || next == opAndK && tests[steps[pc+2].op]):
			s.op = beforeTest[s.op]
		case s.op == opLdxMsh && next == opLdHInd && steps[pc+2].op == opJeqK:
			s.op = opLdxMshLdHIndJeqK
		}
	}
	return steps
}
