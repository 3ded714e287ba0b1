package generate

import (
	"math/bits"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// Solver finds inputs for programs. It serves one goroutine; what it returns is
// valid until it solves the next program.
//
// It goes in three steps. It runs the program on two inputs and then, for every
// branch side that no run has reached, changes an input whose run came past it
// so that the next one should. Then it puts the ends of packets, of their
// linear parts and of fragments where loads are. What room is left is for
// inputs that went far, with other values.
type Solver struct {
	shadow
	max int
	rng rng
	out []kernelabi.Input

	slots []*slot
	n     int // slots in use

	parent, child trace
	bounded       [bpf.MaxInsns]bool // loads around whose bytes inputs end
	spots         []spot
	tries         int  // runs of inputs that were not kept
	lost          int  // kept inputs whose runs failed
	wide          int  // kept inputs with a shift by more than 31
	reads         bool // the program reads its input
	device, vlan  bool // and these parts of it
	packetLoads   int  // load instructions
}

// spot is a value that the program loads.
type spot struct {
	index uint32 // in the packet or the system call
	size  uint8
}

// NewSolver returns a solver that gives up to cfg.Inputs inputs for a program.
func NewSolver(cfg Config) *Solver {
	cfg = cfg.complete()
	s := &Solver{max: cfg.Inputs}
	s.sem = cfg.Semantics
	for range s.max + 1 { // one is being tried
		sl := &slot{}
		sl.skb.Packet = make([]byte, 0, 192)
		s.slots = append(s.slots, sl)
	}
	return s
}

// Solve returns inputs for a program. The same program and seed give the same
// inputs. There are none for a program that no bpf.Rules accept.
func (s *Solver) Solve(prog bpf.Program, kind bpf.Kind, seed uint64) []kernelabi.Input {
	for _, r := range bpf.AllRules() {
		if bpf.Check(prog, kind, r) == nil {
			return s.solve(prog, kind, seed)
		}
	}
	s.prog = nil
	return nil
}

func (s *Solver) solve(prog bpf.Program, kind bpf.Kind, seed uint64) []kernelabi.Input {
	s.rng = newRng(seed, uint64(len(prog)))
	s.shadow.start(prog, kind)
	s.n, s.tries, s.lost, s.wide = 0, 0, 0, 0
	s.spots = s.spots[:0]
	clear(s.bounded[:len(prog)])

	length := s.survey()
	for range min(2, s.max) {
		s.begin(length)
		s.keep(nil)
	}
	if s.reads {
		s.branches()
		s.edges()
		s.fill()
	}

	s.out = s.out[:0]
	for _, sl := range s.slots[:s.n] {
		if kind == bpf.Seccomp {
			s.out = append(s.out, &sl.sys)
		} else {
			s.out = append(s.out, &sl.skb)
		}
	}
	return s.out
}

// survey looks the program through for what its packets need, and returns how
// long they have to be.
func (s *Solver) survey() int {
	end := 16
	s.reads, s.device, s.vlan, s.packetLoads = false, false, false, 0
	for _, ins := range s.prog {
		size := 4
		switch ins.Code {
		case bpf.LdLen, bpf.LdxLen:
			s.reads = s.reads || s.kind == bpf.Socket
			continue
		case bpf.LdWAbs:
			if s.kind == bpf.Seccomp {
				s.reads = true
				continue
			}
		case bpf.LdHAbs:
			size = 2
		case bpf.LdBAbs, bpf.LdxMsh:
			size = 1
		case bpf.LdWInd, bpf.LdHInd, bpf.LdBInd:
			s.packetLoads++
			size = 68
		default:
			continue
		}
		s.reads = s.reads || ins.K != bpf.ExtXorX.K()
		switch k := ins.K; {
		case k < maxPacket-128:
			s.packetLoads++
			end = max(end, int(k)+size)
		case k >= bpf.ADOff:
			switch bpf.Extension(k - bpf.ADOff) {
			case bpf.ExtIfindex, bpf.ExtHatype:
				s.device = true
			case bpf.ExtVlanTCI, bpf.ExtVlanPr:
				s.vlan = true
			}
		case k >= bpf.LLOff:
			s.packetLoads++
			end = max(end, int(k&0xfffff)%1024+size+22)
		}
	}
	return end
}

// begin makes a random input in the next slot.
func (s *Solver) begin(length int) {
	sl := s.slots[s.n]
	if s.kind == bpf.Seccomp {
		d := &sl.sys.Data
		d.Nr, d.Arch, d.IP = uint32(s.rng.n(450)), arches[s.rng.n(len(arches))], s.rng.next()
		for i := range d.Args {
			d.Args[i] = s.rng.next()
			if s.rng.in(2) {
				d.Args[i] = uint64(s.rng.constant())
			}
		}
		return
	}
	sl.skb.Packet = sl.skb.Packet[:0]
	sl.skb.Headlen = 0
	sl.resize(length+s.rng.n(24), &s.rng)
	sl.split(len(sl.skb.Packet))
	sl.metadata(&s.rng)
}

var arches = []uint32{seccompdata.ArchX86_64, seccompdata.ArchI386, seccompdata.ArchARM, seccompdata.ArchAARCH64}

// next copies a kept input to the next slot, where it can be changed.
func (s *Solver) next(from int) *slot {
	sl := s.slots[s.n]
	sl.copyFrom(s.slots[from], s.kind)
	return sl
}

// judge says whether a run is worth keeping its input.
type judge func(s *Solver) bool

// newSide keeps inputs that reach what none has reached.
func newSide(s *Solver) bool { return s.child.reached }

// useful keeps all but those with one more undefined shift, or one more failed
// load when there are many.
func useful(s *Solver) bool {
	t := &s.child
	return !(t.wide && s.wide >= 2 || t.failed && s.lost > 4+s.n/6)
}

// keep runs the program on the input in the next slot, and keeps it if the
// judge says so, or if there is none.
func (s *Solver) keep(worth judge) bool {
	s.run(s.slots[s.n], &s.child)
	if worth != nil && !s.child.reached && !worth(s) {
		s.tries++
		return false
	}
	s.n++
	if s.child.failed {
		s.lost++
	}
	if s.child.wide {
		s.wide++
	}
	return true
}

// branches reaches as many sides as it can.
func (s *Solver) branches() {
	most := s.max * 3 / 4
	for q := 0; q < s.n && s.n < most && (s.open > 0 || s.child.failed) && s.tries < 2*s.max; q++ {
		s.run(s.slots[q], &s.parent)
		if q < 2 && s.open > 1 {
			s.crossAll(q)
		}
		for i := range s.parent.events {
			e := &s.parent.events[i]
			switch e.what {
			case jumps:
				if state := s.sides[e.pc]; state&3 == 3 || state&given != 0 {
					continue
				}
				s.cross(q, e)
			case loads, divides:
				if e.side == 1 {
					if e.what == divides && s.sides[e.pc]&1 == 0 {
						s.sides[e.pc] |= 1
						s.change(q, e.xn, 0)
					}
					continue
				}
				s.rescue(q, e)
			}
			if s.n >= most {
				return
			}
		}
	}
}

// change tries kept input q with w in node n of its run.
func (s *Solver) change(q int, n int32, w uint32) bool {
	v := inverter{s.next(q), &s.parent, s, fuel}
	return v.want(n, w) && s.keep(newSide)
}

// attempts is how often a side is tried for before it is given up.
const attempts = 5

// cross tries to get to the other side of a jump.
func (s *Solver) cross(q int, e *event) {
	code := s.prog[e.pc].Code
	// Bits 3 to 5 of the state count the attempts.
	attempt := int(s.sides[e.pc] >> 3)
	s.sides[e.pc] += 1 << 3
	if attempt+1 >= attempts {
		s.sides[e.pc] |= given
		s.open--
	}
	if e.an|e.xn == 0 {
		return // constants; on another path they may be others
	}
	v := inverter{s.next(q), &s.parent, s, fuel}
	if v.satisfy(code, e, e.side == 0, attempt) {
		s.keep(newSide)
	}
}

// crossAll tries to get to the other sides of all jumps of a run at once: many
// jumps do not depend on each other and only skip a little.
func (s *Solver) crossAll(q int) {
	v := inverter{in: s.next(q), t: &s.parent, s: s}
	changed := false
	for i := range s.parent.events {
		e := &s.parent.events[i]
		if e.what == jumps && s.sides[e.pc]&3 != 3 && e.an|e.xn != 0 {
			changed = v.satisfy(s.prog[e.pc].Code, e, e.side == 0, 0) || changed
		}
	}
	if changed {
		s.keep(newSide)
	}
}

// satisfy changes the input so that a jump's condition has the given outcome.
func (v *inverter) satisfy(code uint16, e *event, holds bool, attempt int) bool {
	var values [6]uint32
	list := values[:0]
	a, x := e.a, e.x
	switch code {
	case bpf.JeqK, bpf.JeqX:
		if holds {
			list = append(list, x)
		} else {
			list = append(list, x+1, x-1, ^x, x^0x80000000, v.s.rng.u32())
		}
	case bpf.JgtK, bpf.JgtX, bpf.JgeK, bpf.JgeX:
		first := x // the least A for which the condition holds
		if (code == bpf.JgtK || code == bpf.JgtX) && x != ^uint32(0) {
			first++
		}
		if holds {
			if mask := v.possible(e.an); mask != ^uint32(0) && mask != 0 {
				grain := mask & -mask
				list = append(list, (first+grain-1)&^(grain-1), mask)
			} else {
				list = append(list, first)
			}
			list = append(list, ^uint32(0), first+1, first|0x80000000)
		} else {
			list = append(list, first-1, 0, first/2)
			if grain := v.possible(e.an); grain != ^uint32(0) && grain != 0 {
				list = append(list, (first-1)&grain)
			}
		}
	default:
		if holds {
			low := x & -x
			list = append(list, a|x&v.possible(e.an), a|low, low, x, 1<<31>>min(bits.LeadingZeros32(x), 31))
		} else {
			list = append(list, a&^x, 0, ^x)
		}
	}
	v.fuel = fuel
	for i := range list {
		w := list[(i+attempt)%len(list)]
		if condition(code, w, x) == holds && v.want(e.an, w) {
			return true
		}
	}
	if e.xn != 0 { // X instead of A
		for _, w := range [...]uint32{a, a - 1, a + 1, ^a, 0, 1, ^uint32(0)} {
			if condition(code, a, w) == holds && v.want(e.xn, w) {
				return true
			}
		}
	}
	if e.an == 0 || e.xn != 0 && v.s.rng.in(2) {
		return v.shake(e.xn)
	}
	return v.shake(e.an)
}

func condition(code uint16, a, x uint32) bool {
	switch code {
	case bpf.JeqK, bpf.JeqX:
		return a == x
	case bpf.JgtK, bpf.JgtX:
		return a > x
	case bpf.JgeK, bpf.JgeX:
		return a >= x
	}
	return a&x != 0
}

// rescue tries to get past the load or the division that ended a run.
func (s *Solver) rescue(q int, e *event) {
	if s.sides[e.pc] >= 0x60 {
		return // it has been tried for
	}
	s.sides[e.pc] += 0x20
	if e.what == divides {
		if !s.change(q, e.xn, max(s.rng.constant(), 1)) {
			s.change(q, e.xn, 1)
		}
		return
	}
	skb := &s.slots[q].skb
	size, length := uint32(e.size), uint32(len(skb.Packet))
	switch {
	case e.pos >= bpf.ADOff:
		if skb.NoDevice {
			s.next(q).skb.NoDevice = false
			s.keep(newSide)
		}
	case e.xn != 0 && (s.aim(q, e, uint32(s.rng.n(int(length)+1))&^3) ||
		s.aim(q, e, bpf.LLOff+uint32(s.rng.n(16))) || s.aim(q, e, bpf.NetOff+uint32(s.rng.n(16)))):
	case e.pos <= maxPacket-8:
		s.next(q).resize(int(e.pos+size)+s.rng.n(8), &s.rng)
		s.keep(newSide)
	case e.pos >= bpf.LLOff:
		sl := s.next(q)
		if need := int(e.pos&0xfffff) + int(size) + 22; need < maxPacket {
			sl.resize(max(need, int(length)), &s.rng)
			sl.split(len(sl.skb.Packet))
			sl.skb.Headroom, sl.skb.MacHeader, sl.skb.NetworkHeader = 0, 0, 14
			s.keep(newSide)
		}
	}
}

// aim makes a load at X+k read from the given offset.
func (s *Solver) aim(q int, e *event, at uint32) bool {
	k := e.pos - e.x
	v := inverter{s.next(q), &s.parent, s, fuel}
	for d := range uint32(4) {
		if v.want(e.xn, at-k+d) {
			return s.keep(useful)
		}
	}
	return false
}

// fill makes inputs of those that went far, with other values. Every one of
// these is the parent of a few.
func (s *Solver) fill() {
	kept, spare := s.n, s.max
	if s.lost+s.wide >= kept {
		spare = 4 // nothing goes far
	}
	const children = 4
	for q, child := 0, 0; s.n < s.max; child++ {
		if child%children == 0 {
			q = s.rng.n(kept)
			for try := 0; s.slots[q].failed && try < kept; try++ {
				if q++; q == kept {
					q = 0
				}
			}
			s.run(s.slots[q], &s.parent)
		}
		sl := s.next(q)
		s.vary(sl)
		if result := s.parent.result; result != 0 { // what the program returns is seen best
			v := inverter{sl, &s.parent, s, fuel}
			v.shake(result)
		}
		if !s.keep(useful) {
			if spare--; spare < 0 {
				return
			}
		}
	}
}

// vary changes some of the values that the program loads.
func (s *Solver) vary(sl *slot) {
	if s.kind == bpf.Seccomp {
		for range s.rng.between(1, 3) {
			sl.putWord(uint32(s.rng.n(16))*4, s.rng.constant())
		}
		return
	}
	v := s.rng.next()
	if v&3 == 0 {
		sl.metadata(&s.rng)
	}
	if n := len(s.spots); n > 0 {
		for range 1 + v>>2&3 {
			sp := s.spots[s.rng.n(n)]
			sl.put(int(sp.index), int(sp.size), s.rng.constant())
		}
	}
	if len(s.spots) == 0 && len(sl.skb.Packet) > 0 {
		sl.put(s.rng.n(len(sl.skb.Packet)), 1, s.rng.u32())
	}
	if v>>4&15 == 0 && len(sl.skb.Packet) > 0 {
		at := s.rng.n(len(sl.skb.Packet))
		sl.split(at, s.rng.n(8)+1, s.rng.n(16)+1)
	}
}

// CloneInputs returns copies of inputs that stay as they are.
func CloneInputs(inputs []kernelabi.Input) []kernelabi.Input {
	out := make([]kernelabi.Input, len(inputs))
	for i, in := range inputs {
		out[i] = CloneInput(in)
	}
	return out
}

// CloneInput returns a copy of an input that stays as it is.
func CloneInput(in kernelabi.Input) kernelabi.Input {
	switch in := in.(type) {
	case *kernelabi.Skb:
		c := *in
		c.Packet = slices.Clone(in.Packet)
		c.Frags = slices.Clone(in.Frags)
		return &c
	case *kernelabi.Syscall:
		c := *in
		return &c
	}
	return in
}
