package shrink

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// codeCosts say how much there is to understand about an operation; conditional
// jumps and arithmetic with X are one more than with K.
var codeCosts = map[uint16]int{
	bpf.RetK: 1, bpf.LdImm: 1, bpf.LdxImm: 1,
	bpf.RetA: 2, bpf.Tax: 2, bpf.Txa: 2, bpf.Ja: 2,
	bpf.LdLen: 3, bpf.LdxLen: 3, bpf.St: 3, bpf.Stx: 3, bpf.AddK: 3,
	bpf.LdMem: 4, bpf.LdxMem: 4, bpf.Neg: 4, bpf.AddX: 4,
	bpf.LdBAbs: 6, bpf.JeqK: 6, bpf.LdHAbs: 7, bpf.LdWAbs: 8,
	bpf.LdBInd: 9, bpf.LdHInd: 10, bpf.LdWInd: 11, bpf.LdxMsh: 9,
}

func codeCost(ins bpf.Instruction) int {
	if c, ok := codeCosts[ins.Code]; ok {
		return c
	}
	switch withX := int(ins.Code >> 3 & 1); ins.Class() {
	case bpf.ClassAlu:
		return 5 + withX
	case bpf.ClassJmp:
		return 7 + withX
	}
	return 12
}

// simplifyCodes puts simpler instructions in the place of others.
func (s *shrinker) simplifyCodes() {
	for pc := 0; pc < len(s.prog) && !s.over(); pc++ {
		for _, ins := range s.simpler(pc) {
			if codeCost(ins) < codeCost(s.prog[pc]) && s.replace(pc, ins) {
				break
			}
		}
	}
}

// simpler lists what may stand in the place of an instruction. Where the
// reference comes by, what the instruction computes is known.
func (s *shrinker) simpler(pc int) (list []bpf.Instruction) {
	ins := s.prog[pc]
	add := func(code uint16, k uint32) {
		list = append(list, bpf.Instruction{Code: code, JT: ins.JT, JF: ins.JF, K: k})
	}
	before, after := s.around(pc)
	if !isJump(ins.Code) && !bpf.IsRet(ins.Code) {
		switch ins.Writes() {
		case bpf.RegA:
			list = append(list, bpf.Instruction{Code: bpf.LdImm, K: after.A})
		case bpf.RegX:
			list = append(list, bpf.Instruction{Code: bpf.LdxImm, K: after.X})
		}
	}
	switch ins.Code {
	case bpf.RetA:
		add(bpf.RetK, 0)
		add(bpf.RetK, 1)
		add(bpf.RetK, before.A)
	case bpf.LdWAbs:
		add(bpf.LdBAbs, ins.K)
		add(bpf.LdHAbs, ins.K)
	case bpf.LdHAbs:
		add(bpf.LdBAbs, ins.K)
	case bpf.LdWInd, bpf.LdHInd, bpf.LdBInd:
		add(ins.Code&^0xe0|bpf.LdWAbs&0xe0, before.X+ins.K)
		if ins.Code != bpf.LdBInd {
			add(bpf.LdBInd, ins.K)
		}
		if ins.Code == bpf.LdWInd {
			add(bpf.LdHInd, ins.K)
		}
	}
	switch class := ins.Class(); {
	case class != bpf.ClassAlu && class != bpf.ClassJmp || ins.Code == bpf.Ja || ins.Code == bpf.Neg:
	default:
		const withX = 8
		if ins.Code&withX != 0 {
			add(ins.Code&^withX, before.X)
		}
		if class == bpf.ClassAlu {
			add(bpf.AddK|ins.Code&withX, ins.K)
		} else {
			add(bpf.JeqK|ins.Code&withX, ins.K)
		}
	}
	return list
}

// around returns the reference's states before and after an instruction, zeros
// where it does not come by.
func (s *shrinker) around(pc int) (before, after bpf.State) {
	states := s.trace()
	for i := range states {
		if states[i].PC == pc {
			before, after = states[i], states[i]
			if i+1 < len(states) {
				after = states[i+1]
			}
			break
		}
	}
	return before, after
}

// simplifyConstants makes constants rounder.
func (s *shrinker) simplifyConstants() {
	for pc := 0; pc < len(s.prog) && !s.over(); pc++ {
		ins := s.prog[pc]
		if ins.Code == bpf.Ja || usesCell(ins.Code) {
			continue
		}
		for _, k := range simplerThan(ins.K) {
			ins.K = k
			if s.replace(pc, ins) {
				break
			}
		}
		// Fields that the code does not use.
		if !bpf.IsCondJump(ins.Code) {
			ins = s.prog[pc]
			ins.JT, ins.JF = 0, 0
			s.replace(pc, ins)
		}
	}
}

// simplifyTogether makes a constant that stands in several places rounder in all
// of them.
func (s *shrinker) simplifyTogether() {
	constants := map[uint32]int{}
	for _, ins := range s.prog {
		if ins.Code != bpf.Ja && !usesCell(ins.Code) {
			constants[ins.K]++
		}
	}
	for _, old := range slices.Sorted(maps.Keys(constants)) {
		if constants[old] < 2 {
			continue
		}
		for _, k := range simplerThan(old) {
			prog := slices.Clone(s.prog)
			for pc := range prog {
				if ins := &prog[pc]; ins.K == old && ins.Code != bpf.Ja && !usesCell(ins.Code) {
					ins.K = k
				}
			}
			if s.tryProgram(prog) {
				break
			}
		}
	}
}

// weight says how much there is to read in a number: nothing in 0, little in
// what is small, round, or close to the bases of negative offsets.
func weight(k uint32) int {
	w := min(plainWeight(k), 1+plainWeight(-k))
	switch {
	case k >= bpf.NetOff: // the packet has to be longer than for the other
		w = min(w, 4+plainWeight(k-bpf.NetOff))
	case k >= bpf.LLOff:
		w = min(w, 3+plainWeight(k-bpf.LLOff))
	}
	return w
}

func plainWeight(k uint32) int {
	switch {
	case k <= 1:
		return int(k)
	case k&(k-1) == 0:
		return 2 + bits.Len32(k)/9
	}
	return 2 + bits.Len32(k)/4 + bits.OnesCount32(k)
}

// small are the numbers that are tried in the place of any other.
var small = []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 31, 32, 64, 127, 128, 255, 256, 1 << 15, 1 << 16, 1 << 31}

// simplerThan lists numbers to try in the place of k, lightest first.
func simplerThan(k uint32) []uint32 {
	var list []uint32
	for _, v := range small {
		list = append(list, v, -v)
	}
	for _, base := range []uint32{bpf.LLOff, bpf.NetOff} {
		if k >= base {
			for _, v := range small[:8] {
				list = append(list, base+v)
			}
			list = append(list, base+(k-base)/2, base+(k-base)&0xff, base+(k-base)&0xfffff)
		}
	}
	for _, v := range []uint32{k, -k} {
		top := uint32(1) << max(bits.Len32(v)-1, 0)
		for _, x := range []uint32{top, top << 1, v &^ top, v & (v - 1), v >> 1, v >> 4, v >> 8, v >> 16, v & 0xff, v & 0xffff, v & 0xff00, v & 0xffff0000, v - 1} {
			list = append(list, x, -x)
		}
	}
	return sorted(list, k)
}
