package generate

import (
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// span is a set of values: lo to hi, those of them whose bits are all in may.
type span struct{ lo, hi, may uint32 }

var any32 = span{0, ^uint32(0), ^uint32(0)}

func exactly(v uint32) span { return span{v, v, v} }

// upTo is the set of the numbers of at most n bits.
func upTo(n uint) span { return span{0, 1<<n - 1, 1<<n - 1} }

func (s span) constant() bool { return s.lo == s.hi }
func (s span) empty() bool    { return s.lo > s.hi }

// tidy makes the bounds and the bits agree.
func (s span) tidy() span {
	s.hi = min(s.hi, s.may)
	if n := bits.Len32(s.hi); n < 32 {
		s.may &= 1<<n - 1
	}
	return s
}

func (s span) join(t span) span {
	return span{min(s.lo, t.lo), max(s.hi, t.hi), s.may | t.may}
}

// facts are what is known of a run when it comes to an instruction.
type facts struct {
	reachable bool
	a, x      span
	m         [bpf.MemWords]span
}

func (f *facts) merge(g *facts) {
	if !f.reachable {
		*f = *g
		return
	}
	f.a, f.x = f.a.join(g.a), f.x.join(g.x)
	for i := range f.m {
		f.m[i] = f.m[i].join(g.m[i])
	}
}

// unreachable returns, for every conditional jump, 1 if its condition holds
// whenever a run comes there, 2 if it never does, 3 if no run comes there. It
// is a proof; a side that is not in it may be out of reach all the same.
func unreachable(prog bpf.Program, kind bpf.Kind) []uint8 {
	at := make([]facts, len(prog)+1)
	out := make([]uint8, len(prog))
	at[0].reachable = true
	for pc, ins := range prog {
		f := at[pc]
		if !f.reachable {
			out[pc] = 3
			continue
		}
		switch {
		case bpf.IsRet(ins.Code):
		case ins.Code == bpf.Ja:
			at[pc+1+int(ins.K)].merge(&f)
		case bpf.IsCondJump(ins.Code):
			for side, target := range [2]uint8{ins.JF, ins.JT} {
				g := f
				if !g.assume(ins, side == 1) {
					out[pc] |= 1 << side
					continue
				}
				at[pc+1+int(target)].merge(&g)
			}
		default:
			if f.step(ins, kind) {
				at[pc+1].merge(&f)
			}
		}
	}
	return out
}

// assume narrows down A and X to what lets the condition of a jump hold, or
// not; false if nothing does.
func (f *facts) assume(ins bpf.Instruction, holds bool) bool {
	byX := ins.Code&0x08 != 0
	x := exactly(ins.K)
	if byX {
		x = f.x
	}
	a := f.a
	switch ins.Code {
	case bpf.JeqK, bpf.JeqX:
		switch {
		case holds:
			both := span{max(a.lo, x.lo), min(a.hi, x.hi), a.may & x.may}
			if a.constant() && a.lo&^x.may != 0 || x.constant() && x.lo&^a.may != 0 {
				return false
			}
			if x.constant() {
				both.may = x.may
			}
			a, x = both, both
		case a.constant() && x.constant() && a.lo == x.lo:
			return false
		case x.constant() && a.lo == x.lo:
			a.lo++
		case x.constant() && a.hi == x.lo:
			a.hi--
		}
	case bpf.JgtK, bpf.JgtX:
		if holds {
			if x.lo == ^uint32(0) || a.hi == 0 {
				return false
			}
			a.lo, x.hi = max(a.lo, x.lo+1), min(x.hi, a.hi-1)
		} else {
			a.hi, x.lo = min(a.hi, x.hi), max(x.lo, a.lo)
		}
	case bpf.JgeK, bpf.JgeX:
		if holds {
			a.lo, x.hi = max(a.lo, x.lo), min(x.hi, a.hi)
		} else {
			if x.hi == 0 || a.lo == ^uint32(0) {
				return false
			}
			a.hi, x.lo = min(a.hi, x.hi-1), max(x.lo, a.lo+1)
		}
	default:
		switch common := a.may & x.may; {
		case holds && common == 0:
			return false
		case !holds && a.constant() && x.constant() && a.lo&x.lo != 0:
			return false
		case !holds && x.constant():
			a.may &^= x.lo
		}
	}
	a, x = a.tidy(), x.tidy()
	f.a = a
	if byX {
		f.x = x
	}
	return !a.empty() && !x.empty()
}

// step is what an instruction that is no jump makes of the facts; false if no
// run gets past it.
func (f *facts) step(ins bpf.Instruction, kind bpf.Kind) bool {
	k := exactly(ins.K)
	switch ins.Code {
	case bpf.LdImm:
		f.a = k
	case bpf.LdxImm:
		f.x = k
	case bpf.LdMem:
		f.a = f.m[ins.K]
	case bpf.LdxMem:
		f.x = f.m[ins.K]
	case bpf.St:
		f.m[ins.K] = f.a
	case bpf.Stx:
		f.m[ins.K] = f.x
	case bpf.Tax:
		f.x = f.a
	case bpf.Txa:
		f.a = f.x
	case bpf.LdLen:
		f.a = length(kind)
	case bpf.LdxLen:
		f.x = length(kind)
	case bpf.LdxMsh:
		f.x = span{0, 60, 60}
	case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs:
		return f.load(ins, kind)
	case bpf.LdWInd:
		f.a = any32
	case bpf.LdHInd:
		f.a = upTo(16)
	case bpf.LdBInd:
		f.a = upTo(8)
	case bpf.Neg:
		f.a = combine(bpf.SubK, exactly(0), f.a)
	case bpf.DivX, bpf.ModX:
		if f.x.hi == 0 {
			return false
		}
		f.a = combine(ins.Code&^0x08, f.a, f.x)
	default:
		if ins.Code&0x08 != 0 {
			k = f.x
		}
		f.a = combine(ins.Code&^0x08, f.a, k)
	}
	return true
}

func length(kind bpf.Kind) span {
	if kind == bpf.Seccomp {
		return exactly(seccompdata.Size)
	}
	return upTo(18)
}

func (f *facts) load(ins bpf.Instruction, kind bpf.Kind) bool {
	ext, isExt := ins.Extension()
	switch {
	case isExt && kind == bpf.Socket:
		switch ext {
		case bpf.ExtXorX:
			f.a = combine(bpf.XorK, f.a, f.x)
		case bpf.ExtPktType:
			f.a = upTo(3)
		case bpf.ExtVlanPr:
			f.a = upTo(1)
		case bpf.ExtProtocol, bpf.ExtQueue, bpf.ExtHatype, bpf.ExtVlanTCI, bpf.ExtVlanTPID:
			f.a = upTo(16)
		default:
			f.a = any32
		}
	case ins.Code == bpf.LdHAbs:
		f.a = upTo(16)
	case ins.Code == bpf.LdBAbs:
		f.a = upTo(8)
	default:
		f.a = any32
	}
	return isExt || ins.K < 1<<31 || ins.K >= bpf.LLOff
}

// combine is the set that an operation with K makes of two sets.
func combine(code uint16, a, b span) span {
	if a.constant() && b.constant() {
		if v, ok := compute(code, a.lo, b.lo); ok {
			return exactly(v)
		}
	}
	s := any32
	switch code {
	case bpf.AddK:
		if hi, over := bits.Add32(a.hi, b.hi, 0); over == 0 {
			s = span{a.lo + b.lo, hi, ^uint32(0)}
		}
	case bpf.SubK:
		if a.lo >= b.hi {
			s = span{a.lo - b.hi, a.hi - b.lo, ^uint32(0)}
		}
	case bpf.MulK:
		if over, hi := bits.Mul32(a.hi, b.hi); over == 0 {
			s = span{a.lo * b.lo, hi, ^uint32(0)}
		} else if b.constant() && b.lo != 0 {
			s.may = ^uint32(0) << bits.TrailingZeros32(b.lo)
		}
	case bpf.AndK:
		s = span{0, min(a.hi, b.hi), a.may & b.may}
	case bpf.OrK:
		s = span{max(a.lo, b.lo), ^uint32(0), a.may | b.may}
	case bpf.XorK:
		s.may = a.may | b.may
	case bpf.LshK:
		if b.constant() {
			s.may = a.may << (b.lo & 31)
		}
	case bpf.RshK:
		if b.constant() {
			s = span{a.lo >> (b.lo & 31), a.hi >> (b.lo & 31), a.may >> (b.lo & 31)}
		} else {
			s.hi = a.hi
		}
	case bpf.DivK:
		s = span{0, a.hi / max(b.lo, 1), ^uint32(0)}
		if b.lo > 0 {
			s.lo = a.lo / b.hi
		}
	case bpf.ModK:
		s.hi = min(a.hi, b.hi-1)
	}
	return s.tidy()
}

func compute(code uint16, a, b uint32) (uint32, bool) {
	switch code {
	case bpf.AddK:
		return a + b, true
	case bpf.SubK:
		return a - b, true
	case bpf.MulK:
		return a * b, true
	case bpf.AndK:
		return a & b, true
	case bpf.OrK:
		return a | b, true
	case bpf.XorK:
		return a ^ b, true
	case bpf.LshK:
		return a << (b & 31), true
	case bpf.RshK:
		return a >> (b & 31), true
	case bpf.DivK:
		if b != 0 {
			return a / b, true
		}
	case bpf.ModK:
		if b != 0 {
			return a % b, true
		}
	}
	return 0, false
}
