package generate

import "github.com/kjit-project/kjit/bpf"

// Shape is how a program was made.
type Shape uint8

const (
	Soup    Shape = iota // instructions drawn at random
	Single               // one feature, first and nearly alone
	Mutated              // a program of the corpus, changed or spliced with another
	Reach                // a jump about as far as its short form reaches
	Chain                // jumps each of which is short only if the next one is
	Storm                // so much code that what lies behind it is far away
	Distant              // jumps of about 255 instructions, and longer ones
	Long                 // up to 4096 instructions
	numShapes
)

var shapeNames = [numShapes]string{"soup", "single", "mutated", "reach", "chain", "storm", "distant", "long"}

func (s Shape) String() string { return shapeNames[s] }

// shapes says how many programs of 10000 have a shape; the others are soup. What
// costs a JIT much time to compile is as rare as is good for the average.
var shapes = [numShapes]int{Single: 600, Reach: 400, Chain: 40, Storm: 40, Distant: 25, Long: 4}

// make makes a program.
func (m *maker) make() (bpf.Kind, Shape) {
	m.kind = bpf.Socket
	if m.cfg.Features[bpf.Seccomp].Kind == Often && m.rng.percent(m.cfg.Seccomp) {
		m.kind = bpf.Seccomp
	}
	m.choose()
	if len(m.sources[m.kind]) > 0 && m.rng.percent(m.cfg.Mutated) {
		m.mutateSource()
		return m.kind, Mutated
	}
	at, shape := m.rng.n(10000), Soup
	for s, share := range shapes {
		if at -= share; at < 0 {
			shape = Shape(s)
			break
		}
	}
	switch shape {
	case Single:
		m.single(m.rng.between(2, 6))
	case Reach:
		m.reach()
	case Chain:
		m.chain()
	case Storm:
		m.storm()
	case Distant:
		m.distant()
	case Long:
		m.soup(512 << m.rng.n(4) * m.rng.between(5, 8) / 8)
	default:
		m.soup(m.length())
	}
	return m.kind, shape
}

// length draws the length of a program: near the mean mostly, but with short
// and long ones among them. Soup is longer than the mean because programs that
// show one thing are short.
func (m *maker) length() int {
	mean := m.cfg.Length
	switch v := m.rng.n(100); {
	case v < 6:
		return m.rng.between(2, mean/2)
	case v < 10:
		return m.rng.between(2*mean, 4*mean)
	}
	return m.rng.between(mean/2, mean*3/2)
}

// filler appends code for A that x86 encodes in about the given number of bytes.
func (m *maker) filler(bytes int) {
	for bytes >= 2 {
		switch v := m.rng.n(8); {
		case bytes >= 5 && v < 5:
			m.put(bpf.AddK, m.rng.u32()|0x10000)
			bytes -= 5
		case bytes >= 3 && v < 7:
			m.put(bpf.SubK, 1+uint32(m.rng.n(0x7f)))
			bytes -= 3
		default:
			m.put(bpf.AddX, 0)
			bytes -= 2
		}
	}
}

// shortReach is the longest forward distance of x86's short jumps, in bytes.
const shortReach = 127

// reach has a jump over code that is about as long as a short jump reaches, one
// or both of its sides being that far.
func (m *maker) reach() {
	m.prelude(m.rng.n(6))
	at := len(m.prog)
	m.put(bpf.JeqK, 0) // the jump to be
	m.filler(m.rng.between(shortReach-15, shortReach+10))
	for range m.rng.n(4) {
		m.put(bpf.AddK, m.rng.constant()) // near the end of the reach some more
	}
	target := len(m.prog)
	for range m.rng.n(4) {
		m.gather()
	}
	m.close()

	far := target - at - 1
	jt, jf := far, 0
	switch m.rng.n(6) {
	case 0:
		jt, jf = 0, far
	case 1:
		jf = far
	case 2:
		jf = far - m.rng.n(3)
	case 3:
		jt = far - m.rng.n(3)
		jf = far
	case 4:
		jt, jf = m.rng.n(far), far
	}
	m.prog[at] = m.cond(jt, jf)
}

