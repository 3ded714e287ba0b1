package generate

import (
	"math"

	"github.com/kjit-project/kjit/bpf"
)

// maker makes one program after another in the same buffer. While it appends
// instructions it knows what Linux's checker knows, and so never loads from a
// cell that may be unstored, and how large A and X can be, so that most loads
// and shifts by X are good ones.
type maker struct {
	cfg     *Config
	rng     *rng
	choices [2][]choice // by kind; the first has what all JITs take, each other one thing more
	odds    [2][2]int   // choices with a Seldom and with a Rare thing more
	sources [2][]bpf.Program

	prog bpf.Program
	kind bpf.Kind
	*choice

	end   int                      // instructions of the program, its last return included
	room  int                      // put appends no more than this
	joins [bpf.MaxInsns + 256]join // what jumps bring along, by target

	missing uint16        // cells that the checker takes for unstored
	a, x    uint32        // the most that A and X can be
	stale   bool          // A is stored or copied, or nothing worth it
	owed    bool          // X holds what is not yet in A
	dull    uint16        // cells that hold what no input changes
	fixed   bpf.Registers // those of A and X that no input changes

	weights [numGroups]int // of the program
	total   int
	extent  int       // the bytes of the packet that most loads stay in
	hot     [4]uint32 // offsets that the program loads from again and again
	wide    bool      // loads from far offsets, too

	edit bpf.Program // for mutation
}

// join is what is known where jumps lead to.
type join struct {
	targeted bool
	fixed    bpf.Registers
	unstored uint16
	a, x     uint32
}

// group is a kind of instruction, or of a few in a row.
type group uint8

const (
	gLoad group = iota
	gInd
	gMsh
	gExt
	gLen
	gImm
	gMem
	gAluK
	gAluX
	gJumpK
	gJumpX
	gMove
	gNeg
	gEmpty // nothing: what x86 emits no code for
	gJa
	gRet
	numGroups
)

// usual is how often a program has the groups, before some are left out and
// others are favoured.
var usual = [2][numGroups]int{
	bpf.Socket: {
		gLoad: 13, gInd: 7, gMsh: 3, gExt: 6, gLen: 3, gImm: 4, gMem: 9, gAluK: 18, gAluX: 13,
		gJumpK: 13, gJumpX: 5, gMove: 5, gNeg: 2, gEmpty: 2, gJa: 1, gRet: 2,
	},
	bpf.Seccomp: {
		gLoad: 22, gLen: 2, gImm: 4, gMem: 9, gAluK: 18, gAluX: 13,
		gJumpK: 16, gJumpX: 5, gMove: 5, gNeg: 2, gEmpty: 1, gJa: 1, gRet: 3,
	},
}

// start begins a program of n instructions. Every program lacks some groups and
// has much of others: faults show in the company of few things that all
// programs together would never leave alone.
func (m *maker) start(n int) {
	m.prog = m.prog[:0]
	m.end, m.room = n, n-1
	m.missing, m.a, m.x, m.stale = ^uint16(0), 0, 0, true
	m.fixed, m.owed, m.dull = bpf.RegA|bpf.RegX, false, 0
	m.total = 0
	luck := m.rng.next()
	for g, w := range &usual[m.kind] {
		switch luck >> (4 * g) & 15 {
		case 0:
			w = 0
		case 1, 2:
			w *= 3
		}
		m.weights[g] = w
		m.total += w
	}
	m.extent = m.rng.between(32, 96)
	m.wide = m.rng.in(12)
	for i := range m.hot {
		m.hot[i] = uint32(m.rng.n(m.extent - 4))
	}
}

func (m *maker) group() group {
	at := m.rng.n(m.total)
	for g, w := range &m.weights {
		if at -= w; at < 0 {
			return group(g)
		}
	}
	return gLoad
}

// soup makes a program of n instructions drawn at random.
func (m *maker) soup(n int) {
	m.start(n)
	rets := min(1+m.rng.n(3), n) // at the end
	m.room = n - rets
	if m.rng.in(2) && m.room > 0 {
		m.first()
	}
	mix := min(m.rng.n(6), m.room/3) // instructions that bring together what is left
	m.room -= mix
	for len(m.prog) < m.room {
		m.more()
	}
	m.room += mix
	for len(m.prog) < m.room {
		m.gather()
	}
	m.room = n
	m.finish() // what falls through; the others are for jumps
	for len(m.prog) < n {
		m.ret()
	}
}

