// Package mutants measures what campaigns and directed tests find: it hunts every
// emitter that has a fault on purpose, with a generator that does not know which.
//
// A hunt is the default campaign against the kernels that have the emitter which
// the mutant is made of, with the faulty one in its place: the generator is told
// those kernels, never the mutant. The programs of the corpus that show historic
// faults are kept from it.
package mutants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/kernelabi"
)

// Options say whom to hunt and for how long.
type Options struct {
	Only []string // names of mutants; empty: all
	Seed uint64   // of the generator

	// What a hunt may take: programs, DefaultPrograms if 0, and time without
	// that to make its finding smaller, DefaultTime if 0.
	Programs int
	Time     time.Duration

	Jobs int // hunts at a time; 1 if 0

	// Each is called with the result of each mutant as soon as it and those of all
	// before it are known.
	Each func(*Result)
}

// The defaults of [Options].
const (
	DefaultPrograms = 1_000_000
	DefaultTime     = 60 * time.Second
)

// Result is what came of one mutant.
type Result struct {
	Mutant harness.Mutant

	Found    bool
	Programs int           // generated until it was found, or in all
	Pairs    int           // compared likewise
	Time     time.Duration // it took likewise
	Case     uint64        // of the generator, that it was found with

	// If it was found: by which check and where, and the smallest program and
	// input that still show it.
	judge.Signature
	Want, Got harness.Outcome
	Program   bpf.Program
	Input     kernelabi.Input
	Shrinking time.Duration

	// Directed is the first directed test that finds the mutant, "" if none does.
	Directed string
}

// Located says whether a finding was put down to the rule that was replaced.
type Located string

// The values of [Located].
const (
	Right    Located = "yes"
	Wrong    Located = "no"
	NoRule   Located = "-" // the fault is in no rule
	NotFound Located = ""
)

// Located says whether the rule to blame was found.
func (r *Result) Located() Located {
	switch {
	case !r.Found:
		return NotFound
	case len(r.Mutant.Fault.Rules) == 0:
		return NoRule
	case slices.Contains(r.Mutant.Fault.Rules, r.Rule):
		return Right
	}
	return Wrong
}

// InputBytes is the size of the packet that is left, 0 for a system call.
func (r *Result) InputBytes() int {
	if skb, ok := r.Input.(*kernelabi.Skb); ok {
		return len(skb.Packet)
	}
	return 0
}

// Select returns the mutants with the given names, all if there are none, or an
// error that names one that does not exist.
func Select(names ...string) ([]harness.Mutant, error) {
	all := harness.AllMutants()
	if len(names) == 0 {
		return all, nil
	}
	var some []harness.Mutant
	for _, name := range names {
		i := slices.IndexFunc(all, func(m harness.Mutant) bool { return m.Name == name })
		if i < 0 {
			if why, ok := invisible(name); ok {
				return nil, fmt.Errorf("mutant %s: %s", name, why)
			}
			return nil, fmt.Errorf("no mutant %q (kjit mutants --list)", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// Run hunts mutants and returns a result for each, in their order. When ctx ends
// it returns those that are known, with the error of ctx. Another error means
// that a hunt could not go on.
func Run(ctx context.Context, o Options) ([]Result, error) {
	all, err := Select(o.Only...)
	if err != nil {
		return nil, err
	}
	if o.Programs == 0 {
		o.Programs = DefaultPrograms
	}
	if o.Time == 0 {
		o.Time = DefaultTime
	}
	suite, err := newSuite()
	if err != nil {
		return nil, err
	}
	programs, err := seeds()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		lock    sync.Mutex
		wait    sync.WaitGroup
		results = make([]*Result, len(all))
		told    = 0 // of results
		next    = make(chan int)
	)
	for range max(o.Jobs, 1) {
		wait.Go(func() {
			for i := range next {
				r, err := examine(ctx, all[i], &o, programs, suite)
				if err != nil {
					cancel(fmt.Errorf("mutant %s: %w", all[i].Name, err))
					continue
				}
				lock.Lock()
				results[i] = r
				for ; told < len(all) && results[told] != nil; told++ {
					if o.Each != nil {
						o.Each(results[told])
					}
				}
				lock.Unlock()
			}
		})
	}
feed:
	for i := range all {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wait.Wait()
	var known []Result
	for _, r := range results {
		if r != nil {
			known = append(known, *r)
		}
	}
	return known, context.Cause(ctx)
}

// examine hunts a mutant, and runs the directed tests against it.
func examine(ctx context.Context, m harness.Mutant, o *Options, programs []generate.Seed, suite *suite) (r *Result, err error) {
	r = &Result{Mutant: m}
	h, err := newHunt(m, o.Seed, programs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.run(ctx, o, r); err != nil {
		return nil, err
	}
	r.Directed, err = suite.finds(&m)
	return r, err
}

// seeds are the programs of the corpus that say nothing about mutants.
func seeds() ([]generate.Seed, error) {
	programs, err := corpus.Programs()
	out := []generate.Seed{}
	for _, p := range programs {
		if p.Mutant == "" {
			out = append(out, generate.Seed{Program: p.Program, Kind: p.Kind})
		}
	}
	return out, err
}
