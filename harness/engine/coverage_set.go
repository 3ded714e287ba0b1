package engine

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
)

// numEntries is the number of opcodes and ancillary loads.
const numEntries = 256 + bpf.NumExtensions

// dimensions are the lengths of a target's maps: of entries, rules and edges.
var dimensions = [3]int{numEntries, ruleForms, emulator.Edges}

// CoverageMap is coverage as a value, apart from any engine: which entries,
// rules and edges the targets have shown.
type CoverageMap struct {
	targets []targetMap
}

// targetMap has 1 at what a target has shown, in the order of dimensions.
type targetMap struct {
	seen   [3][]byte
	counts [3]int
}

// NewCoverageMap returns that of targets which have shown nothing yet.
func NewCoverageMap(targets int) *CoverageMap {
	m := &CoverageMap{targets: make([]targetMap, targets)}
	for i := range m.targets {
		for d, n := range dimensions {
			m.targets[i].seen[d] = make([]byte, n)
		}
	}
	return m
}

// Clone returns a copy.
func (m *CoverageMap) Clone() *CoverageMap {
	c := &CoverageMap{targets: slices.Clone(m.targets)}
	for i := range c.targets {
		for d, seen := range c.targets[i].seen {
			c.targets[i].seen[d] = slices.Clone(seen)
		}
	}
	return c
}

// Counts returns how many entries, rules and edges a target has shown.
func (m *CoverageMap) Counts(target int) (entries, rules, edges int) {
	c := m.targets[target].counts
	return c[0], c[1], c[2]
}

// Total returns how many features all targets together have shown.
func (m *CoverageMap) Total() (n int) {
	for i := range m.targets {
		for _, count := range m.targets[i].counts {
			n += count
		}
	}
	return n
}

// Add adds features and returns how many of them are new. They must be of as
// many targets.
func (m *CoverageMap) Add(f Features) (fresh int) {
	for i := range f {
		for d, set := range f[i].sets() {
			fresh += m.targets[i].add(d, *set)
		}
	}
	return fresh
}

func (t *targetMap) add(d int, set Numbers) (fresh int) {
	for _, n := range set {
		if at := &t.seen[d][n]; *at == 0 {
			*at = 1
			fresh++
		}
	}
	t.counts[d] += fresh
	return fresh
}

// Missing returns how many of the features the map has not.
func (m *CoverageMap) Missing(f Features) (n int) {
	for i := range f {
		for d, set := range f[i].sets() {
			for _, x := range *set {
				n += 1 - int(m.targets[i].seen[d][x])
			}
		}
	}
	return n
}

// Features returns all that the map has.
func (m *CoverageMap) Features() Features {
	f := make(Features, len(m.targets))
	for i := range m.targets {
		for d, set := range f[i].sets() {
			for n, seen := range m.targets[i].seen[d] {
				if seen != 0 {
					*set = append(*set, uint32(n))
				}
			}
		}
	}
	return f
}

// Since returns what the map has and an earlier one had not.
func (m *CoverageMap) Since(earlier *CoverageMap) Features {
	f := make(Features, len(m.targets))
	for i := range m.targets {
		for d, set := range f[i].sets() {
			*set = difference(m.targets[i].seen[d], earlier.targets[i].seen[d])
		}
	}
	return f
}

// Features are what some program, or some programs, have shown, by target.
type Features []TargetFeatures

// TargetFeatures are those of one target; see [Coverage].
type TargetFeatures struct {
	Entries Numbers `json:"entries,omitzero"`
	Rules   Numbers `json:"rules,omitzero"`
	Edges   Numbers `json:"edges,omitzero"`
}

func (f *TargetFeatures) sets() [3]*Numbers { return [3]*Numbers{&f.Entries, &f.Rules, &f.Edges} }

// Count returns the number of features.
func (f Features) Count() (n int) {
	for i := range f {
		for _, set := range f[i].sets() {
			n += len(*set)
		}
	}
	return n
}

