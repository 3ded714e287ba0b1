package bpf

// frame is the state of a run, as it is while exec does not have it.
type frame struct {
	a, x    uint32
	pc      int
	skipped int // instructions that jumps have left out; jumps only go forward
	shifted int // 1 + the first instruction that shifted by more than 31, or 0
	mem     [MemWords]uint32
}

// stop says why exec or ask came back.
type stop uint8

const (
	atReturn  stop = iota
	atDivZero      // DIV X or MOD X with X = 0
	atFailure      // a load of what is not there
	atInput        // the step at pc needs more of Input than its linear bytes
	atTrace        // the step at pc is opTrace
)

// result ends the run at pc.
func (f *frame) result(value uint32, why stop) Result {
	return Result{
		Ending:   Ending{value, why == atDivZero, why == atFailure},
		Executed: f.pc + 1 - f.skipped,
		PC:       f.pc,
		ShiftPC:  f.shifted - 1,
	}
}

// ask performs the load of s, an unfused step, through the methods of in and
// goes on to the next instruction; it returns atInput then. If the load fails,
// it returns atFailure and the value that the program ends with.
func (f *frame) ask(in Input, s step) (value uint32, why stop) {
	ok := true
	switch s.op {
	case opLdLen, opLdxLen:
		value = in.Len()
	case opExt:
		if value, ok = in.Extension(Extension(s.k), f.a, f.x); !ok {
			return value, atFailure
		}
	case opLdWAbs, opLdData:
		value, ok = in.Load(s.k, 4)
	case opLdHAbs:
		value, ok = in.Load(s.k, 2)
	case opLdBAbs, opLdxMsh:
		value, ok = in.Load(s.k, 1)
	case opLdWInd:
		value, ok = in.Load(f.x+s.k, 4)
	case opLdHInd:
		value, ok = in.Load(f.x+s.k, 2)
	case opLdBInd:
		value, ok = in.Load(f.x+s.k, 1)
	}
	if !ok {
		return 0, atFailure
	}
	switch s.op {
	case opLdxMsh:
		f.x = value & 15 * 4
	case opLdxLen:
		f.x = value
	default:
		f.a = value
	}
	f.pc++
	return 0, atInput
}

// branch returns how many instructions a conditional jump skips.
func (s *step) branch(taken bool) int {
	if taken {
		return int(s.jt)
	}
	return int(s.jf)
}

// be32 and be16 load from i on. The caller has compared i with the size.
func be32(packet []byte, i int64) uint32 {
	return uint32(packet[i])<<24 | uint32(packet[i+1])<<16 | uint32(packet[i+2])<<8 | uint32(packet[i+3])
}

func be16(packet []byte, i int64) uint32 {
	return uint32(packet[i])<<8 | uint32(packet[i+1])
}