// single makes a program of one instruction that reads what nothing has
// written, or of a few, and shows the result.
func (m *maker) single(n int) {
	m.start(n)
	m.first()
	for len(m.prog) < m.room {
		if m.rng.in(3) {
			m.gather()
		} else {
			m.more()
		}
	}
	m.room = n
	m.finish()
}

// more appends something of a group that the program has.
func (m *maker) more() {
	if m.extra != noExtra && m.rng.in(6) {
		m.putExtra()
		return
	}
	before := len(m.prog)
	if m.some(m.group()); len(m.prog) == before {
		m.some(gAluK)
	}
}

// first appends an instruction with all that the language has as likely as
// each other.
func (m *maker) first() {
	if m.extra != noExtra && m.rng.in(3) {
		m.putExtra()
		return
	}
	if n := len(m.exts); n > 0 && m.rng.in(3) {
		m.putExt(m.exts[m.rng.n(n)])
		return
	}
	m.use(m.pick(m.starts))
}

// use appends an instruction with the given code and whatever else it needs.
func (m *maker) use(code uint16) {
	switch code {
	case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs:
		m.put(code, m.offset())
	case bpf.LdWInd, bpf.LdHInd, bpf.LdBInd:
		m.put(code, m.offsetFromX())
	case bpf.LdxMsh:
		m.put(code, m.mshOffset())
	case bpf.LdMem, bpf.LdxMem:
		m.put(code, m.stored())
	case bpf.St, bpf.Stx:
		m.put(code, m.cell())
	case bpf.Ja:
		m.ja()
	case bpf.RetK, bpf.RetA:
		m.finish()
	default:
		switch bpf.Instruction.Class(bpf.Instruction{Code: code}) {
		case bpf.ClassJmp:
			m.jump(code)
		case bpf.ClassAlu:
			if code != bpf.Neg && code&0x08 != 0 {
				m.byX(code)
			} else {
				m.put(code, m.operand(code))
			}
		default:
			m.put(code, m.rng.constant())
		}
	}
}

// some appends one instruction of a group, and others if it needs them.
func (m *maker) some(g group) {
	switch g {
	case gLoad:
		m.save()
		m.put(m.pick(m.loads), m.offset())
	case gInd:
		m.ind()
	case gMsh:
		if m.codes[bpf.LdxMsh] {
			m.put(bpf.LdxMsh, m.mshOffset())
		}
	case gExt:
		if n := len(m.exts); n > 0 {
			m.save()
			m.putExt(m.exts[m.rng.n(n)])
		}
	case gLen:
		if m.rng.in(2) {
			m.put(bpf.LdxLen, 0)
		} else {
			m.save()
			m.put(bpf.LdLen, 0)
		}
	case gImm:
		if m.rng.in(2) {
			m.put(bpf.LdxImm, m.rng.constant())
		} else {
			m.save()
			m.put(bpf.LdImm, m.rng.constant())
		}
	case gMem:
		m.mem()
	case gAluK:
		code := m.pick(m.aluK)
		m.put(code, m.operand(code))
	case gAluX:
		m.byX(m.pick(m.aluX))
	case gJumpK:
		m.jump(jumpsK[m.rng.n(len(jumpsK))])
	case gJumpX:
		m.jump(jumpsX[m.rng.n(len(jumpsX))])
	case gMove:
		if m.rng.in(2) {
			m.put(bpf.Tax, 0)
		} else {
			m.save()
			m.put(bpf.Txa, 0)
		}
	case gNeg:
		m.put(bpf.Neg, 0)
	case gEmpty:
		if code := empties[m.rng.n(len(empties))]; m.codes[code] {
			m.put(code, emptyK[code])
		}
	case gJa:
		if m.joins[min(len(m.prog)+1, m.end)].targeted || m.rng.in(4) {
			m.ja()
		}
	case gRet:
		if m.joins[len(m.prog)+1].targeted {
			m.ret()
		}
	}
}

var (
	jumpsK = []uint16{bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK}
	jumpsX = []uint16{bpf.JeqX, bpf.JgtX, bpf.JgeX, bpf.JsetX}

	// empties do nothing to A, and x86 emits nothing for them.
	empties = []uint16{bpf.AddK, bpf.SubK, bpf.DivK, bpf.LshK, bpf.RshK, bpf.XorK, bpf.Ja, bpf.OrK, bpf.MulK}
	emptyK  = [256]uint32{bpf.DivK: 1, bpf.MulK: 1}
)

