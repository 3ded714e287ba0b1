package bpf_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

func TestFlow(t *testing.T) {
	type block = bpf.Block
	type loop struct{ from, to int }
	for _, test := range []struct {
		desc        string
		prog        bpf.Program
		blocks      []block
		unreachable []int
		loop        *loop
		longest     int // only without a loop
	}{
		{
			desc: "an empty program has no blocks",
		},
		{
			desc:    "straight code is one block",
			prog:    bpf.Program{ldLen, tax, retA},
			blocks:  []block{{0, 3, nil, false, true}},
			longest: 3,
		},
		{
			desc: "a branch ends a block and starts two",
			prog: bpf.Program{ldLen, jmp(bpf.JeqK, 0, 1, 0), tax, retA, ret},
			blocks: []block{
				{0, 2, []int{2, 1}, false, true}, {2, 3, []int{2}, false, true},
				{3, 4, nil, false, true}, {4, 5, nil, false, false},
			},
			unreachable: []int{4},
			longest:     4,
		},
		{
			desc: "a branch with two equal targets has one successor",
			prog: bpf.Program{jmp(bpf.JgtX, 0, 1, 1), ldLen, ret},
			blocks: []block{
				{0, 1, []int{2}, false, true}, {1, 2, []int{2}, false, false}, {2, 3, nil, false, true},
			},
			unreachable: []int{1},
			longest:     2,
		},
		{
			desc: "what is jumped over and what stands behind a return is unreachable",
			prog: bpf.Program{op(bpf.Ja, 1), ldLen, ret, tax, ret},
			blocks: []block{
				{0, 1, []int{2}, false, true}, {1, 2, []int{2}, false, false},
				{2, 3, nil, false, true}, {3, 5, nil, false, false},
			},
			unreachable: []int{1, 3, 4},
			longest:     2,
		},
		{
			desc: "a jump back closes a loop",
			prog: bpf.Program{ldLen, jmp(bpf.JeqK, 6, 2, 0), tax, op(bpf.Ja, 0xfffffffc), ret},
			blocks: []block{
				{0, 2, []int{2, 1}, false, true}, {2, 4, []int{0}, false, true}, {4, 5, nil, false, true},
			},
			loop: &loop{3, 0},
		},
		{
			desc:   "a jump to itself is a loop",
			prog:   bpf.Program{op(bpf.Ja, 0xffffffff)},
			blocks: []block{{0, 1, []int{0}, false, true}},
			loop:   &loop{0, 0},
		},
		{
			desc: "a jump back is no loop if nothing leads forth again",
			prog: bpf.Program{op(bpf.Ja, 1), ret, op(bpf.Ja, 0xfffffffe)},
			blocks: []block{
				{0, 1, []int{2}, false, true}, {1, 2, nil, false, true}, {2, 3, []int{1}, false, true},
			},
			longest: 3,
		},
		{
			desc: "a loop that nothing enters is none",
			prog: bpf.Program{ret, op(bpf.Ja, 0xffffffff)},
			blocks: []block{
				{0, 1, nil, false, true}, {1, 2, []int{1}, false, false},
			},
			unreachable: []int{1},
			longest:     1,
		},
		{
			desc: "code may run out of the program, or jump",
			prog: bpf.Program{jmp(bpf.JeqK, 0, 200, 0), ldLen},
			blocks: []block{
				{0, 1, []int{1}, true, true}, {1, 2, nil, true, true},
			},
			longest: 2,
		},
	} {
		t.Run(test.desc, func(t *testing.T) {
			g := bpf.Flow(test.prog)
			if diff := cmp.Diff(test.blocks, g.Blocks); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.unreachable, g.Unreachable()); diff != "" {
				t.Errorf("unreachable (-want +got):\n%s", diff)
			}
			from, to, loops := g.Loop()
			if loops != (test.loop != nil) || loops && *test.loop != (loop{from, to}) {
				t.Errorf("loop %v from %d to %d, want %v", loops, from, to, test.loop)
			}
			if insns, ok := g.LongestPath(); ok == loops || ok && insns != test.longest {
				t.Errorf("longest path %d, %v; want %d", insns, ok, test.longest)
			}
			for pc := range test.prog {
				if b := g.Blocks[g.BlockOf(pc)]; pc < b.Start || pc >= b.End {
					t.Errorf("instruction %d is not in its block %v", pc, b)
				}
			}
		})
	}
}

// TestLongestPathOfDiamonds takes a program with 2^1365 paths.
func TestLongestPathOfDiamonds(t *testing.T) {
	var prog bpf.Program
	for len(prog)+3 < bpf.MaxInsns {
		prog = append(prog, jmp(bpf.JeqK, 0, 1, 0), tax, txa)
	}
	prog = append(prog, ret)
	if insns, ok := bpf.Flow(prog).LongestPath(); !ok || insns != len(prog) {
		t.Errorf("longest path %d, %v; want %d", insns, ok, len(prog))
	}
}
