package generate

import (
	"math"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// Mutate returns a case made from prog: changed in a few places, or spliced
// with other. Both must be programs of the kind that bpf.Check accepts by some
// rules; other may be nil. The program that comes out is accepted by all rules of the
// generator's Config. Case i of a pair is always the same.
func (g *Generator) Mutate(prog, other bpf.Program, kind bpf.Kind, i uint64) *Case {
	g.rng = newRng(g.seed^0x6d7574617465, i)
	g.out.Index, g.out.Kind, g.out.Shape = i, kind, Mutated
	g.kind = kind
	g.choose()
	g.mutate(prog, other)
	g.out.Program = g.prog
	return &g.out
}

// mutateSource mutates a program of the corpus, seldom a long one.
func (m *maker) mutateSource() {
	draw := func() bpf.Program {
		sources := m.sources[m.kind]
		for range 8 {
			if p := sources[m.rng.n(len(sources))]; len(p) <= 100 || m.rng.in(64) {
				return p
			}
		}
		return nil
	}
	prog := draw()
	if prog == nil {
		m.soup(m.length())
		return
	}
	var other bpf.Program
	if m.rng.in(3) {
		other = draw()
	}
	m.mutate(prog, other)
}

func (m *maker) mutate(prog, other bpf.Program) {
	m.start(bpf.MaxInsns)
	m.edit = append(m.edit[:0], prog...)
	if len(other) > 0 {
		m.splice(other)
	}
	for range m.rng.between(1, 4) {
		m.change()
	}
	m.repair()
}

// splice puts the end of another program behind the beginning of this one.
// Jumps out of the beginning go into the end.
func (m *maker) splice(other bpf.Program) {
	keep := m.rng.n(len(m.edit) + 1)
	from := m.rng.n(len(other))
	if keep+len(other)-from > bpf.MaxInsns {
		return
	}
	m.edit = append(m.edit[:keep], other[from:]...)
}

// change makes one change of any kind to m.edit.
func (m *maker) change() {
	if len(m.edit) == 0 {
		return
	}
	pc := m.rng.n(len(m.edit))
	ins := &m.edit[pc]
	switch m.rng.n(10) {
	case 0, 1, 2: // a constant
		switch m.rng.n(4) {
		case 0:
			ins.K++
		case 1:
			ins.K--
		case 2:
			ins.K ^= 1 << m.rng.n(32)
		default:
			ins.K = m.rng.constant()
		}
	case 3: // another code of the same class
		for range 8 {
			code := m.pick(m.starts)
			if other := (bpf.Instruction{Code: code}); other.Class() == ins.Class() {
				ins.Code = code
				break
			}
		}
	case 4: // targets
		switch m.rng.n(3) {
		case 0:
			ins.JT, ins.JF = ins.JF, ins.JT
		case 1:
			ins.JT = uint8(m.rng.n(8))
		default:
			ins.JF = uint8(m.rng.n(8))
		}
	case 5: // out with it
		if len(m.edit) > 1 {
			m.edit = slices.Delete(m.edit, pc, pc+1)
			m.mend(pc, -1)
		}
	case 6: // twice
		m.insert(pc, *ins)
	case 7: // two change places
		if to := m.rng.n(len(m.edit)); to != pc {
			m.edit[pc], m.edit[to] = m.edit[to], m.edit[pc]
		}
	default: // something new
		m.insert(pc, m.fresh())
	}
}

// fresh is some instruction that is no return; repair gives it what it lacks.
func (m *maker) fresh() bpf.Instruction {
	code := m.pick(m.starts)
	ins := bpf.Instruction{Code: code, K: m.rng.constant()}
	switch ins.Class() {
	case bpf.ClassLd, bpf.ClassLdx:
		if code != bpf.LdImm && code != bpf.LdxImm {
			ins.K = m.offset()
		}
		if n := len(m.exts); n > 0 && code == bpf.LdWAbs && m.rng.in(2) {
			ins.K = m.exts[m.rng.n(n)].K()
		}
	case bpf.ClassJmp:
		ins.JT, ins.JF = uint8(m.rng.n(6)), uint8(m.rng.n(6))
	}
	return ins
}

func (m *maker) insert(pc int, ins bpf.Instruction) {
	if len(m.edit) < bpf.MaxInsns {
		m.edit = slices.Insert(m.edit, pc, ins)
		m.mend(pc, 1)
	}
}

// mend makes jumps over pc longer or shorter, where instructions were inserted
// or taken out.
func (m *maker) mend(pc, by int) {
	for from := range min(pc, len(m.edit)) {
		ins := &m.edit[from]
		left := pc - from - 1
		switch {
		case ins.Code == bpf.Ja && int64(ins.K) > int64(left):
			ins.K += uint32(by)
		case bpf.IsCondJump(ins.Code):
			if int(ins.JT) > left {
				ins.JT = uint8(min(int(ins.JT)+by, math.MaxUint8))
			}
			if int(ins.JF) > left {
				ins.JF = uint8(min(int(ins.JF)+by, math.MaxUint8))
			}
		}
	}
}

// repair makes a program of m.edit that every checker accepts: instructions
// that one refuses give way to others, jumps end at the end, and cells are
// stored to before they are loaded.
func (m *maker) repair() {
	m.prog = m.prog[:0]
	n := len(m.edit)
	if n == 0 || !bpf.IsRet(m.edit[n-1].Code) || !m.codes[m.edit[n-1].Code] {
		if n == bpf.MaxInsns {
			n--
		}
		m.edit = append(m.edit[:n], bpf.Instruction{Code: bpf.RetA})
		n++
	}
	m.end, m.room = n, n
	for pc, ins := range m.edit {
		if !m.codes[ins.Code&0xff] {
			ins = bpf.Instruction{Code: bpf.AddK, K: ins.K}
		}
		most := n - 2 - pc // a jump's distance to the last instruction
		switch ins.Code {
		case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs:
			ins.K = m.allowedOffset(ins)
		case bpf.LdxMsh:
			if int32(ins.K) < 0 && !m.negativeMsh {
				ins.K = 14
			}
		case bpf.LdMem, bpf.LdxMem:
			if ins.K %= bpf.MemWords; m.missing>>ins.K&1 != 0 {
				ins.Code = bpf.St
			}
		case bpf.St, bpf.Stx:
			ins.K %= bpf.MemWords
		case bpf.DivK, bpf.ModK:
			ins.K = max(ins.K, 1)
		case bpf.LshK, bpf.RshK:
			if ins.K > 31 && !m.wideShift {
				ins.K %= 32
			}
		case bpf.Ja:
			k := int(min(ins.K, bpf.MaxInsns))
			ins.K = uint32(min(k, most))
			m.prog = append(m.prog, ins)
			m.lead(pc + 1 + int(ins.K))
			m.missing = 0
			m.leave()
			m.arrive()
			continue
		}
		if bpf.IsCondJump(ins.Code) {
			m.branch(ins.Code, min(int(ins.JT), most), min(int(ins.JF), most), ins.K)
			continue
		}
		m.put(ins.Code, ins.K)
	}
}

// allowedOffset is the K of an absolute load, or one that is allowed.
func (m *maker) allowedOffset(ins bpf.Instruction) uint32 {
	if m.kind == bpf.Seccomp {
		return ins.K & 0x3c
	}
	ext, ok := ins.Extension()
	switch {
	case ok && slices.Contains(m.exts, ext):
	case ok && len(m.exts) > 0:
		return m.exts[m.rng.n(len(m.exts))].K()
	case ok, ins.K >= bpf.ADOff && !m.beyond, int32(ins.K) < 0 && ins.K < bpf.ADOff && !m.negativeAbs:
		return ins.K & 0x3f
	}
	return ins.K
}
