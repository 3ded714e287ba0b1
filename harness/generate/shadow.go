package generate

import (
	"encoding/binary"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// node is a value that a run computed from its input, and how. Its code is one
// of the codes below or that of an arithmetic instruction.
type node struct {
	code        uint8
	size        uint8  // of a load from the packet
	left, right int32  // the nodes that l and r come from, 0 for constants
	l, r        uint32 // A before the operation; its K or X. Of a load: r is where from
}

// The codes of nodes that are loaded.
const (
	fromPacket = bpf.LdWAbs // r is the place in Skb.Packet
	fromNibble = bpf.LdxMsh // the same, X = 4 * (byte & 15)
	fromLength = bpf.LdLen
	fromExt    = bpf.LdxLen // r is a bpf.Extension
	fromData   = bpf.LdMem  // r is the offset in struct seccomp_data
)

// event is a point in a run at which it could have gone another way.
type event struct {
	pc     int32
	what   what
	side   uint8 // a jump's: 1 if the condition held. A load's and a division's: 1 if it succeeded
	size   uint8 // of a load
	an, xn int32 // the nodes of A and X, 0 for constants
	a, x   uint32
	pos    uint32 // of a load: the offset
}

type what uint8

const (
	jumps what = iota
	loads
	divides
)

// trace is the record of a run.
type trace struct {
	nodes  []node // nodes[0] stands for all constants
	events []event

	value   uint32
	result  int32 // its node
	failed  bool  // a load or division ended it
	wide    bool  // it shifted by more than 31
	reached bool  // a side that no run before had reached
	steps   int
}

// shadow executes programs like the reference interpreter, and keeps a record
// of what came from where.
type shadow struct {
	prog bpf.Program
	kind bpf.Kind
	sem  kernelabi.Semantics

	// sides has, for every conditional jump, 1 if a run has come to it and the
	// condition did not hold, 2 if it did, or both; likewise for divisions.
	sides [bpf.MaxInsns]uint8
	open  int // jumps of which one side has been reached, and trying is worth it

	view kernelabi.SkbView
	cell [bpf.MemWords]struct {
		value uint32
		node  int32
	}
}

func (s *shadow) start(prog bpf.Program, kind bpf.Kind) {
	s.prog, s.kind = prog, kind
	clear(s.sides[:len(prog)])
	s.open = 0
}

// run executes the program on an input. The program is one that the checker
// accepts, so that cells and jumps need no looking at.
func (s *shadow) run(in *slot, t *trace) {
	nodes, events := append(t.nodes[:0], node{}), t.events[:0]
	var (
		a, x   uint32
		an, xn int32
		prog   = s.prog
		skb    = &in.skb
		packet = in.skb.Packet
		pos    uint32
		size   int
		index  int // in packet, or -1 where patching is of no use
		msh    bool
		side   uint8
		pc     = -1
	)
	t.wide, t.reached, t.failed, t.steps, t.result = false, false, false, 0, 0
loop:
	for {
		pc++
		t.steps++
		ins := &prog[pc]
		k := ins.K
		switch uint8(ins.Code) {
		case bpf.LdImm:
			a, an = k, 0
			continue
		case bpf.LdxImm:
			x, xn = k, 0
			continue
		case bpf.LdMem:
			c := &s.cell[k%bpf.MemWords]
			a, an = c.value, c.node
			continue
		case bpf.LdxMem:
			c := &s.cell[k%bpf.MemWords]
			x, xn = c.value, c.node
			continue
		case bpf.St:
			c := &s.cell[k%bpf.MemWords]
			c.value, c.node = a, an
			continue
		case bpf.Stx:
			c := &s.cell[k%bpf.MemWords]
			c.value, c.node = x, xn
			continue
		case bpf.Tax:
			x, xn = a, an
			continue
		case bpf.Txa:
			a, an = x, xn
			continue
		case bpf.LdLen, bpf.LdxLen:
			n, from := uint32(seccompdata.Size), int32(0)
			if s.kind == bpf.Socket {
				n, from = uint32(len(packet)), int32(len(nodes))
				nodes = append(nodes, node{code: fromLength})
			}
			if ins.Code == bpf.LdLen {
				a, an = n, from
			} else {
				x, xn = n, from
			}
			continue

		case bpf.LdWAbs:
			if s.kind == bpf.Seccomp {
				a, _ = in.sys.Load(k, 4)
				an = int32(len(nodes))
				nodes = append(nodes, node{code: fromData, r: k})
				continue
			}
			pos, size = k, 4
			goto absolute
		case bpf.LdHAbs:
			pos, size = k, 2
			goto absolute
		case bpf.LdBAbs:
			pos, size = k, 1
			goto absolute
		case bpf.LdWInd:
			pos, size = x+k, 4
			goto load
		case bpf.LdHInd:
			pos, size = x+k, 2
			goto load
		case bpf.LdBInd:
			pos, size = x+k, 1
			goto load
		case bpf.LdxMsh:
			pos, size, msh = k, 1, true
			goto load

		case bpf.AddK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a += k
			continue
		case bpf.AddX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			a += x
			continue
		case bpf.SubK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a -= k
			continue
		case bpf.SubX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			a -= x
			continue
		case bpf.MulK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a *= k
			continue
		case bpf.MulX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			a *= x
			continue
		case bpf.OrK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a |= k
			continue
		case bpf.OrX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			a |= x
			continue
		case bpf.AndK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a &= k
			continue
		case bpf.AndX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			a &= x
			continue
		case bpf.XorK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a ^= k
			continue
		case bpf.XorX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			a ^= x
			continue
		case bpf.Neg:
			nodes, an = alu(nodes, ins, an, 0, a, 0)
			a = -a
			continue
		case bpf.LshK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			t.wide = t.wide || k > 31
			a <<= k & 31
			continue
		case bpf.LshX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			t.wide = t.wide || x > 31
			a <<= x & 31
			continue
		case bpf.RshK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			t.wide = t.wide || k > 31
			a >>= k & 31
			continue
		case bpf.RshX:
			nodes, an = alu(nodes, ins, an, xn, a, x)
			t.wide = t.wide || x > 31
			a >>= x & 31
			continue
		case bpf.DivK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a /= k
			continue
		case bpf.ModK:
			nodes, an = alu(nodes, ins, an, 0, a, k)
			a %= k
			continue
		case bpf.DivX, bpf.ModX:
			side = 1
			if x == 0 {
				side = 0
			}
			events = append(events, event{pc: int32(pc), what: divides, side: side, an: an, xn: xn, a: a, x: x})
			if s.sides[pc] |= 1 << side; x == 0 {
				t.failed, t.value = true, 0
				break loop
			}
			nodes, an = alu(nodes, ins, an, xn, a, x)
			if ins.Code == bpf.DivX {
				a /= x
			} else {
				a %= x
			}
			continue

		case bpf.Ja:
			pc += int(k)
			continue
		case bpf.JeqK:
			side = b2u(a == k)
		case bpf.JgtK:
			side = b2u(a > k)
		case bpf.JgeK:
			side = b2u(a >= k)
		case bpf.JsetK:
			side = b2u(a&k != 0)
		case bpf.JeqX:
			side = b2u(a == x)
		case bpf.JgtX:
			side = b2u(a > x)
		case bpf.JgeX:
			side = b2u(a >= x)
		case bpf.JsetX:
			side = b2u(a&x != 0)

		case bpf.RetK:
			t.value, t.result = k, 0
			break loop
		case bpf.RetA:
			t.value, t.result = a, an
			break loop
		}

		// A conditional jump.
		if ins.Code&0x08 != 0 {
			events = append(events, event{pc: int32(pc), side: side, an: an, xn: xn, a: a, x: x})
		} else {
			events = append(events, event{pc: int32(pc), side: side, an: an, a: a, x: k})
		}
		if bit := uint8(1) << side; s.sides[pc]&bit == 0 {
			t.reached = true
			if s.sides[pc] == 0 {
				s.open++
			} else if s.sides[pc]&3 != 0 && s.sides[pc]&given == 0 {
				s.open--
			}
			s.sides[pc] |= bit
		}
		if side != 0 {
			pc += int(ins.JT)
		} else {
			pc += int(ins.JF)
		}
		continue

	absolute:
		if k >= bpf.ADOff {
			if ext, ok := ins.Extension(); ok {
				if ext == bpf.ExtXorX {
					nodes, an = alu(nodes, &xorX, an, xn, a, x)
					a ^= x
					continue
				}
				s.view = kernelabi.SkbView{Skb: skb, Semantics: s.sem}
				if a, ok = s.view.Extension(ext, a, x); !ok {
					events = append(events, event{pc: int32(pc), what: loads, pos: k})
					t.failed, t.value = true, a
					break loop
				}
				an = int32(len(nodes))
				nodes = append(nodes, node{code: fromExt, r: uint32(ext)})
				continue
			}
		}

	load:
		index = int(int32(pos))
		if index < 0 {
			switch {
			case pos >= bpf.NetOff:
				index = skb.NetworkHeader + int(pos-bpf.NetOff)
			case pos >= bpf.LLOff:
				index = skb.MacHeader + int(pos-bpf.LLOff)
			default:
				index = -1
			}
			if index < 0 || index+size > skb.Headlen && !s.sem.NegativeOffsetsReachFrags {
				index = -1
			}
		}
		{
			e := event{pc: int32(pc), what: loads, side: 1, size: uint8(size), x: x, pos: pos}
			if ins.Code&0xe0 == bpf.LdWInd&0xe0 {
				e.xn = xn
			}
			if index < 0 || index+size > len(packet) {
				// Once more by the rules, headroom and all.
				s.view = kernelabi.SkbView{Skb: skb, Semantics: s.sem}
				v, ok := s.view.Load(pos, size)
				if !ok {
					e.side = 0
					events = append(events, e)
					t.failed, t.value, msh = true, 0, false
					break loop
				}
				events = append(events, e)
				if msh {
					x, xn, msh = v&15*4, 0, false
				} else {
					a, an = v, 0
				}
				continue
			}
			events = append(events, e)
		}
		if msh {
			x, xn, msh = uint32(packet[index])&15*4, int32(len(nodes)), false
			nodes = append(nodes, node{code: fromNibble, size: 1, r: uint32(index)})
			continue
		}
		switch size {
		case 4:
			a = binary.BigEndian.Uint32(packet[index:])
		case 2:
			a = uint32(binary.BigEndian.Uint16(packet[index:]))
		default:
			a = uint32(packet[index])
		}
		an = int32(len(nodes))
		nodes = append(nodes, node{code: fromPacket, size: uint8(size), r: uint32(index)})
	}
	in.value, in.failed = t.value, t.failed
	t.nodes, t.events = nodes, events
}

var xorX = bpf.Instruction{Code: bpf.XorX}

// given marks a jump whose other side has been tried for often enough.
const given = 4

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// alu adds the node of an operation, unless constants alone go into it.
func alu(nodes []node, ins *bpf.Instruction, left, right int32, l, r uint32) ([]node, int32) {
	if left|right == 0 {
		return nodes, 0
	}
	return append(nodes, node{code: uint8(ins.Code), left: left, right: right, l: l, r: r}), int32(len(nodes))
}
