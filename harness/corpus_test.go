package harness

import (
	"context"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/kernelabi"
)

// corpusInputs are the corpus's packets, whole and in fragments that end inside
// words.
func corpusInputs(t *testing.T) []kernelabi.Input {
	t.Helper()
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for _, p := range packets {
		inputs = append(inputs, p.Skb, p.Skb.Split(13, 1, 7, 30), p.Skb.Split(0))
	}
	return inputs
}

func jits(t *testing.T, profiles ...string) []Runner {
	t.Helper()
	var runners []Runner
	for _, name := range profiles {
		p, err := kernelabi.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewJIT(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		runners = append(runners, r)
	}
	return runners
}

// The correct emitters agree with the reference on everything in the corpus,
// the class that Linux left undefined included: they shift as today's Linux.
func TestCorpus(t *testing.T) {
	runners := jits(t, "linux-3.10-x86_64", "inline-x86_64", "kjit-armv5", "kjit-armv7", "kjit-armv7-idiv")
	inputs := corpusInputs(t)
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	ran := make([]int, len(runners))
	for _, p := range programs {
		if p.Kind != KindOf(inputs[0]) {
			continue
		}
		replay := Replay{Program: p.Program, Kind: p.Kind, Runners: runners}
		tallies, err := replay.Run(context.Background(), inputs)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		for i, tally := range tallies {
			ran[i] += tally.Agree
			if tally.Diverge+tally.Undefined > 0 {
				t.Errorf("%s on %s: %+v", p.Name, tally.Runner, tally)
			}
		}
	}
	for i, r := range runners {
		if ran[i] < 50*len(inputs) {
			t.Errorf("%s ran only %d times", r.Name(), ran[i])
		}
	}
}

// helperFaults are faults of the load helpers, not of an emitter.
var helperFaults = map[string]bool{"x86-neg-size-reg": true}

// Every fault that Linux 3.0 shipped shows on some packet of the corpus.
func TestFaultsShow(t *testing.T) {
	runners := jits(t, "linux-3.0-x86_64")
	inputs := corpusInputs(t)
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if !strings.HasPrefix(p.Mutant, "x86-") || helperFaults[p.Mutant] {
			continue
		}
		replay := Replay{Program: p.Program, Kind: p.Kind, Runners: runners}
		tallies, err := replay.Run(context.Background(), inputs)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		// A program that the fault keeps from being compiled at all shows it too.
		fatal := tallies[0].NotRun > 0 && strings.Contains(tallies[0].Why, "fatal error")
		if tallies[0].Diverge == 0 && !fatal {
			t.Errorf("%s: %s does not show: %+v", p.Name, p.Mutant, tallies[0])
		}
	}
}
