package bpf

import "slices"

// Machine is a compiled program: the reference interpreter. It does not change
// unless Recompile is called, so any number of goroutines may run it at once.
type Machine struct {
	prog Program
	kind Kind

	steps []step // one for each instruction
	fused []step // the same with fused ops; Run executes these

	unstored []uint16 // for the checker
}

// Result is how a run ended.
//
// It is laid out so that the compiler keeps it in registers: at most four
// fields on each level, and 32 bytes. Otherwise every caller would copy it
// through memory, for which a short program takes less time than that.
type Result struct {
	Ending
	Executed int // instructions executed, the deciding one among them
	PC       int // the deciding instruction: a return, or the one that failed

	// ShiftPC is the first instruction that shifted by more than 31, or -1.
	// Kernels and JITs differ there: the reference takes the count mod 32.
	ShiftPC int
}

// Ending is what a program returned, and why if not by a return.
type Ending struct {
	Value      uint32
	DivZero    bool // it divided by X = 0, so Value is 0
	LoadFailed bool // it loaded what is not there; Value is 0 unless Input said otherwise
}

// State is the state of a run before the instruction at PC is executed.
type State struct {
	PC   int
	A, X uint32
	M    [MemWords]uint32
}

// Compile checks the program and decodes it. Its only error is *CheckError.
func Compile(prog Program, kind Kind, rules Rules) (*Machine, error) {
	m := new(Machine)
	if err := m.Recompile(prog, kind, rules); err != nil {
		return nil, err
	}
	return m, nil
}

// Recompile makes m, which may be new and which nobody runs, the machine of
// another program. It reuses m's memory, so that no allocation is made once
// that has grown. After an error, which is as that of Compile, m must not run.
func (m *Machine) Recompile(prog Program, kind Kind, rules Rules) error {
	m.unstored = slices.Grow(m.unstored[:0], min(len(prog), MaxInsns))
	if err := check(prog, kind, rules, m.unstored); err != nil {
		return err
	}
	m.prog, m.kind = append(m.prog[:0], prog...), kind
	m.steps = m.steps[:0]
	for _, ins := range prog {
		m.steps = append(m.steps, decode(ins, kind, rules))
	}
	m.fused = fuse(append(m.fused[:0], m.steps...))
	return nil
}

// Program returns the program that the machine was made of.
func (m *Machine) Program() Program { return slices.Clone(m.prog) }

// Kind returns the kind that the machine was made for.
func (m *Machine) Kind() Kind { return m.kind }

// Run executes the program on the input. It always ends, and allocates
// nothing.
func (m *Machine) Run(in Input) Result {
	var f frame
	packet, first := in.Linear(), &m.fused[0]
	value, why, s, skipped := f.exec(first, packet, 0)
	pc := s.behind(first)
	for why == atInput {
		if value, why = f.ask(in, m.steps[pc]); why == atInput {
			value, why, s, skipped = f.exec(s.ahead(1), packet, skipped)
			pc = s.behind(first)
		}
	}
	return f.result(first, pc, value, why, skipped)
}

// Trace executes the program like Run, and calls before with the state before
// each instruction.
func (m *Machine) Trace(in Input, before func(State)) Result {
	var f frame
	packet := in.Linear()
	steps := slices.Repeat([]step{{op: opTrace}}, len(m.steps))
	first, skipped := &steps[0], 0
	for s := first; ; {
		var value uint32
		var why stop
		value, why, s, skipped = f.exec(s, packet, skipped)
		pc := s.behind(first)
		if why == atTrace {
			before(State{pc, f.a, f.x, f.mem})
			*s = m.steps[pc] // for good: no jump leads back to it
			continue
		}
		if why == atInput {
			if value, why = f.ask(in, m.steps[pc]); why == atInput {
				s = s.ahead(1)
				continue
			}
		}
		return f.result(first, pc, value, why, skipped)
	}
}

// Equal reports whether two machines do the same on every input because their
// programs mean the same, instruction by instruction, under the rules that they
// were compiled with.
func (m *Machine) Equal(o *Machine) bool { return m.kind == o.kind && slices.Equal(m.steps, o.steps) }
