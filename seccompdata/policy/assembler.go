package policy

import (
	"math"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// assembler gives nodes their places. It works from the last instruction to the
// first, so that the distance of a jump is known when the jump is made. Where
// it is more than 8 bits can say, a copy of the return or a ja is put directly
// behind the jump, and jumps before it use that.
type assembler struct {
	insns []bpf.Instruction // the last one first
	rules []int
	at    map[*node]place
}

// place is where a node is, counted from the end of the program, and the
// foremost thing that leads there. These are the same to begin with.
type place struct{ self, relay int }

// farthest is the longest jump of a conditional jump.
const farthest = math.MaxUint8

// assemble returns the program that begins at root and for each pc the rule; ok
// is false if it is too long.
func assemble(root *node) (prog bpf.Program, rules []int, ok bool) {
	a := &assembler{at: map[*node]place{}}
	a.place(root)
	slices.Reverse(a.insns)
	slices.Reverse(a.rules)
	return a.insns, a.rules, len(a.insns) <= bpf.MaxInsns
}

func (a *assembler) put(ins bpf.Instruction, rule int) {
	a.insns = append(a.insns, ins)
	a.rules = append(a.rules, rule)
}

// distance is the offset with which an instruction put next reaches what is at
// position to.
func (a *assembler) distance(to int) int { return len(a.insns) - 1 - to }

// place puts n and whatever it needs that has no place yet. It stops when the
// program is too long.
func (a *assembler) place(n *node) {
	if _, done := a.at[n]; done || len(a.insns) > bpf.MaxInsns {
		return
	}
	ins := bpf.Instruction{Code: n.code, K: n.k}
	switch {
	case n.code == bpf.RetK:
	case n.no == nil:
		a.place(n.yes)
		if a.distance(a.at[n.yes].relay) != 0 {
			a.relay(n.yes)
		}
	default:
		far, close := n.yes, n.no
		if n.near {
			far, close = close, far
		}
		a.place(far)
		a.place(close)
		// A relay for one of them moves the other one step away.
		for !a.reaches(far) || !a.reaches(close) {
			if !a.reaches(far) {
				a.relay(far)
			} else {
				a.relay(close)
			}
		}
		ins.JT, ins.JF = a.offset(n.yes), a.offset(n.no)
	}
	a.put(ins, n.rule)
	last := len(a.insns) - 1
	a.at[n] = place{last, last}
}

// reaches reports whether a conditional jump put next can go to n or to its relay.
func (a *assembler) reaches(n *node) bool { return a.distance(a.at[n].relay) <= farthest }

// offset is the 8-bit distance to n. It goes to n itself where it can: a ja on
// the way is an instruction more to execute.
func (a *assembler) offset(n *node) uint8 {
	if d := a.distance(a.at[n].self); d <= farthest {
		return uint8(d)
	}
	return uint8(a.distance(a.at[n].relay))
}

// relay puts something that leads to n in front of the program.
func (a *assembler) relay(n *node) {
	p := a.at[n]
	ins := bpf.Instruction{Code: bpf.Ja, K: uint32(a.distance(p.self))}
	if n.code == bpf.RetK {
		ins = bpf.Instruction{Code: n.code, K: n.k}
		p.self = len(a.insns) // as good as the other
	}
	a.put(ins, n.rule)
	p.relay = len(a.insns) - 1
	a.at[n] = p
}
