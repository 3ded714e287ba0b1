package bpf

import "fmt"

// CheckError says why a kernel refuses a program (it returns EINVAL). Two are
// equal with == if they say the same.
type CheckError struct {
	PC     int    // the instruction that is the reason, or -1 for the whole program
	Reason string // "jump goes to 12, the program has 10 instructions"
}

func (e *CheckError) Error() string {
	if e.PC < 0 {
		return e.Reason
	}
	return fmt.Sprintf("instruction %d: %s", e.PC, e.Reason)
}

// Check returns nil if a kernel with the given rules takes the program, else a
// *CheckError for the first thing that kernel finds wrong. It is the checker
// of sockets (Linux, sk_chk_filter, later bpf_check_classic), and for seccomp
// that one followed by seccomp's own.
//
// A program that passes ends after at most len(prog) instructions.
func Check(prog Program, kind Kind, rules Rules) error {
	if err := check(prog, kind, rules, nil); err != nil {
		return err
	}
	return nil
}

// check has an optional buffer that it may use if it has the capacity for one
// word per instruction.
func check(prog Program, kind Kind, rules Rules, buffer []uint16) *CheckError {
	switch {
	case kind == Seccomp && rules.NoSeccomp:
		return &CheckError{-1, noSeccomp(rules)}
	case len(prog) == 0:
		return &CheckError{-1, fmt.Sprintf("the program is empty, Linux takes 1 to %d instructions", MaxInsns)}
	case len(prog) > MaxInsns:
		return &CheckError{-1, fmt.Sprintf("the program has %d instructions, Linux takes at most %d", len(prog), MaxInsns)}
	}
	for pc := range prog {
		if reason := checkInstruction(prog, pc, kind, rules); reason != "" {
			return &CheckError{pc, reason}
		}
	}
	if last := len(prog) - 1; !IsRet(prog[last].Code) {
		return &CheckError{last, "the last instruction is no return"}
	}
	if cap(buffer) < len(prog) {
		buffer = make([]uint16, len(prog))
	}
	buffer = buffer[:len(prog)]
	clear(buffer)
	return checkMemory(prog, buffer)
}

// checkInstruction says what is wrong with an instruction by itself; "" if
// nothing is. Fields that the instruction does not use may hold anything.
func checkInstruction(prog Program, pc int, kind Kind, rules Rules) string {
	ins := prog[pc]
	if reason := rules.refusal(ins.Code, kind); reason != "" {
		return fmt.Sprintf("code 0x%02x %s", ins.Code, reason)
	}
	switch opcodes[ins.Code].operand {
	case cell:
		if ins.K >= MemWords {
			return fmt.Sprintf("there is no M[%d], the cells are M[0] to M[%d]", ins.K, MemWords-1)
		}
	case divisor:
		if ins.K == 0 {
			return "division by the constant 0"
		}
	case count:
		if ins.K > 31 && !rules.AnyShift {
			return fmt.Sprintf("shift by %d, the most is 31", ins.K)
		}
	case position:
		if kind == Seccomp {
			return checkDataOffset(ins.K)
		}
		if _, ok := rules.Extension(ins); !ok && ins.K >= ADOff && !rules.AnyExtension {
			return fmt.Sprintf("%s has no ancillary load %d", rules, ins.K-ADOff)
		}
	case jump:
		return checkJump(prog, pc+1+int(int32(ins.K)), pc)
	case branch:
		if reason := checkJump(prog, pc+1+int(ins.JT), pc); reason != "" {
			return reason
		}
		return checkJump(prog, pc+1+int(ins.JF), pc)
	}
	return ""
}

// dataSize is sizeof(struct seccomp_data).
const dataSize = 64

func checkDataOffset(k uint32) string {
	switch {
	case k >= dataSize:
		return fmt.Sprintf("load at %d, struct seccomp_data has %d bytes", k, dataSize)
	case k%4 != 0:
		return fmt.Sprintf("load at %d, seccomp filters load at multiples of 4", k)
	}
	return ""
}

// checkJump checks a jump from pc to target. The K of JA is unsigned to the
// kernel; where it is negative the message says what its author meant.
func checkJump(prog Program, target, pc int) string {
	switch {
	case target <= pc:
		return fmt.Sprintf("jump goes back to %d, Linux takes forward jumps only", target)
	case target >= len(prog):
		return fmt.Sprintf("jump goes to %d, the program has %d instructions", target, len(prog))
	}
	return ""
}

// checkMemory refuses loads from cells that are not stored to on every path.
// It passes over the program once, as Linux does, and so shares its opinions
// about unreachable code: behind a jump every cell counts as stored, behind a
// return those that were stored before it. unstored, all 0, is for the cells
// that some jump to an instruction leaves unstored.
func checkMemory(prog Program, unstored []uint16) *CheckError {
	missing := ^uint16(0) // cells that may be unstored at pc
	leave := func(target int) { unstored[target] |= missing }
	for pc, ins := range prog {
		missing |= unstored[pc]
		switch ins.Code {
		case St, Stx:
			missing &^= 1 << ins.K
		case LdMem, LdxMem:
			if missing>>ins.K&1 != 0 {
				return &CheckError{pc, fmt.Sprintf("M[%d] is loaded, but not stored on every path to here", ins.K)}
			}
		default:
			switch opcodes[ins.Code].operand {
			case jump:
				leave(pc + 1 + int(ins.K))
				missing = 0
			case branch:
				leave(pc + 1 + int(ins.JT))
				leave(pc + 1 + int(ins.JF))
				missing = 0
			}
		}
	}
	return nil
}
