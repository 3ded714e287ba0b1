package campaign

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/judge"
)

// MaxSignatures is how many different findings a campaign keeps. What comes
// behind them is counted.
const MaxSignatures = 1000

// MaxCorpus is how many programs the working corpus has at most, those aside
// that show a new emission rule.
const MaxCorpus = 10_000

// Frozen is what all ranges of an epoch start from. Nobody changes it.
type Frozen struct {
	Epoch    uint64
	Coverage *engine.CoverageMap
	Corpus   []Entry // the working corpus, without features
}

// Totals are the sums of a campaign's results so far.
type Totals struct {
	Ranges   uint64  `json:"ranges"`
	Programs uint64  `json:"programs"`
	Insns    uint64  `json:"insns"`
	Inputs   uint64  `json:"inputs"`
	Pairs    uint64  `json:"pairs"`
	Targets  []Tally `json:"targets"`

	Opcodes engine.Numbers `json:"opcodes,omitzero"` // see Result
	Values  []ValueCount   `json:"values,omitempty"` // the commonest; their counts may lack a few

	More uint64 `json:"more_signatures,omitempty"` // findings beyond MaxSignatures
}

// Same is the part of the runs that ended with the value that most ended with.
func (t *Totals) Same() float64 {
	if len(t.Values) == 0 || t.Inputs == 0 {
		return 0
	}
	return float64(t.Values[0].Count) / float64(t.Inputs)
}

// State is all that a campaign knows: the sum of the results of ranges 0 to, but
// without, Next. It depends on nothing else.
type State struct {
	settings *Settings
	Totals
	Next     uint64 // the range that is to be merged next
	findings map[judge.Signature]*Finding
	order    []*Finding

	coverage *engine.CoverageMap
	corpus   []Entry
	dropped  map[uint64]bool // hashes of programs that leave the corpus when the epoch ends
	frozen   *Frozen
	history  []Point
}

// NewState returns the state that a campaign starts with.
func NewState(s *Settings) *State {
	st := &State{settings: s, findings: map[judge.Signature]*Finding{}, dropped: map[uint64]bool{},
		coverage: engine.NewCoverageMap(len(s.JITs))}
	st.Targets = make([]Tally, len(s.JITs))
	st.freeze()
	return st
}

// Frozen returns what the ranges of the open epoch, to which Next belongs, start
// from.
func (s *State) Frozen() *Frozen { return s.frozen }

// Coverage returns how many entries, rules and edges a target has shown.
func (s *State) Coverage(target int) (entries, rules, edges int) { return s.coverage.Counts(target) }

// Covered returns how many entries, rules and edges all targets have shown.
func (s *State) Covered() int { return s.coverage.Total() }

// Findings returns the findings, one of each signature, in the order in which
// they came. They are not to be changed.
func (s *State) Findings() []*Finding { return slices.Clip(s.order) }

// Corpus returns the working corpus, with what the open epoch has added.
func (s *State) Corpus() []Entry {
	if len(s.dropped) == 0 { // as nearly always: no program needs a hash
		return slices.Clone(s.corpus)
	}
	return slices.DeleteFunc(slices.Clone(s.corpus), func(e Entry) bool { return s.dropped[e.hash()] })
}

// hash identifies an entry's program.
func (e *Entry) hash() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d", e.Kind)
	for _, ins := range e.Program {
		h.Write([]byte{byte(ins.Code), ins.JT, ins.JF, byte(ins.K), byte(ins.K >> 8), byte(ins.K >> 16), byte(ins.K >> 24)})
	}
	return h.Sum64()
}

// newRule reports whether a program showed more than edges.
func (e *Entry) newRule() bool {
	return slices.ContainsFunc(e.Features, func(f engine.TargetFeatures) bool { return len(f.Entries)+len(f.Rules) > 0 })
}

// freeze starts an epoch.
func (s *State) freeze() {
	s.corpus = s.Corpus()
	clear(s.dropped)
	s.frozen = &Frozen{Epoch: EpochOf(s.Next), Coverage: s.coverage.Clone(), Corpus: slices.Clip(s.corpus)}
}

// drop takes programs out of the corpus: at the end of the epoch, whose other
// ranges start from it, or at once if none is merged yet.
func (s *State) drop(hashes []uint64) {
	for _, h := range hashes {
		s.dropped[h] = true
	}
	if first, _ := EpochRanges(s.frozen.Epoch); s.Next == first {
		s.freeze()
	}
}

