package bpf

import "unsafe"

// frame is the state of a run, as it is while exec does not have it.
type frame struct {
	a, x    uint32
	shifted *step // the first that shifted by more than 31, or nil
	mem     [MemWords]uint32
}

// stop says why exec or ask came back.
type stop uint8

const (
	atReturn  stop = iota
	atDivZero      // DIV X or MOD X with X = 0
	atFailure      // a load of what is not there
	atInput        // the step needs more of Input than its linear bytes
	atTrace        // the step is opTrace
)

// result ends the run of a program at instruction pc. Its first step is first.
func (f *frame) result(first *step, pc int, value uint32, why stop, skipped int) Result {
	r := Result{
		Ending:   Ending{value, why == atDivZero, why == atFailure},
		Executed: pc + 1 - skipped,
		PC:       pc,
		ShiftPC:  -1,
	}
	if f.shifted != nil {
		r.ShiftPC = f.shifted.behind(first)
	}
	return r
}

// ask performs the load of s, an unfused step, through the methods of in, and
// returns atInput. If the load fails,
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
	return 0, atInput
}

// stepSize is the distance in memory from a step to the next.
const stepSize = unsafe.Sizeof(step{})

// ahead is the step n behind s in the same program.
func (s *step) ahead(n int) *step {
	return (*step)(unsafe.Add(unsafe.Pointer(s), n*int(stepSize)))
}

