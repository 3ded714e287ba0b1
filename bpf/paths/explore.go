package paths

import "github.com/kjit-project/kjit/bpf"

// Map is a program executed for all inputs at once. The Conds of its Ends have
// no input in common and together are those it was explored within.
type Map struct {
	Program bpf.Program
	Ends    []End  // by PC
	Tests   []Test // by PC
	Reach   []Cond // by PC, the inputs whose run comes there
}

// End is a way the program ends: at an instruction, with a value.
type End struct {
	PC      int
	Value   *Expr
	Cond    Cond
	DivZero bool // by a division by X = 0, with the value 0
}

// Test is a comparison of a program, in one of the states it is reached in.
type Test struct {
	PC    int
	Code  uint16 // of the jump, with X
	L, R  *Expr  // A, and X or the constant
	Reach Cond   // the inputs for which it is executed so
	Taken Cond   // the inputs for which it would be taken
}

// Options say what to explore.
type Options struct {
	// Within restricts the inputs. The zero value is Never: Always is all.
	Within Cond
	// Fixed are words that have the given value. They become constants, which
	// is faster than a Cond that fixes them.
	Fixed Words
	// Limit is how many instructions are executed before it gives up with a
	// *LimitError, 0 for 1<<20. An instruction that is reached in several
	// states is executed for each.
	Limit int
}

// state is what the rest of a run depends on. What it does not is nil.
type state struct {
	a, x *Expr
	m    [bpf.MemWords]*Expr
}

type arrival struct {
	state
	cond Cond
}

// Explore executes the program for all inputs. Its errors are *bpf.CheckError
// for programs that Linux takes for no seccomp filter, and *LimitError.
func (s *Space) Explore(prog bpf.Program, opt Options) (m *Map, err error) {
	defer Catch(&err)
	e, err := s.explorer(prog, opt)
	if err != nil {
		return nil, err
	}
	m = &Map{Program: prog, Reach: make([]Cond, len(prog))}
	// Jumps only go forward: when it is an instruction's turn, all that leads
	// to it has been executed.
	waiting := make([][]arrival, len(prog))
	index := make([]map[state]int, len(prog))
	arrive := func(pc int, st state, c Cond) {
		if c == Never {
			return
		}
		e.live[pc].clear(&st)
		if index[pc] == nil {
			index[pc] = map[state]int{}
		}
		i, ok := index[pc][st]
		if !ok {
			index[pc][st] = len(waiting[pc])
			waiting[pc] = append(waiting[pc], arrival{st, c})
			return
		}
		waiting[pc][i].cond = s.Or(waiting[pc][i].cond, c)
	}
	arrive(0, e.start, opt.Within)
	for pc := range prog {
		for _, at := range waiting[pc] {
			m.Reach[pc] = s.Or(m.Reach[pc], at.cond)
			e.step(pc, at, step{
				next: arrive,
				end:  func(end End) { m.Ends = append(m.Ends, end) },
				test: func(t Test) { m.Tests = append(m.Tests, t) },
			})
		}
		waiting[pc], index[pc] = nil, nil
	}
	return m, nil
}

// step receives what an instruction does. Nothing is called with Never.
type step struct {
	next func(pc int, st state, c Cond)
	end  func(End)
	test func(Test)
}

// explorer executes single instructions.
type explorer struct {
	s     *Space
	prog  bpf.Program
	live  []live
	fixed Words
	start state
	left  int
	limit int
}

const defaultLimit = 1 << 20

func (s *Space) explorer(prog bpf.Program, opt Options) (*explorer, error) {
	if err := bpf.Check(prog, bpf.Seccomp, bpf.RulesCurrent); err != nil {
		return nil, err
	}
	e := &explorer{s: s, prog: prog, live: liveness(prog), fixed: opt.Fixed, limit: opt.Limit}
	if e.limit == 0 {
		e.limit = defaultLimit
	}
	e.left = e.limit
	zero := s.Const(0)
	e.start.a, e.start.x = zero, zero
	for i := range e.start.m {
		e.start.m[i] = zero
	}
	return e, nil
}

