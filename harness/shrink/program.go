package shrink

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// shrinkProgram tries everything on the program. Small steps come when there are
// no more large ones, so that there is less to try them on.
func (s *shrinker) shrinkProgram() {
	for before := -1; before != s.taken && !s.over(); {
		before = s.taken
		s.straighten()
		s.removeChunks()
		s.decideJumps()
		s.cutShort()
		s.simplifyCodes()
		s.renumberCells()
	}
	s.simplifyConstants()
	s.simplifyTogether()
	s.shortenJumps()
}

// straighten tries the way that the reference takes, without its jumps and then
// with them.
func (s *shrinker) straighten() {
	s.tryProgram(dropDead(s.prog))
	states := s.trace()
	if len(states) == 0 {
		return
	}
	unused := make([]bool, len(s.prog))
	for pc := range unused {
		unused[pc] = true
	}
	for _, st := range states {
		unused[st.PC] = false
	}
	withJumps := slices.Clone(unused)
	for _, st := range states {
		unused[st.PC] = isJump(s.prog[st.PC].Code)
	}
	if !s.tryProgram(remove(s.prog, unused)) {
		s.tryProgram(remove(s.prog, withJumps))
	}
}

// removeChunks removes runs of instructions, from long ones to single ones, as
// delta debugging does.
func (s *shrinker) removeChunks() {
	for size := max(len(s.prog)/2, 1); size >= 1 && !s.over(); size /= 2 {
		for at := len(s.prog) - size; at > -size && !s.over(); at -= size {
			drop := make([]bool, len(s.prog))
			for pc := max(at, 0); pc < min(at+size, len(drop)); pc++ {
				drop[pc] = true
			}
			s.tryProgram(remove(s.prog, drop))
		}
	}
}

// decideJumps makes conditional jumps go one way only.
func (s *shrinker) decideJumps() {
	for pc := 0; pc < len(s.prog) && !s.over(); pc++ {
		ins := s.prog[pc]
		if !bpf.IsCondJump(ins.Code) {
			continue
		}
		for _, distance := range []uint8{ins.JT, ins.JF} {
			prog := slices.Clone(s.prog)
			prog[pc] = bpf.Instruction{Code: bpf.Ja, K: uint32(distance)}
			if s.tryProgram(dropDead(prog)) || s.tryProgram(prog) {
				break
			}
		}
	}
}

// cutShort ends the program at each of its instructions.
func (s *shrinker) cutShort() {
	for pc := 0; pc < len(s.prog)-1 && !s.over(); pc++ {
		for _, end := range []bpf.Instruction{{Code: bpf.RetK}, {Code: bpf.RetK, K: 1}, {Code: bpf.RetA}} {
			prog := slices.Clone(s.prog)
			prog[pc] = end
			if s.tryProgram(dropDead(prog)) || s.tryProgram(prog[:pc+1]) {
				break
			}
		}
	}
}

// shortenJumps makes jumps go less far.
func (s *shrinker) shortenJumps() {
	for pc := 0; pc < len(s.prog) && !s.over(); pc++ {
		switch ins := s.prog[pc]; {
		case ins.Code == bpf.Ja:
			for k := range shorter(ins.K) {
				s.replace(pc, bpf.Instruction{Code: bpf.Ja, K: k})
			}
		case bpf.IsCondJump(ins.Code):
			for d := range shorter(ins.JT) {
				ins := s.prog[pc]
				ins.JT = d
				s.replace(pc, ins)
			}
			for d := range shorter(ins.JF) {
				ins := s.prog[pc]
				ins.JF = d
				s.replace(pc, ins)
			}
		}
	}
}

// shorter yields distances below d: 0, a half, three quarters, one less.
func shorter[D uint8 | uint32](d D) func(yield func(D) bool) {
	return func(yield func(D) bool) {
		for _, x := range []D{0, d / 2, d - d/4, d - 1} {
			if x < d && !yield(x) {
				return
			}
		}
	}
}

// renumberCells uses the lowest cells of M[], all at once or one by one.
func (s *shrinker) renumberCells() {
	var lowest [bpf.MemWords]uint32
	used, next := [bpf.MemWords]bool{}, uint32(0)
	for _, ins := range s.prog {
		if usesCell(ins.Code) && !used[ins.K] {
			used[ins.K], lowest[ins.K] = true, next
			next++
		}
	}
	rename := func(to func(k uint32) uint32) bpf.Program {
		prog := slices.Clone(s.prog)
		for pc := range prog {
			if usesCell(prog[pc].Code) {
				prog[pc].K = to(prog[pc].K)
			}
		}
		return prog
	}
	if s.tryProgram(rename(func(k uint32) uint32 { return lowest[k] })) {
		return
	}
	for from := range uint32(bpf.MemWords) {
		for to := range from {
			if s.tryProgram(rename(func(k uint32) uint32 {
				if k == from {
					return to
				}
				return k
			})) {
				break
			}
		}
	}
}

// replace tries the program with another instruction at pc.
func (s *shrinker) replace(pc int, ins bpf.Instruction) bool {
	if s.prog[pc] == ins {
		return false
	}
	prog := slices.Clone(s.prog)
	prog[pc] = ins
	return s.tryProgram(prog)
}

// Without returns prog without the instruction at pc; jumps to it go to the next,
// or to the last. The result need not be one that a checker accepts.
func Without(prog bpf.Program, pc int) bpf.Program {
	drop := make([]bool, len(prog))
	drop[pc] = true
	return remove(prog, drop)
}

// remove returns prog without the instructions in drop. A jump to one of them
// goes to the next that is left, or to the last.
func remove(prog bpf.Program, drop []bool) bpf.Program {
	place := make([]int, len(prog)+1) // where each instruction, or the next one left, comes
	for pc := range prog {
		place[pc+1] = place[pc]
		if !drop[pc] {
			place[pc+1]++
		}
	}
	out := make(bpf.Program, 0, place[len(prog)])
	last := place[len(prog)] - 1
	for pc, ins := range prog {
		if drop[pc] {
			continue
		}
		distance := func(d int) int {
			target := min(pc+1+d, len(prog))
			return max(min(place[target], last)-place[pc]-1, 0)
		}
		switch {
		case ins.Code == bpf.Ja:
			ins.K = uint32(distance(int(ins.K)))
		case bpf.IsCondJump(ins.Code):
			ins.JT, ins.JF = uint8(distance(int(ins.JT))), uint8(distance(int(ins.JF)))
		}
		out = append(out, ins)
	}
	return out
}

// dropDead removes what no path leads to, and jumps to the next instruction.
func dropDead(prog bpf.Program) bpf.Program {
	drop := make([]bool, len(prog))
	for _, pc := range bpf.Flow(prog).Unreachable() {
		drop[pc] = true
	}
	prog = remove(prog, drop)
	drop = drop[:len(prog)]
	for pc, ins := range prog {
		drop[pc] = ins.Code == bpf.Ja && ins.K == 0
	}
	return remove(prog, drop)
}

func isJump(code uint16) bool { return code == bpf.Ja || bpf.IsCondJump(code) }

func usesCell(code uint16) bool {
	switch code {
	case bpf.LdMem, bpf.LdxMem, bpf.St, bpf.Stx:
		return true
	}
	return false
}