// Merge adds the result of a range, which must be valid. A range that is merged
// already changes nothing, one that is not yet to come is an error. New findings
// are returned.
func (s *State) Merge(r *Result) (fresh []*Finding, err error) {
	if r.Range < s.Next {
		return nil, nil
	}
	if r.Range > s.Next {
		return nil, fmt.Errorf("range %d cannot be merged before range %d", r.Range, s.Next)
	}
	s.Next++
	s.add(r)
	for i := range r.Corpus {
		// Other ranges of the epoch may have shown the same.
		if e := r.Corpus[i]; s.coverage.Add(e.Features) > 0 {
			if len(s.corpus) < MaxCorpus || e.newRule() {
				e.Features = nil
				s.corpus = append(s.corpus, e)
			}
		}
	}
	s.coverage.Add(r.Coverage)
	for i := range r.Findings {
		f := r.Findings[i]
		sig := f.Signature()
		switch known := s.findings[sig]; {
		case known != nil:
			known.Count += f.Count
		case len(s.findings) >= MaxSignatures:
			s.More += f.Count
		default:
			s.findings[sig] = &f
			s.order = append(s.order, &f)
			fresh = append(fresh, &f)
		}
	}
	if _, end := EpochRanges(s.frozen.Epoch); s.Next == end {
		s.note()
		s.freeze()
	}
	return fresh, nil
}

// add adds the counts of a range.
func (t *Totals) add(r *Result) {
	t.Ranges++
	t.Programs += r.Programs
	t.Insns += r.Insns
	t.Inputs += r.Inputs
	t.Pairs += r.Pairs
	for i := range r.Targets {
		t.Targets[i].add(&r.Targets[i])
	}
	t.Opcodes = append(slices.Clone(t.Opcodes), r.Opcodes...)
	slices.Sort(t.Opcodes)
	t.Opcodes = slices.Compact(t.Opcodes)
	all := slices.Clone(t.Values)
	for _, v := range r.Values {
		if i := slices.IndexFunc(all, func(o ValueCount) bool { return o.Value == v.Value }); i >= 0 {
			all[i].Count += v.Count
		} else {
			all = append(all, v)
		}
	}
	t.Values = mostValues(all, 4*maxValues)
}

// stateText is a State between epochs as a file holds it.
type stateText struct {
	Settings Settings `json:"settings"`
	Next     uint64   `json:"next"`
	Totals
	Coverage engine.Features `json:"coverage"`
	Findings []*Finding      `json:"findings,omitempty"`
	Corpus   []Entry         `json:"corpus,omitempty"`
	History  []Point         `json:"history,omitempty"`
}

// MarshalJSON writes a state between epochs; others are errors.
func (s *State) MarshalJSON() ([]byte, error) {
	if first, _ := EpochRanges(s.frozen.Epoch); s.Next != first {
		return nil, fmt.Errorf("range %d is in the middle of an epoch", s.Next)
	}
	return json.Marshal(stateText{*s.settings, s.Next, s.Totals, s.coverage.Features(), s.order, s.corpus, s.history})
}

// ParseState reads what MarshalJSON wrote, in a campaign of those settings.
func ParseState(data []byte, c *Settings) (*State, error) {
	var text stateText
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, err
	}
	if err := text.Settings.Differs(c); err != nil {
		return nil, err
	}
	s := NewState(c)
	first, _ := EpochRanges(EpochOf(text.Next))
	switch {
	case text.Next != first:
		return nil, fmt.Errorf("range %d is in the middle of an epoch", text.Next)
	case len(text.Targets) != len(c.JITs):
		return nil, fmt.Errorf("%d targets, want %d", len(text.Targets), len(c.JITs))
	}
	if err := text.Coverage.Validate(len(c.JITs)); err != nil {
		return nil, err
	}
	s.Next, s.Totals, s.corpus, s.order = text.Next, text.Totals, text.Corpus, text.Findings
	s.coverage.Add(text.Coverage)
	for i, p := range text.History {
		if len(p.Targets) != len(c.JITs) || len(text.History) > maxHistory {
			return nil, fmt.Errorf("point %d of the history is none", i)
		}
	}
	s.history = text.History
	for i, e := range s.corpus {
		if len(e.Program) == 0 || len(e.Program) > bpf.MaxInsns || e.Kind > bpf.Seccomp {
			return nil, fmt.Errorf("corpus %d is no program", i)
		}
	}
	for _, f := range s.order {
		if f == nil || checkInput(f.Kind, f.Input) != nil {
			return nil, fmt.Errorf("a finding without input")
		}
		s.findings[f.Signature()] = f
	}
	s.freeze()
	return s, nil
}

// Differs returns a *SettingsError that names the first thing in which s, those
// of a campaign that is there, are not those that are wanted.
func (s *Settings) Differs(want *Settings) error {
	for _, d := range []struct {
		what      string
		has, want any
	}{
		{"format", s.Format, want.Format}, {"kjit version", s.Version, want.Version}, {"--seed", s.Seed, want.Seed},
		{"--jit", fmt.Sprint(s.JITs), fmt.Sprint(want.JITs)}, {"--profile", s.Profile, want.Profile}, {"--kind", s.Kind, want.Kind}, {"--inputs", s.Inputs, want.Inputs},
		{"--range", s.Size, want.Size},
	} {
		if d.has != d.want {
			return &SettingsError{d.what, fmt.Sprint(d.has), fmt.Sprint(d.want)}
		}
	}
	return nil
}

// SettingsError is a campaign that is another one than what is wanted.
type SettingsError struct{ What, Has, Want string }

func (e *SettingsError) Error() string {
	return fmt.Sprintf("the campaign that is there has %s %q, and now it is %q", e.What, e.Has, e.Want)
}
