package paths

import (
	"fmt"
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
)

// Expr is a value that a program computes: a constant, a word of the input, or
// an operation on such. Equal expressions of one space are one pointer.
type Expr struct {
	op   uint16 // an ALU code with X, such as bpf.AddX; bpf.Neg; opConst; opWord
	k    uint32 // the constant, or the offset of the word
	l, r *Expr
	id   int // 0 in keys; else by age
}

const (
	opConst uint16 = 0xfff0 + iota
	opWord
)

// Const returns the constant k.
func (s *Space) Const(k uint32) *Expr { return s.intern(Expr{op: opConst, k: k}) }

// Word returns the word at the offset.
func (s *Space) Word(off uint32) *Expr { return s.intern(Expr{op: opWord, k: off}) }

func (s *Space) intern(e Expr) *Expr {
	if p, ok := s.exprs[e]; ok {
		return p
	}
	if len(s.exprs) >= s.limit {
		panic(&LimitError{"expressions", s.limit})
	}
	p := &Expr{e.op, e.k, e.l, e.r, len(s.exprs) + 1}
	s.exprs[e] = p
	return p
}

// Const returns the value of an expression that is a constant.
func (e *Expr) Const() (k uint32, ok bool) { return e.k, e.op == opConst }

func (e *Expr) is(k uint32) bool { return e.op == opConst && e.k == k }

// alu names the operations, each the code of the instruction that takes X.
var alu = map[uint16]struct {
	symbol string
	fold   func(a, b uint32) uint32 // b is not 0 in a division
}{
	bpf.AddX: {"+", func(a, b uint32) uint32 { return a + b }},
	bpf.SubX: {"-", func(a, b uint32) uint32 { return a - b }},
	bpf.MulX: {"*", func(a, b uint32) uint32 { return a * b }},
	bpf.DivX: {"/", func(a, b uint32) uint32 { return a / b }},
	bpf.ModX: {"%", func(a, b uint32) uint32 { return a % b }},
	bpf.AndX: {"&", func(a, b uint32) uint32 { return a & b }},
	bpf.OrX:  {"|", func(a, b uint32) uint32 { return a | b }},
	bpf.XorX: {"^", func(a, b uint32) uint32 { return a ^ b }},
	bpf.LshX: {"<<", func(a, b uint32) uint32 { return a << (b & 31) }},
	bpf.RshX: {">>", func(a, b uint32) uint32 { return a >> (b & 31) }},
}

// Op returns l op r; op is the code of an ALU instruction, with K or X alike.
// Constants are folded and brought to the right where that is possible. A
// division by the constant 0 is the caller's to handle: it panics.
func (s *Space) Op(op uint16, l, r *Expr) *Expr {
	op |= 0x08
	a, lConst := l.Const()
	b, rConst := r.Const()
	if lConst && rConst {
		return s.Const(alu[op].fold(a, b))
	}
	if lConst {
		switch op {
		case bpf.AddX, bpf.MulX, bpf.AndX, bpf.OrX, bpf.XorX:
			return s.Op(op, r, l)
		case bpf.SubX: // a - r = -r + a
			return s.Op(bpf.AddX, s.Neg(r), l)
		}
	}
	if rConst {
		switch op {
		case bpf.SubX:
			return s.Op(bpf.AddX, l, s.Const(-b))
		case bpf.LshX, bpf.RshX:
			r, b = s.Const(b&31), b&31
		case bpf.DivX, bpf.MulX, bpf.ModX:
			if e := s.byPowerOf2(op, l, b); e != nil {
				return e
			}
		}
		switch {
		case b == 0 && op != bpf.AndX && op != bpf.MulX, b == 1<<32-1 && op == bpf.AndX:
			return l
		case b == 0, b == 1<<32-1 && op == bpf.OrX:
			return r
		case l.op == op && l.r.op == opConst:
			switch op {
			case bpf.AddX, bpf.MulX, bpf.AndX, bpf.OrX, bpf.XorX:
				return s.Op(op, l.l, s.Const(alu[op].fold(l.r.k, b)))
			}
		}
	}
	if l == r {
		switch op {
		case bpf.SubX, bpf.XorX:
			return s.Const(0)
		case bpf.AndX, bpf.OrX:
			return l
		}
	}
	return s.intern(Expr{op: op, l: l, r: r})
}

