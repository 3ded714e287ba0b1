package jitarm

import "github.com/kjit-project/kjit/bpf"

// held is what the register of X holds in front of an instruction, along all ways
// through the program that lead there.
type held struct {
	reached bool
	unset   bool   // on some way nothing was written to it
	varies  bool   // it is not the constant k on all ways
	k       uint32 // 0 at the beginning, where X is 0
}

// join adds what it holds on another way.
func (h *held) join(o held) {
	if !h.reached {
		*h = o
		return
	}
	h.unset = h.unset || o.unset
	h.varies = h.varies || o.varies || h.k != o.k
}

// startFlow is for the first pass, which follows the program from there on. Jumps
// only go forward: when it comes to an instruction, it has seen all ways to it.
func (c *Compiler) startFlow() {
	if n := len(c.Prog); cap(c.held) < n {
		c.held = make([]held, n)
	}
	c.held = c.held[:len(c.Prog)]
	clear(c.held)
	c.held[0] = held{reached: true, unset: true}
}

// follow takes what the register holds behind an instruction to where the program
// goes on.
func (c *Compiler) follow(in bpf.Instruction) {
	h := c.held[c.PC]
	if !h.reached {
		return
	}
	if in.Writes()&bpf.RegX != 0 {
		h = held{reached: true, varies: in.Code != bpf.LdxImm, k: in.K}
	}
	next := c.PC + 1
	switch {
	case in.Class() == bpf.ClassRet:
	case in.Code == bpf.Ja:
		c.held[next+int(in.K)].join(h)
	case bpf.IsCondJump(in.Code):
		c.held[next+int(in.JT)].join(h)
		c.held[next+int(in.JF)].join(h)
	default:
		c.held[next].join(h)
	}
}

// readXByFlow notes a read of X as one that needs the register cleared, if on
// some way nothing was written to it.
func readXByFlow(c *Compiler) {
	if c.held[c.PC].unset {
		c.need(seenX | seenReadX)
	}
}

// constantX returns X if it is the same whenever the instruction runs.
func (c *Compiler) constantX() (k uint32, ok bool) {
	h := &c.held[c.PC]
	return h.k, h.reached && !h.varies
}