func (m *maker) pick(codes []uint16) uint16 { return codes[m.rng.n(len(codes))] }

// put appends an instruction that is no jump, if there is room, and keeps track.
func (m *maker) put(code uint16, k uint32) {
	if len(m.prog) >= m.room {
		return
	}
	m.prog = append(m.prog, bpf.Instruction{Code: code, K: k})
	switch code {
	case bpf.LdxMsh, bpf.LdxLen, bpf.LdxMem, bpf.Tax:
		m.owed = true
	case bpf.AddX, bpf.SubX, bpf.XorX, bpf.MulX, bpf.Txa, bpf.LdxImm:
		m.owed = false
	}
	switch code {
	case bpf.LdImm:
		m.a, m.stale, m.fixed = k, false, m.fixed|bpf.RegA
	case bpf.LdHAbs, bpf.LdHInd:
		m.a, m.stale, m.fixed = math.MaxUint16, false, m.fixed&^bpf.RegA
	case bpf.LdBAbs, bpf.LdBInd:
		m.a, m.stale, m.fixed = math.MaxUint8, false, m.fixed&^bpf.RegA
	case bpf.LdLen:
		m.a, m.stale, m.fixed = 4096, false, m.fixed&^bpf.RegA
	case bpf.LdWAbs, bpf.LdWInd, bpf.LdMem:
		m.a, m.stale, m.fixed = math.MaxUint32, false, m.fixed&^bpf.RegA
	case bpf.LdxImm:
		m.x, m.fixed = k, m.fixed|bpf.RegX
	case bpf.LdxMsh:
		m.x, m.fixed = 60, m.fixed&^bpf.RegX
	case bpf.LdxLen:
		m.x, m.fixed = 4096, m.fixed&^bpf.RegX
	case bpf.LdxMem:
		m.x, m.fixed = math.MaxUint32, m.fixed&^bpf.RegX
		if m.dull>>k&1 != 0 {
			m.fixed |= bpf.RegX
		}
	case bpf.Tax:
		m.x, m.stale, m.fixed = m.a, true, m.fixed&bpf.RegA*(bpf.RegA|bpf.RegX)
	case bpf.Txa:
		m.a, m.stale, m.fixed = m.x, true, m.fixed&bpf.RegX/bpf.RegX*(bpf.RegA|bpf.RegX)
	case bpf.St:
		m.missing &^= 1 << k
		m.stale = true
		m.dull = m.dull&^(1<<k) | uint16(m.fixed&bpf.RegA)<<k
	case bpf.Stx:
		m.missing &^= 1 << k
		m.dull = m.dull&^(1<<k) | uint16(m.fixed&bpf.RegX)>>1<<k
	case bpf.AndK:
		m.a = min(m.a, k)
	case bpf.RshK:
		m.a >>= k & 31
	case bpf.DivK:
		m.a /= max(k, 1)
	case bpf.ModK:
		m.a = min(m.a, k-1)
	case bpf.RetK, bpf.RetA:
		m.leave()
	default:
		m.a, m.stale = math.MaxUint32, false
		if code&0x08 != 0 && m.fixed&bpf.RegX == 0 {
			m.fixed = 0
		}
	}
	m.arrive()
}

// arrive takes over what jumps bring to the next instruction. Behind a return or
// a jump that is all there is.
func (m *maker) arrive() {
	j := &m.joins[len(m.prog)]
	if !j.targeted {
		return
	}
	m.missing |= j.unstored
	m.a, m.x, m.fixed = max(m.a, j.a), max(m.x, j.x), m.fixed&j.fixed
	*j = join{}
}

// leave is what is known behind an instruction that does not go on to the next.
func (m *maker) leave() {
	m.a, m.x, m.stale, m.fixed = 0, 0, true, bpf.RegA|bpf.RegX
}

// lead notes a jump to a target behind the next instruction, or to it.
func (m *maker) lead(target int) {
	j := &m.joins[target]
	if !j.targeted {
		j.targeted, j.fixed = true, m.fixed
	}
	j.unstored |= m.missing
	j.a, j.x, j.fixed = max(j.a, m.a), max(j.x, m.x), j.fixed&m.fixed
}

// save keeps A from being lost, in M[] or X, before something overwrites it.
func (m *maker) save() {
	if m.stale || m.rng.in(4) {
		return
	}
	if m.weights[gMem] > 0 && m.rng.in(2) {
		m.put(bpf.St, m.cell())
	} else if m.weights[gMove] > 0 {
		if m.owed && m.weights[gAluX] > 0 && m.rng.n(3) > 0 { // or what is in X would be lost
			m.put(m.blend(), 0)
		}
		m.put(bpf.Tax, 0)
	}
}

