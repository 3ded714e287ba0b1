package engine

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// reference is the interpreter under the rules and semantics of some targets'
// kernels.
type reference struct {
	rules     bpf.Rules
	semantics kernelabi.Semantics
	machine   bpf.Machine
	rejected  error // *bpf.CheckError
	results   []bpf.Result
	view      kernelabi.SkbView
}

// referenceFor returns the index of the reference for a profile.
func (e *Engine) referenceFor(p *kernelabi.Profile) int {
	for i := range e.references {
		if r := &e.references[i]; r.rules == p.Rules && r.semantics == p.Semantics {
			return i
		}
	}
	e.references = append(e.references, reference{
		rules: p.Rules, semantics: p.Semantics, view: kernelabi.SkbView{Semantics: p.Semantics},
	})
	return len(e.references) - 1
}

// interpret runs the program in all references.
func (e *Engine) interpret(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input) {
next:
	for i := range e.references {
		r := &e.references[i]
		if r.rejected = r.machine.Recompile(prog, kind, r.rules); r.rejected != nil {
			continue
		}
		// Rules differ in what they let pass more than in what it means.
		for j := range e.references[:i] {
			o := &e.references[j]
			if o.rejected == nil && o.semantics == r.semantics && o.machine.Equal(&r.machine) {
				r.results = append(r.results[:0], o.results...)
				continue next
			}
		}
		r.run(inputs)
	}
}

func (r *reference) run(inputs []kernelabi.Input) {
	r.results = r.results[:0]
	for _, in := range inputs {
		r.results = append(r.results, r.machine.Run(r.view.Of(in)))
	}
}

// Results returns the interpreter's results under the rules and semantics of a
// target's kernel, by input, of the last program; nil if its checker refused
// that. They are valid until the next program.
func (e *Engine) Results(target int) []bpf.Result {
	ref := &e.references[e.targets[target].reference]
	if ref.rejected != nil {
		return nil
	}
	return ref.results
}
