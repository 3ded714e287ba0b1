// Package generate makes programs that JITs may get wrong, and for any program
// the inputs that show it.
//
// A [Generator] gives one [Case] after another: a program that every checker
// in its [Config] accepts, and the inputs that a [Solver] finds for it. Case i
// depends on the seed and i alone, so that a range of cases can be shared out
// and any case be made again.
//
// The random programs take their constants, offsets and jump distances from
// where encodings change; see constant.go and shape.go. The solver executes a
// program with a record of where every value came from, and inverts the
// operations between a load and a comparison to get to the other side of it.
//
// Nothing is allocated for a case once the buffers have grown: what a case
// holds is overwritten by the next one.
package generate

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Case is a program and, on request, inputs for it. It belongs to its
// Generator and is valid until that makes the next one.
type Case struct {
	Seed    uint64
	Index   uint64
	Kind    bpf.Kind
	Program bpf.Program
	Shape   Shape // how the program was made

	solver *Solver
}

// Inputs returns the inputs for the program: at least 1, at most Config.Inputs.
// They are *kernelabi.Skb for socket filters and *kernelabi.Syscall for seccomp
// filters, and valid until the generator makes the next case.
func (c *Case) Inputs() []kernelabi.Input {
	return c.solver.solve(c.Program, c.Kind, mix(c.Seed, ^c.Index))
}

// Coverage tells which branch sides the inputs reach; Inputs must have been
// called before.
func (c *Case) Coverage() Coverage { return c.solver.Coverage() }

// Generator makes cases. It serves one goroutine.
type Generator struct {
	seed uint64
	next uint64
	cfg  Config
	out  Case
	rng  rng
	maker
}

// New returns the generator of the cases of a seed.
func New(seed uint64, cfg Config) *Generator {
	g := &Generator{seed: seed, cfg: cfg.complete()}
	g.out = Case{Seed: seed, solver: NewSolver(g.cfg)}
	g.maker.cfg, g.maker.rng = &g.cfg, &g.rng
	g.maker.init()
	return g
}

// Next returns case 0, 1, 2, ..., or the one behind that which At returned.
func (g *Generator) Next() *Case { return g.At(g.next) }

// At returns case i.
func (g *Generator) At(i uint64) *Case {
	g.next = i + 1
	g.rng = newRng(g.seed, i)
	g.out.Index = i
	g.out.Kind, g.out.Shape = g.make()
	g.out.Program = g.prog
	return &g.out
}
