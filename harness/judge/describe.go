package judge

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// Describe makes a divergence of outcomes that are known to diverge, without
// running anything again. place is where they part, nil if nobody knows.
func Describe(r harness.Runner, prog bpf.Program, input kernelabi.Input, want, got harness.Outcome, place *harness.Place) *Divergence {
	j := &Judge{options: Options{Refuses: fatal}, runner: r, want: []harness.Outcome{want}, got: []harness.Outcome{got}}
	kind := harness.KindOf(input)
	d := &Divergence{
		Signature: Signature{Runner: r.Name(), Kind: j.KindOf(want, got)}, Program: prog, ProgramKind: kind,
		Input: input, Want: want, Got: got, Place: place,
	}
	switch {
	case d.Kind == Refusal || d.Kind == Rejected || d.Kind == Failed:
		d.Rule, d.Place = j.reason(prog, kind), nil
	case place == nil:
		d.Rule = unknownRule
	default:
		d.Rule = RuleAt(place)
	}
	return d
}