// behind is how many steps s is behind first, which is of the same program.
func (s *step) behind(first *step) int {
	return int((uintptr(unsafe.Pointer(s)) - uintptr(unsafe.Pointer(first))) / stepSize)
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

// exec executes steps from s on until it must stop, and returns the step where it
// did. skipped goes on counting the instructions that jumps have left out; jumps
// only go forward.
//
// This is the loop that every comparison waits for, and some things in it are for
// speed. It makes no calls, so that the compiler keeps A, X and s in registers. It
// counts what jumps skip instead of what is executed. It adds a skip only if it is
// not 0: most jumps fall through, and then the processor need not wait for jt or jf
// to know the next instruction. It goes from step to step without comparing with
// their number: the checker has seen to it that every jump stays in the program and
// that the last instruction returns. And size1 and size3, beside what they save,
// place the head of the loop, 29 bytes of x86 code, where no line of the instruction
// cache ends in it, which it does not survive without losing a third of its speed:
// see its address modulo 32 with go tool objdump after a change.
func (f *frame) exec(s *step, packet []byte, skipped int) (value uint32, why stop, _ *step, _ int) {
	a, x := f.a, f.x
	size := int64(len(packet))
	size1, size3 := size-1, size-3
	for ; ; s = s.ahead(1) {
		switch s.op {
		case opNone: // no step has it, but cases from 0 on are dispatched faster
			why = atFailure
			goto leave
		case opLdWAbs:
			i := int64(s.k)
			if i >= size3 {
				goto input
			}
			a = be32(packet, i)
			continue
		case opLdHAbs:
			i := int64(s.k)
			if i >= size1 {
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
			if i >= size3 {
				goto input
			}
			a = be32(packet, i)
			continue
		case opLdHInd:
			i := int64(x + s.k)
			if i >= size1 {
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
			if s.k > 31 && f.shifted == nil {
				f.shifted = s
			}
			a <<= s.k & 31
			continue
		case opLshX:
			if x > 31 && f.shifted == nil {
				f.shifted = s
			}
			a <<= x & 31
			continue
		case opRshK:
			if s.k > 31 && f.shifted == nil {
				f.shifted = s
			}
			a >>= s.k & 31
			continue
		case opRshX:
			if x > 31 && f.shifted == nil {
				f.shifted = s
			}
			a >>= x & 31
			continue
		case opNeg:
			a = -a
			continue

		case opJa:
			skipped += int(s.k)
			s = s.ahead(int(s.k))
			continue
		case opJeqK, opJeqRun:
		case opJeqX:
			if skip := s.branch(a == x); skip != 0 {
				s = s.ahead(skip)
				skipped += skip
			}
			continue
		case opJgtK:
			if skip := s.branch(a > s.k); skip != 0 {
				s = s.ahead(skip)
				skipped += skip
			}
			continue
		case opJgtX:
			if skip := s.branch(a > x); skip != 0 {
				s = s.ahead(skip)
				skipped += skip
			}
			continue
		case opJgeK:
			if skip := s.branch(a >= s.k); skip != 0 {
				s = s.ahead(skip)
				skipped += skip
			}
			continue
		case opJgeX:
			if skip := s.branch(a >= x); skip != 0 {
				s = s.ahead(skip)
				skipped += skip
			}
			continue
		case opJsetK:
			if skip := s.branch(a&s.k != 0); skip != 0 {
				s = s.ahead(skip)
				skipped += skip
			}
			continue
		case opJsetX:
			if skip := s.branch(a&x != 0); skip != 0 {
				s = s.ahead(skip)
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
			if i >= size3 {
				goto input
			}
			a = be32(packet, i)
			s = s.ahead(1)
		case opLdHAbsJeqK:
			i := int64(s.k)
			if i >= size1 {
				goto input
			}
			a = be16(packet, i)
			s = s.ahead(1)
		case opLdBAbsJeqK:
			i := int64(s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			s = s.ahead(1)
		case opLdWIndJeqK:
			i := int64(x + s.k)
			if i >= size3 {
				goto input
			}
			a = be32(packet, i)
			s = s.ahead(1)
		case opLdHIndJeqK:
			i := int64(x + s.k)
			if i >= size1 {
				goto input
			}
			a = be16(packet, i)
			s = s.ahead(1)
		case opLdBIndJeqK:
			i := int64(x + s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			s = s.ahead(1)
		case opLdWAbsTest:
			i := int64(s.k)
			if i >= size3 {
				goto input
			}
			a = be32(packet, i)
			goto test
		case opLdHAbsTest:
			i := int64(s.k)
			if i >= size1 {
				goto input
			}
			a = be16(packet, i)
			goto test
		case opLdBAbsTest:
			i := int64(s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			goto test
		case opLdWIndTest:
			i := int64(x + s.k)
			if i >= size3 {
				goto input
			}
			a = be32(packet, i)
			goto test
		case opLdHIndTest:
			i := int64(x + s.k)
			if i >= size1 {
				goto input
			}
			a = be16(packet, i)
			goto test
		case opLdBIndTest:
			i := int64(x + s.k)
			if i >= size {
				goto input
			}
			a = uint32(packet[i])
			goto test
		case opLdxMshLdHIndJeqK:
			i := int64(s.k)
			if i >= size {
				goto input
			}
			x = uint32(packet[i]) & 15 * 4
			s = s.ahead(1)
			i = int64(x + s.k)
			if i >= size1 {
				goto input
			}
			a = be16(packet, i)
			s = s.ahead(1)
		case opTrace:
			why = atTrace
			goto pause
		}

	jeq: // s is a JEQ K, or one of a run of them.
		for {
			if a == s.k {
				if s.jt != 0 {
					skipped += int(s.jt)
					s = s.ahead(int(s.jt))
				}
				break
			}
			if s.op != opJeqRun {
				if s.jf != 0 {
					skipped += int(s.jf)
					s = s.ahead(int(s.jf))
				}
				break
			}
			s = s.ahead(1)
		}
		if next := s.ahead(1); next.op == opRetK {
			s = next
			value = s.k
			goto leave
		}
		continue

	test: // Ahead is another comparison with K, or an AND K with any in front of it.
		s = s.ahead(1)
		if s.op == opAndK {
			a &= s.k
			s = s.ahead(1)
		}
		taken := false
		switch s.op {
		case opJsetK:
			taken = a&s.k != 0
		case opJgtK:
			taken = a > s.k
		case opJgeK:
			taken = a >= s.k
		default:
			goto jeq
		}
		if skip := s.branch(taken); skip != 0 {
			s = s.ahead(skip)
			skipped += skip
		}
	}
input:
	why = atInput
pause:
	f.a, f.x = a, x
leave:
	return value, why, s, skipped
}
