// Package graph draws the control flow of programs: as SVG that stands alone,
// and as DOT for other tools. Blocks stand in the order of the program, jumps
// run beside them in lanes, one for each target, so that even a filter of a
// thousand comparisons stays readable.
package graph

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// Graph is a program as it is drawn.
type Graph struct {
	Title  string
	Blocks []Block
	Edges  []Edge
	Runs   int    // inputs that were counted; 0: there are no counts
	Native string // whose machine code stands beside the blocks; "" for none

	// Entry and Rest are the machine code in front of the first instruction and
	// behind the last one, which belong to no block.
	Entry, Rest []string
}

// Block is a run of instructions without a jump into or out of its middle.
type Block struct {
	Start     int      // pc of the first instruction
	Lines     []string // its instructions, as tcpdump -d prints them
	Native    []string // its machine code
	Count     uint64   // how often it was executed
	Reachable bool
}

// Edge is a way from the end of a block to the start of another.
type Edge struct {
	From, To int // indices of blocks
	Kind     EdgeKind
	Count    uint64
}

// EdgeKind says why control goes that way.
type EdgeKind uint8

const (
	Next  EdgeKind = iota // no jump: the next instruction follows
	True                  // jt
	False                 // jf
	Jump                  // ja, or jt and jf to the same place
)

var edgeNames = [...]string{"next", "true", "false", "jump"}

func (k EdgeKind) String() string { return edgeNames[k] }

// New returns the graph of a program without counts and machine code.
func New(title string, prog bpf.Program) *Graph {
	flow := bpf.Flow(prog)
	g := &Graph{Title: title}
	starts := map[int]int{} // by pc
	for i, b := range flow.Blocks {
		starts[b.Start] = i
		block := Block{Start: b.Start, Reachable: b.Reachable}
		for pc := b.Start; pc < b.End; pc++ {
			block.Lines = append(block.Lines, strings.TrimRight(bpftext.FormatInstruction(pc, prog[pc]), "\n"))
		}
		g.Blocks = append(g.Blocks, block)
	}
	for i, b := range flow.Blocks {
		for _, e := range edges(prog, b.End-1) {
			// Targets outside the program are nowhere to be drawn.
			if to, ok := starts[e.to]; ok {
				g.Edges = append(g.Edges, Edge{From: i, To: to, Kind: e.kind})
			}
		}
	}
	return g
}

type edge struct {
	to   int // pc
	kind EdgeKind
}

// edges are the ways on from an instruction.
func edges(prog bpf.Program, pc int) []edge {
	in := prog[pc]
	jt, jf := pc+1+int(in.JT), pc+1+int(in.JF)
	switch {
	case bpf.IsRet(in.Code):
		return nil
	case in.Code == bpf.Ja:
		return []edge{{pc + 1 + int(int32(in.K)), Jump}}
	case bpf.IsCondJump(in.Code) && jt == jf:
		return []edge{{jt, Jump}}
	case bpf.IsCondJump(in.Code):
		return []edge{{jt, True}, {jf, False}}
	}
	return []edge{{pc + 1, Next}}
}

// Count executes the program on the inputs and counts blocks and edges. The
// machine must be of the program that the graph is of.
func (g *Graph) Count(m *bpf.Machine, inputs []kernelabi.Input, sem kernelabi.Semantics) {
	at := map[int]int{} // block by the pc it starts at
	for i, b := range g.Blocks {
		at[b.Start] = i
	}
	type way struct{ from, to int }
	byWay := map[way]int{}
	for i, e := range g.Edges {
		byWay[way{e.From, e.To}] = i
	}
	for _, in := range inputs {
		last := -1
		m.Trace(in.Under(sem), func(s bpf.State) {
			block, ok := at[s.PC]
			if !ok {
				return
			}
			g.Blocks[block].Count++
			if i, ok := byWay[way{last, block}]; ok {
				g.Edges[i].Count++
			}
			last = block
		})
		g.Runs++
	}
}

// AddNative puts the machine code of the image, which jit made, beside the
// blocks. An image without a map of instructions has none that belongs to a
// block.
func (g *Graph) AddNative(jit string, img *kernelabi.Image) error {
	if len(img.PCMap) == 0 {
		return fmt.Errorf("%s: nobody knows which code belongs to which instruction of this image", jit)
	}
	blockOf := make([]int, len(img.PCMap)) // by pc
	for i, b := range g.Blocks {
		for j := range b.Lines {
			blockOf[b.Start+j] = i
		}
	}
	g.Native = jit
	for _, n := range listing.Disassemble(img) {
		lines := &g.Rest
		if pc := img.PCAt(n.Offset); pc >= 0 {
			lines = &g.Blocks[blockOf[pc]].Native
		} else if n.Offset < img.PCMap[0] {
			lines = &g.Entry
		}
		*lines = append(*lines, fmt.Sprintf("%4x: %s", n.Offset, n.Text))
	}
	return nil
}

// Heat is how often the block was executed, from 0 to 1, of all runs.
func (g *Graph) Heat(b *Block) float64 {
	if g.Runs == 0 {
		return 0
	}
	return min(1, float64(b.Count)/float64(g.Runs))
}