// cond is a conditional jump of any kind.
func (m *maker) cond(jt, jf int) bpf.Instruction {
	codes := jumpsK
	if m.rng.in(3) {
		codes = jumpsX
	}
	return bpf.Instruction{Code: m.pick(codes), JT: uint8(jt), JF: uint8(jf), K: m.rng.constant()}
}

// close ends a program whose length was not known beforehand.
func (m *maker) close() {
	m.end = len(m.prog) + 1
	m.room = m.end
	m.finish()
}

// prelude begins a program whose length is not yet known with n instructions
// that jump to the two behind them at most, and gives A a value to compare.
func (m *maker) prelude(n int) {
	m.start(n + 2)
	for m.room = n; len(m.prog) < n; {
		m.more()
	}
	m.end, m.room = bpf.MaxInsns, bpf.MaxInsns-1
	if m.fixed&bpf.RegA != 0 {
		m.put(m.pick(m.loads), m.offset())
	}
}

// chain has jumps over equal blocks of code, each over the next jump, too: a
// short form that does not fit yet does so when the next jump has become short.
// Emitters that try again until nothing changes need one pass more for each.
func (m *maker) chain() {
	m.start(bpf.MaxInsns)
	if m.rng.in(2) {
		m.put(bpf.LdLen, 0)
	} else {
		m.put(m.pick(m.loads), m.offset())
	}
	blocks, fill := m.rng.between(4, 10), m.rng.between(22, 26)
	odd := m.rng.in(3) // blocks of other sizes than a multiple of 5 bytes
	side := m.rng.n(2)
	for i := range blocks {
		skip := fill + 1
		if i == blocks-1 {
			skip = fill
		}
		ins := bpf.Instruction{Code: bpf.JeqK, JF: uint8(skip), K: 1000 + uint32(m.rng.n(5000))}
		if side == 0 {
			ins.JT, ins.JF = ins.JF, ins.JT
		}
		m.prog = append(m.prog, ins)
		for j := range fill {
			if odd && j < 2 {
				m.put(bpf.SubK, 1+uint32(m.rng.n(0x7f)))
			} else {
				m.put(bpf.AddK, 1000+uint32(m.rng.n(5000)))
			}
		}
	}
	m.close()
}

// storm has a constant, then loads that are long in every encoding, then the
// constant again, or another one.
func (m *maker) storm() {
	m.start(bpf.MaxInsns)
	k := m.rng.u32() | 0x10001
	m.put(bpf.LdxImm, k)
	n := m.rng.between(50, 70)
	for range n {
		if m.rng.in(12) {
			m.put(bpf.SubX, 0)
			m.put(bpf.Tax, 0)
		}
		if m.kind == bpf.Seccomp || m.rng.in(8) {
			m.put(bpf.AddK, m.rng.u32()|0x10001)
			continue
		}
		m.put(m.pick(m.loads), uint32(m.rng.n(m.extent-3))&^3)
	}
	m.put(bpf.SubX, 0)
	if m.rng.in(2) {
		m.put(bpf.AddK, k)
	}
	m.close()
}

// distant has a jump at the limits of jt and jf, or a JA farther than that.
func (m *maker) distant() {
	m.prelude(m.rng.n(4))
	at := len(m.prog)
	ja := m.rng.in(2)
	m.put(bpf.JeqK, 0) // the jumps to be
	if ja {
		m.put(bpf.Ja, 0)
	}
	for range m.rng.between(256, 300) {
		m.put(bpf.AddK, m.rng.constant())
	}
	target := len(m.prog)
	m.gather()
	m.close()

	jt, jf := 255-m.rng.n(3), m.rng.n(256)
	if ja {
		jt, jf = 0, m.rng.n(256)
		m.prog[at+1].K = uint32(target - at - 2)
	}
	if m.rng.in(2) {
		jt, jf = jf, jt
	}
	m.prog[at] = m.cond(jt, jf)
}