// step executes the instruction at pc.
func (e *explorer) step(pc int, at arrival, do step) {
	if e.left--; e.left < 0 {
		panic(&LimitError{"symbolic instructions", e.limit})
	}
	s, ins, st := e.s, e.prog[pc], at.state
	src := func() *Expr {
		if ins.Code&0x08 != 0 {
			return st.x
		}
		return s.Const(ins.K)
	}
	switch ins.Code {
	case bpf.LdImm:
		st.a = s.Const(ins.K)
	case bpf.LdWAbs:
		if v, ok := e.fixed[ins.K]; ok {
			st.a = s.Const(v)
		} else {
			st.a = s.Word(ins.K)
		}
	case bpf.LdMem:
		st.a = st.m[ins.K]
	case bpf.LdLen:
		st.a = s.Const(dataSize)
	case bpf.LdxImm:
		st.x = s.Const(ins.K)
	case bpf.LdxMem:
		st.x = st.m[ins.K]
	case bpf.LdxLen:
		st.x = s.Const(dataSize)
	case bpf.St:
		st.m[ins.K] = st.a
	case bpf.Stx:
		st.m[ins.K] = st.x
	case bpf.Tax:
		st.x = st.a
	case bpf.Txa:
		st.a = st.x
	case bpf.Neg:
		st.a = s.Neg(st.a)
	case bpf.Ja:
		do.next(pc+1+int(ins.K), st, at.cond)
		return
	case bpf.RetK:
		do.end(End{PC: pc, Value: s.Const(ins.K), Cond: at.cond})
		return
	case bpf.RetA:
		do.end(End{PC: pc, Value: st.a, Cond: at.cond})
		return
	default:
		if bpf.IsCondJump(ins.Code) {
			if ins.JT == ins.JF { // what it compares may be dead
				do.next(pc+1+int(ins.JT), st, at.cond)
				return
			}
			t := Test{PC: pc, Code: ins.Code | 0x08, L: st.a, R: src(), Reach: at.cond}
			t.Taken = s.Compare(t.Code, t.L, t.R)
			do.test(t)
			e.branch(pc, st, s.And(at.cond, t.Taken), s.AndNot(at.cond, t.Taken), do)
			return
		}
		r := src()
		if ins.Code == bpf.DivX {
			zero := s.Compare(bpf.JeqX, r, s.Const(0))
			if failed := s.And(at.cond, zero); failed != Never {
				do.end(End{PC: pc, Value: s.Const(0), Cond: failed, DivZero: true})
			}
			if at.cond = s.AndNot(at.cond, zero); at.cond == Never {
				return
			}
		}
		st.a = s.Op(ins.Code, st.a, r) // all other codes are arithmetic
	}
	do.next(pc+1, st, at.cond)
}

// branch goes on to both targets of a jump, those that are possible.
func (e *explorer) branch(pc int, st state, taken, not Cond, do step) {
	ins := e.prog[pc]
	if taken != Never {
		do.next(pc+1+int(ins.JT), st, taken)
	}
	if not != Never {
		do.next(pc+1+int(ins.JF), st, not)
	}
}

// live is what the rest of a run may read.
type live struct {
	regs  bpf.Registers
	cells uint16
}

func (l live) clear(st *state) {
	if l.regs&bpf.RegA == 0 {
		st.a = nil
	}
	if l.regs&bpf.RegX == 0 {
		st.x = nil
	}
	for i := range st.m {
		if l.cells>>i&1 == 0 {
			st.m[i] = nil
		}
	}
}

// liveness returns what is live before each instruction of a program that has
// passed the checker.
func liveness(prog bpf.Program) []live {
	out := make([]live, len(prog))
	for pc := len(prog) - 1; pc >= 0; pc-- {
		ins := prog[pc]
		var l live
		targets, _ := prog.Targets(pc)
		for _, target := range targets {
			l.regs |= out[target].regs
			l.cells |= out[target].cells
		}
		l.regs = l.regs&^ins.Writes() | ins.Reads()
		switch ins.Code {
		case bpf.St, bpf.Stx:
			l.cells &^= 1 << ins.K
		case bpf.LdMem, bpf.LdxMem:
			l.cells |= 1 << ins.K
		}
		out[pc] = l
	}
	return out
}
