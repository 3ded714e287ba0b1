package mutants

import (
	"context"
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/kernelabi"
)

// Correct are the JITs without any fault, one for each emitter and processor. In
// that of Linux 4.5 for ARM two faults are left.
var Correct = []string{"linux-3.10-x86_64", "inline-x86_64", "kjit-armv5", "kjit-armv7", "kjit-armv7-idiv"}

// Alarms is what came of comparing emitters without a fault.
type Alarms struct {
	Programs, Pairs int
	Found           []Alarm
}

// Alarm is a divergence where there should be none, with how to make it again.
type Alarm struct {
	JIT       string
	Case      uint64
	Input     int // of the case's
	Want, Got harness.Outcome
}

func (a *Alarm) String() string {
	return fmt.Sprintf("%s: case %d, input %d: got %s, want %s", a.JIT, a.Case, a.Input, a.Got.Long(), a.Want.Long())
}

// Clean compares the JITs of Correct with the interpreter, on programs of the
// seed until there are that many pairs. All that diverges is false: of JITs
// without a fault even shifts by X >= 32 do as the interpreter does. step is
// called with the pairs of each program.
func Clean(ctx context.Context, seed uint64, pairs int, step func(pairs int)) (a Alarms, err error) {
	var profiles []*kernelabi.Profile
	ec := engine.Config{Options: []emulator.Option{emulator.WithBudget(budget)}}
	for _, name := range Correct {
		p, err := kernelabi.ProfileByName(name)
		if err != nil {
			return a, err
		}
		t, err := engine.ProfileTarget(p)
		if err != nil {
			return a, err
		}
		profiles, ec.Targets = append(profiles, p), append(ec.Targets, t)
	}
	cfg, err := generate.For(profiles...)
	if err != nil {
		return a, err
	}
	e, err := engine.New(ec)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	for g := generate.New(seed, cfg); a.Pairs < pairs; {
		if err := ctx.Err(); err != nil {
			return a, err
		}
		c := g.Next()
		report, err := e.Check(c.Program, c.Kind, c.Inputs())
		if err != nil {
			return a, fmt.Errorf("case %d of seed %d: %w", c.Index, seed, err)
		}
		a.Programs++
		a.Pairs += report.Pairs
		step(report.Pairs)
		for _, d := range report.Divergences {
			a.Found = append(a.Found, Alarm{Correct[d.Target], c.Index, d.Input, d.Want, d.Got})
		}
	}
	return a, nil
}