// byPowerOf2 turns products and quotients by powers of 2 into shifts and masks.
func (s *Space) byPowerOf2(op uint16, l *Expr, k uint32) *Expr {
	if bits.OnesCount32(k) != 1 {
		return nil
	}
	shift := s.Const(uint32(bits.TrailingZeros32(k)))
	switch op {
	case bpf.MulX:
		return s.Op(bpf.LshX, l, shift)
	case bpf.DivX:
		return s.Op(bpf.RshX, l, shift)
	}
	return s.Op(bpf.AndX, l, s.Const(k-1))
}

// Neg returns -e.
func (s *Space) Neg(e *Expr) *Expr {
	switch {
	case e.op == opConst:
		return s.Const(-e.k)
	case e.op == bpf.Neg:
		return e.l
	}
	return s.intern(Expr{op: bpf.Neg, l: e})
}

// Eval returns the value for an input. A division by 0 gives 0.
func (e *Expr) Eval(in Words) uint32 {
	// Squaring a value a thousand times makes an expression whose parts occur
	// twice each: without a memory this would not end.
	done := map[*Expr]uint32{}
	var eval func(*Expr) uint32
	eval = func(e *Expr) uint32 {
		switch e.op {
		case opConst:
			return e.k
		case opWord:
			return in[e.k]
		}
		if v, ok := done[e]; ok {
			return v
		}
		var v uint32
		if a := eval(e.l); e.op == bpf.Neg {
			v = -a
		} else if b := eval(e.r); b != 0 || e.op != bpf.DivX && e.op != bpf.ModX {
			v = alu[e.op].fold(a, b)
		}
		done[e] = v
		return v
	}
	return eval(e)
}

// Words returns the offsets of the words that e depends on, each once.
func (e *Expr) Words() []uint32 {
	var out []uint32
	have, seen := map[uint32]bool{}, map[*Expr]bool{}
	for todo := []*Expr{e}; len(todo) > 0; {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if e == nil || seen[e] {
			continue
		}
		seen[e] = true
		if e.op == opWord && !have[e.k] {
			have[e.k] = true
			out = append(out, e.k)
		}
		todo = append(todo, e.r, e.l)
	}
	return out
}

// substitute returns e with the word at off replaced by a constant.
func (s *Space) substitute(e *Expr, off, value uint32) *Expr {
	done := map[*Expr]*Expr{}
	var walk func(*Expr) *Expr
	walk = func(e *Expr) *Expr {
		if d, ok := done[e]; ok {
			return d
		}
		out := e
		switch {
		case e.op == opConst || e.op == opWord && e.k != off:
		case e.op == opWord:
			out = s.Const(value)
		case e.op == bpf.Neg:
			out = s.Neg(walk(e.l))
		default:
			l, r := walk(e.l), walk(e.r)
			if r.is(0) && (e.op == bpf.DivX || e.op == bpf.ModX) {
				out = s.Const(0) // no path divides by it: as Eval has it
			} else {
				out = s.Op(e.op, l, r)
			}
		}
		done[e] = out
		return out
	}
	return walk(e)
}

func (e *Expr) String() string {
	text, _ := e.text(200)
	return text
}

// text writes at most about room characters.
func (e *Expr) text(room int) (string, int) {
	switch {
	case room <= 0:
		return "...", 0
	case e.op == opConst:
		return fmt.Sprintf("%#x", e.k), room - 5
	case e.op == opWord:
		return fmt.Sprintf("[%d]", e.k), room - 4
	case e.op == bpf.Neg:
		l, room := e.l.text(room - 1)
		return "-" + l, room
	}
	l, room := e.l.text(room - 5)
	r, room := e.r.text(room)
	return fmt.Sprintf("(%s %s %s)", l, alu[e.op].symbol, r), room
}
