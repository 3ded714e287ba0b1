package policy

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// node is an instruction with its successors in place of offsets. Layouts build
// a directed acyclic graph of nodes; the assembler gives them places.
type node struct {
	code    uint16
	k       uint32
	yes, no *node // yes is the only successor of loads and arithmetic
	near    bool  // yes should follow directly, not no
	rule    int   // that it tests or answers for; none if there is none or more than one
}

const none = -1

// nodeKey is what makes nodes interchangeable: all but their rules.
type nodeKey struct {
	code    uint16
	k       uint32
	yes, no *node
	near    bool
}

// graph makes nodes, one for any number of uses that are the same.
type graph struct{ nodes map[nodeKey]*node }

func newGraph() *graph { return &graph{map[nodeKey]*node{}} }

func (g *graph) node(n node) *node {
	key := nodeKey{n.code, n.k, n.yes, n.no, n.near}
	have, ok := g.nodes[key]
	if !ok {
		have = &n
		g.nodes[key] = have
	} else if have.rule != n.rule {
		have.rule = none
	}
	return have
}

func (g *graph) ret(value uint32, rule int) *node {
	return g.node(node{code: bpf.RetK, k: value, rule: rule})
}

func (g *graph) load(off uint32, then *node, rule int) *node {
	return g.node(node{code: bpf.LdWAbs, k: off, yes: then, rule: rule})
}

// branch compares A with k. The successor that follows directly costs nothing
// to reach, however long the program is: no, unless near says yes.
func (g *graph) branch(code uint16, k uint32, yes, no *node, near bool, rule int) *node {
	if yes == no {
		return yes
	}
	return g.node(node{code, k, yes, no, near, rule})
}

// number is the node that loads the number of the call.
func (g *graph) number(then *node) *node { return g.load(seccompdata.OffNr, then, none) }
