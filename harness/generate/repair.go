package generate

import "github.com/kjit-project/kjit/bpf"

// Repair returns a case whose program is as much like prog, which may be
// anything, as the rules of the generator's Config allow. It has what all JITs
// take and nothing else. The same program always gives the same case.
func (g *Generator) Repair(prog bpf.Program, kind bpf.Kind) *Case {
	g.rng = newRng(g.seed, 0)
	g.out.Index, g.out.Kind, g.out.Shape = 0, kind, Mutated
	g.kind = kind
	g.choice = &g.choices[kind][0]
	g.start(bpf.MaxInsns)
	g.edit = append(g.edit[:0], prog[:min(len(prog), bpf.MaxInsns)]...)
	for i := range g.edit {
		g.edit[i].Code &= 0xff
	}
	g.repair()
	g.out.Program = g.prog
	return &g.out
}
