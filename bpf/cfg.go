package bpf

import "slices"

// Graph is the control flow of a program. It takes any program, checked or
// not: jumps may go back, or out of it.
type Graph struct {
	Blocks []Block // in program order; Blocks[0] is the entry

	blockOf []int // by pc
	order   []int // the reachable blocks, each after all that it may lead to, loops aside
	loop    [2]int
	loops   bool
}

// Block is a run of instructions that is entered at its start only and left
// at its end only.
type Block struct {
	Start, End int   // instructions Start to End-1
	Next       []int // the blocks that may follow, taken branch first, each once
	Leaves     bool  // it may jump or run out of the program
	Reachable  bool  // some path from the entry leads here
}

// Targets returns the instructions that may follow the one at pc: none after a
// return, the taken branch first, a target once. K of JA is taken as signed,
// so that what libpcap means by a backward jump is one. Targets outside the
// program are left out; leaves reports that there was one.
func (p Program) Targets(pc int) (targets []int, leaves bool) {
	add := func(target int) {
		switch {
		case target < 0 || target >= len(p):
			leaves = true
		case !slices.Contains(targets, target):
			targets = append(targets, target)
		}
	}
	ins := p[pc]
	switch {
	case IsRet(ins.Code):
	case ins.Code == Ja:
		add(pc + 1 + int(int32(ins.K)))
	case IsCondJump(ins.Code):
		add(pc + 1 + int(ins.JT))
		add(pc + 1 + int(ins.JF))
	default:
		add(pc + 1)
	}
	return targets, leaves
}

// Flow returns the control-flow graph of the program.
func Flow(prog Program) *Graph {
	g := &Graph{blockOf: make([]int, len(prog))}
	starts := leaders(prog)
	for pc := range prog {
		if starts[pc] {
			g.Blocks = append(g.Blocks, Block{Start: pc})
		}
		b := len(g.Blocks) - 1
		g.blockOf[pc] = b
		g.Blocks[b].End = pc + 1
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		var targets []int
		targets, b.Leaves = prog.Targets(b.End - 1)
		for _, pc := range targets {
			b.Next = append(b.Next, g.blockOf[pc])
		}
	}
	if len(g.Blocks) > 0 {
		g.walk()
	}
	return g
}

// leaders marks the instructions at which blocks start.
func leaders(prog Program) []bool {
	starts := make([]bool, len(prog)+1)
	starts[0] = true
	for pc, ins := range prog {
		if ins.Code != Ja && !IsCondJump(ins.Code) && !IsRet(ins.Code) {
			continue
		}
		starts[pc+1] = true
		targets, _ := prog.Targets(pc)
		for _, target := range targets {
			starts[target] = true
		}
	}
	return starts[:len(prog)]
}

// walk goes through the graph depth first: it finds what is reachable, the
// order, and the first loop.
func (g *Graph) walk() {
	type visit struct{ block, next int }
	open := make([]bool, len(g.Blocks)) // on the path that is being followed
	g.Blocks[0].Reachable, open[0] = true, true
	for path := []visit{{}}; len(path) > 0; {
		at := &path[len(path)-1]
		b := &g.Blocks[at.block]
		if at.next == len(b.Next) {
			open[at.block] = false
			g.order = append(g.order, at.block)
			path = path[:len(path)-1]
			continue
		}
		next := b.Next[at.next]
		at.next++
		switch {
		case open[next]:
			if !g.loops {
				g.loops, g.loop = true, [2]int{b.End - 1, g.Blocks[next].Start}
			}
		case !g.Blocks[next].Reachable:
			g.Blocks[next].Reachable, open[next] = true, true
			path = append(path, visit{block: next})
		}
	}
}

// BlockOf returns the index of the block that holds the instruction at pc.
func (g *Graph) BlockOf(pc int) int { return g.blockOf[pc] }

// Reachable reports whether some path from the entry leads to pc. What the
// comparisons on the way demand is not looked at.
func (g *Graph) Reachable(pc int) bool { return g.Blocks[g.blockOf[pc]].Reachable }

// Unreachable lists the instructions that no path leads to.
func (g *Graph) Unreachable() []int {
	var pcs []int
	for pc := range g.blockOf {
		if !g.Reachable(pc) {
			pcs = append(pcs, pc)
		}
	}
	return pcs
}

// Loop returns a jump that closes a loop: the instruction at from can be
// reached, and jumps to one that leads to it. ok is false if there is none.
func (g *Graph) Loop() (from, to int, ok bool) { return g.loop[0], g.loop[1], g.loops }

// LongestPath returns the most instructions that any path through the program
// has; ok is false if a loop makes that unbounded.
func (g *Graph) LongestPath() (insns int, ok bool) {
	if g.loops {
		return 0, false
	}
	longest := make([]int, len(g.Blocks)) // from the block's start on
	for _, i := range g.order {
		b := &g.Blocks[i]
		for _, next := range b.Next {
			longest[i] = max(longest[i], longest[next])
		}
		longest[i] += b.End - b.Start
	}
	if len(longest) == 0 {
		return 0, true
	}
	return longest[0], true
}