// blend is an operation that loses nothing of A and X.
func (m *maker) blend() uint16 {
	if code := m.pick(m.aluX); (code == bpf.SubX || code == bpf.XorX) && !m.stale {
		return code
	}
	return bpf.AddX // not 0 either if A is X
}

// gather brings what is in X, or in a cell, into A.
func (m *maker) gather() {
	switch {
	case m.owed && m.rng.n(4) > 0:
	case m.fixed&bpf.RegA != 0 && len(m.loads) > 0:
		m.put(m.pick(m.loads), m.offset())
		return
	case m.missing|m.dull != ^uint16(0) && len(m.prog) < m.room-1:
		k := m.stored()
		for range 3 {
			if m.dull>>k&1 != 0 {
				k = m.stored()
			}
		}
		m.put(bpf.LdxMem, k)
	case !m.owed:
		code := m.pick(m.aluK)
		if m.rng.n(4) > 0 {
			code = bpf.SubK
		}
		m.put(code, m.operand(code))
		return
	}
	m.put(m.blend(), 0)
}

// jump appends a conditional jump: mostly a short one, with every combination
// of zero, equal and distant targets among the others.
func (m *maker) jump(code uint16) {
	decides := m.fixed&bpf.RegA == 0 || code&0x08 != 0 && m.fixed&bpf.RegX == 0
	if !decides && m.rng.n(8) > 0 { // what it compares would always be the same
		m.put(m.pick(m.loads), m.offset())
	}
	pc := len(m.prog)
	most := min(m.end-2-pc, 255) // distance to the last instruction
	if pc >= m.room || most < 0 {
		return
	}
	short := m.distance(most)
	jt, jf := short, 0
	switch v := m.rng.n(32); {
	case v < 10:
	case v < 20:
		jt, jf = 0, short
	case v < 25:
		jf = m.distance(most)
	case v < 27:
		jf = short
	case v < 28:
		jt = 0
	case v < 30:
		jf = most - m.rng.n(min(most, 2)+1)
	case v < 31:
		jt, jf = m.rng.n(most+1), m.rng.n(most+1)
	default:
		jf = min(jt+1, most)
	}
	k := m.rng.constant()
	if m.a <= 0xff && m.rng.n(4) > 0 { // within what can be loaded
		k &= 0xff
	} else if m.a <= 0xffff && m.rng.n(4) > 0 {
		k &= 0xffff
	}
	m.branch(code, jt, jf, k)
}

// branch appends a conditional jump whose targets exist.
func (m *maker) branch(code uint16, jt, jf int, k uint32) {
	pc := len(m.prog)
	if pc >= m.room {
		return
	}
	m.prog = append(m.prog, bpf.Instruction{Code: code, JT: uint8(jt), JF: uint8(jf), K: k})
	m.lead(pc + 1 + jt)
	m.lead(pc + 1 + jf)
	if jt != 0 && jf != 0 {
		m.leave()
	}
	m.missing = 0
	m.arrive()
}

// distance draws a short distance, most of them 1 to 3.
func (m *maker) distance(most int) int {
	d := 1 + m.rng.n(1+m.rng.n(8))
	return min(d, most)
}

func (m *maker) ja() {
	pc := len(m.prog)
	most := m.end - 2 - pc
	if pc >= m.room || most < 0 {
		return
	}
	d := 0
	if m.joins[pc+1].targeted || m.rng.in(8) {
		d = m.distance(most)
	}
	m.prog = append(m.prog, bpf.Instruction{Code: bpf.Ja, K: uint32(d)})
	m.lead(pc + 1 + d)
	m.missing = 0
	m.leave()
	m.arrive()
}

// ret returns A, or a constant that tells which return it was.
func (m *maker) ret() {
	switch m.rng.n(16) {
	case 0, 1, 2:
		m.put(bpf.RetK, 0)
	case 3, 4:
		m.put(bpf.RetK, m.rng.constant())
	case 5, 6:
		m.put(bpf.RetK, 0x5000+uint32(len(m.prog)))
	default:
		m.put(bpf.RetA, 0)
	}
}

// finish returns A, which shows the most.
func (m *maker) finish() {
	if m.rng.in(24) {
		m.ret()
		return
	}
	m.put(bpf.RetA, 0)
}
