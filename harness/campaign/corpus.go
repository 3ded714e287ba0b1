package campaign

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/generate"
)

// Minimum is what [Folder.Minimise] came to.
type Minimum struct {
	Programs, Kept int
	Insns, Left    int // instructions of the programs, and of those that were kept
	Features       int // that both cover
}

// Minimise takes programs out of a folder's working corpus that others make
// superfluous: what is left covers the same. Ranges of the open epoch still
// start from the corpus as it was. The coverage of the campaign stays. The state
// is what Load returned; step, if not nil, is called for every program that was
// run.
func (f *Folder) Minimise(ctx context.Context, cfg *Config, s *State, step func()) (*Minimum, error) {
	all := s.Corpus()
	features, err := cfg.measure(ctx, all, step)
	if err != nil {
		return nil, err
	}
	kept := smallestCover(all, features)
	m := &Minimum{Programs: len(all), Kept: len(kept)}
	var drop []uint64
	covered := engine.NewCoverageMap(len(cfg.Targets))
	for i := range all {
		m.Insns += len(all[i].Program)
		m.Features += covered.Add(features[i])
		if slices.Contains(kept, i) {
			m.Left += len(all[i].Program)
		} else {
			drop = append(drop, all[i].hash())
		}
	}
	if len(drop) == 0 {
		return m, nil
	}
	return m, f.drop(s, drop)
}

// measure returns what each program covers by itself, on the inputs that a
// solver finds for it.
func (c *Config) measure(ctx context.Context, corpus []Entry, step func()) ([]engine.Features, error) {
	w, err := c.NewWorker()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	nothing := engine.NewCoverageMap(len(c.Targets))
	solver := generate.NewSolver(c.programs)
	var out []engine.Features
	for i := range corpus {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := &corpus[i]
		if err := w.engine.Recall(nothing); err != nil {
			return nil, err
		}
		if _, err := w.engine.Check(e.Program, e.Kind, solver.Solve(e.Program, e.Kind, e.Case)); err != nil {
			return nil, fmt.Errorf("corpus program of case %d: %w", e.Case, err)
		}
		out = append(out, w.engine.Learn(nothing.Clone()))
		if step != nil {
			step()
		}
	}
	return out, nil
}

// smallestCover returns the indices of programs that cover all that all do, in
// order: again and again the one that adds the most, and of those the shortest.
// That is not always the smallest set, but never much larger.
func smallestCover(all []Entry, features []engine.Features) (kept []int) {
	if len(all) == 0 {
		return nil
	}
	covered := engine.NewCoverageMap(len(features[0]))
	// What a program adds only gets less: it is counted again when it is first.
	type candidate struct{ i, adds int }
	queue := make([]candidate, len(all))
	for i := range all {
		queue[i] = candidate{i, features[i].Count()}
	}
	order := func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.adds, b.adds), cmp.Compare(len(all[a.i].Program), len(all[b.i].Program)), cmp.Compare(a.i, b.i))
	}
	slices.SortFunc(queue, order)
	for len(queue) > 0 && queue[0].adds > 0 {
		first := queue[0]
		queue = queue[1:]
		first.adds = covered.Missing(features[first.i])
		if len(queue) > 0 && order(first, queue[0]) > 0 {
			at, _ := slices.BinarySearchFunc(queue, first, order)
			queue = slices.Insert(queue, at, first)
			continue
		}
		if first.adds > 0 {
			covered.Add(features[first.i])
			kept = append(kept, first.i)
		}
	}
	slices.Sort(kept)
	return kept
}