// exec executes steps from f.pc on, until it must stop.
//
// This is the loop that every comparison waits for, and three things in it are
// for speed. It makes no calls, so that the compiler keeps A, X and pc in
// registers. It counts what jumps skip instead of what is executed. And it
// adds a skip only if it is not 0: most jumps fall through, and then the
// processor need not wait for jt or jf to know the next instruction.
func (f *frame) exec(steps []step, packet []byte) (value uint32, why stop) {
	a, x, pc, skipped := f.a, f.x, f.pc, f.skipped
	size := int64(len(packet))
	for {
		s := &steps[pc]
		pc++
		switch s.op {
		case opLdWAbs:
			i := int64(s.k)
			if i >= size-3 {
				goto input
			}
			a = be32(packet, i)
			continue
		case opLdHAbs:
			i := int64(s.k)
			if i >= size-1 {
				goto input
			}
			a = be16(packet, i)
			continue
		case opLdBAbs:
			i := int64(s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			continue
		case opLdWInd:
			i := int64(x + s.k)
			if i >= size-3 {
				goto input
			}
			a = be32(packet, i)
			continue
		case opLdHInd:
			i := int64(x + s.k)
			if i >= size-1 {
				goto input
			}
			a = be16(packet, i)
			continue
		case opLdBInd:
			i := int64(x + s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			continue
		case opLdxMsh:
			i := int64(s.k)
			if i >= size {
				goto input
			}
			x = uint32(packet[i]) & 15 * 4
			continue
		case opLdData, opExt, opLdLen, opLdxLen:
			goto input

		case opLdImm:
			a = s.k
			continue
		case opLdMem:
			a = f.mem[s.k%MemWords]
			continue
		case opLdxImm:
			x = s.k
			continue
		case opLdxMem:
			x = f.mem[s.k%MemWords]
			continue
		case opSt:
			f.mem[s.k%MemWords] = a
			continue
		case opStx:
			f.mem[s.k%MemWords] = x
			continue

		case opAddK:
			a += s.k
			continue
		case opAddX:
			a += x
			continue
		case opSubK:
			a -= s.k
			continue
		case opSubX:
			a -= x
			continue
		case opMulK:
			a *= s.k
			continue
		case opMulX:
			a *= x
			continue
		case opOrK:
			a |= s.k
			continue
		case opOrX:
			a |= x
			continue
		case opAndK:
			a &= s.k
			continue
		case opAndX:
			a &= x
			continue
		case opXorK:
			a ^= s.k
			continue
		case opXorX:
			a ^= x
			continue
		case opDivK:
			a /= s.k // the checker has seen to it that k is not 0
			continue
		case opDivX:
			if x == 0 {
				why = atDivZero
				goto leave
			}
			a /= x
			continue
		case opModK:
			a %= s.k // the checker has seen to it that k is not 0
			continue
		case opModX:
			if x == 0 {
				why = atDivZero
				goto leave
			}
			a %= x
			continue
		case opLshK:
			if s.k > 31 && f.shifted == 0 {
				f.shifted = pc
			}
			a <<= s.k & 31
			continue
		case opLshX:
			if x > 31 && f.shifted == 0 {
				f.shifted = pc
			}
			a <<= x & 31
			continue
		case opRshK:
			if s.k > 31 && f.shifted == 0 {
				f.shifted = pc
			}
			a >>= s.k & 31
			continue
		case opRshX:
			if x > 31 && f.shifted == 0 {
				f.shifted = pc
			}
			a >>= x & 31
			continue
		case opNeg:
			a = -a
			continue

		case opJa:
			pc += int(s.k)
			skipped += int(s.k)
			continue
		case opJeqK, opJeqRun:
		case opJeqX:
			if skip := s.branch(a == x); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opJgtK:
			if skip := s.branch(a > s.k); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opJgtX:
			if skip := s.branch(a > x); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opJgeK:
			if skip := s.branch(a >= s.k); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opJgeX:
			if skip := s.branch(a >= x); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opJsetK:
			if skip := s.branch(a&s.k != 0); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opJsetX:
			if skip := s.branch(a&x != 0); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue

		case opRetK:
			value = s.k
			goto leave
		case opRetA:
			value = a
			goto leave
		case opTax:
			x = a
			continue
		case opTxa:
			a = x
			continue

		case opLdWAbsJeqK:
			i := int64(s.k)
			if i >= size-3 {
				goto input
			}
			a = be32(packet, i)
			s = &steps[pc]
			pc++
		case opLdHAbsJeqK:
			i := int64(s.k)
			if i >= size-1 {
				goto input
			}
			a = be16(packet, i)
			s = &steps[pc]
			pc++
		case opLdBAbsJeqK:
			i := int64(s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			s = &steps[pc]
			pc++
		case opLdWIndJeqK:
			i := int64(x + s.k)
			if i >= size-3 {
				goto input
			}
			a = be32(packet, i)
			s = &steps[pc]
			pc++
		case opLdHIndJeqK:
			i := int64(x + s.k)
			if i >= size-1 {
				goto input
			}
			a = be16(packet, i)
			s = &steps[pc]
			pc++
		case opLdBIndJeqK:
			i := int64(x + s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			s = &steps[pc]
			pc++
		case opLdHAbsJsetK:
			i := int64(s.k)
			if i >= size-1 {
				goto input
			}
			a = be16(packet, i)
			s = &steps[pc]
			pc++
			if skip := s.branch(a&s.k != 0); skip != 0 {
				pc += skip
				skipped += skip
			}
			continue
		case opTrace:
			why = atTrace
			goto leave
		}

		// s is a JEQ K, or the start of a run of them.
		for a != s.k && s.op == opJeqRun {
			s = &steps[pc]
			pc++
		}
		if skip := s.branch(a == s.k); skip != 0 {
			pc += skip
			skipped += skip
		}
	}
input:
	why = atInput
leave:
	f.a, f.x, f.pc, f.skipped = a, x, pc-1, skipped
	return value, why
}