// Validate returns an error unless the features can be those of so many
// targets.
func (f Features) Validate(targets int) error {
	if len(f) != targets {
		return fmt.Errorf("features of %d targets, want %d", len(f), targets)
	}
	for i := range f {
		for d, set := range f[i].sets() {
			for n, x := range *set {
				if int64(x) >= int64(dimensions[d]) || n > 0 && x <= (*set)[n-1] {
					return fmt.Errorf("features of target %d: %d is out of order, or above %d", i, x, dimensions[d]-1)
				}
			}
		}
	}
	return nil
}

// Numbers is a set of numbers, in ascending order. As text it is base64 of the
// differences as varints.
type Numbers []uint32

// IsZero reports whether the set is empty, for JSON.
func (s Numbers) IsZero() bool { return len(s) == 0 }

// MarshalText writes the text form.
func (s Numbers) MarshalText() ([]byte, error) {
	data, last := make([]byte, 0, 2*len(s)), uint32(0)
	for _, n := range s {
		data = binary.AppendUvarint(data, uint64(n-last))
		last = n
	}
	return base64.StdEncoding.AppendEncode(nil, data), nil
}

var errNumbers = errors.New("no set of numbers: want base64 of ascending varints")

// UnmarshalText reads the text form; numbers that do not ascend, or that do not
// fit, are errors.
func (s *Numbers) UnmarshalText(text []byte) error {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return errNumbers
	}
	var out Numbers
	last := uint64(0)
	for len(data) > 0 {
		d, n := binary.Uvarint(data)
		if n <= 0 || d == 0 && len(out) > 0 || d > 1<<32-1 || last+d > 1<<32-1 {
			return errNumbers
		}
		data, last = data[n:], last+d
		out = append(out, uint32(last))
	}
	*s = out
	return nil
}

// Recall makes the engine take for seen what the map has, and nothing else.
// The engine must have been made with Config.Coverage, for as many targets.
func (e *Engine) Recall(m *CoverageMap) error {
	if len(m.targets) != len(e.targets) {
		return fmt.Errorf("coverage of %d targets for an engine of %d", len(m.targets), len(e.targets))
	}
	for i := range e.targets {
		c, from := e.targets[i].cover, &m.targets[i]
		if c == nil {
			return errors.New("the engine does not look at coverage")
		}
		copy(c.entries[:], from.seen[0])
		copy(c.RuleMap, from.seen[1])
		copy(c.EdgeMap, from.seen[2])
		c.Entries, c.Rules = from.counts[0], from.counts[1]
		c.newRules, c.known = c.newRules[:0], e.targets[i].machine.NewEdges()
	}
	return nil
}

// Learn adds what the engine has seen since it was called last, or since Recall,
// to a map, and returns what the map had not.
func (e *Engine) Learn(m *CoverageMap) Features {
	f := make(Features, len(e.targets))
	for i := range e.targets {
		c, machine, to := e.targets[i].cover, e.targets[i].machine, &m.targets[i]
		f[i] = TargetFeatures{
			Entries: difference(c.entries[:], to.seen[0]),
			Rules:   to.lacks(1, c.newRules),
			Edges:   to.lacks(2, machine.EdgesSince(c.known, nil)),
		}
		c.newRules, c.known = c.newRules[:0], machine.NewEdges()
		for d, set := range f[i].sets() {
			to.add(d, *set)
		}
	}
	return f
}

// lacks returns those numbers that are not seen.
func (t *targetMap) lacks(d int, numbers []uint32) (out Numbers) {
	for _, n := range numbers {
		if t.seen[d][n] == 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// difference returns where has is set and had is not. Nearly everywhere they
// are the same.
func difference(has, had []byte) (out Numbers) {
	const step = 64
	for from := 0; from < len(has); from += step {
		to := min(from+step, len(has))
		if string(has[from:to]) == string(had[from:to]) {
			continue
		}
		for n := from; n < to; n++ {
			if has[n] != 0 && had[n] == 0 {
				out = append(out, uint32(n))
			}
		}
	}
	return out
}
