// Package campaign looks for faults in JITs for hours or days, on as many
// processors as there are, and comes to the same answer however the work was
// shared out or interrupted.
//
// Work is ranges of cases: range r is cases r*Size to (r+1)*Size of the
// generator. Ranges are grouped into epochs, and all ranges of an epoch start
// from what was known at the end of the epoch before, a [Frozen]: the working
// corpus, that programs are mutated from, and the coverage that is not new any
// more. So what comes of a range, a [Result], depends on the [Settings], the
// Frozen and the range's number alone, and a [State] takes results in the order
// of their numbers, each once.
//
// [Run] does that on the processors of one machine, with a [Folder] to be resumed
// from. Whoever has more machines gives a [Worker] to each and merges what they
// send.
package campaign

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/kernelabi"
)

// Format is the version of the files and of what workers send. It changes when
// results of before and after cannot be merged.
const Format = 1

// The defaults of [Settings].
const (
	DefaultInputs = 64
	DefaultSize   = 256
)

// Bounds of [Settings].
const (
	MaxTargets = 16
	MaxInputs  = 1024
	MaxSize    = 4096
)

// Settings are what the results of a campaign depend on. Campaigns of equal
// settings are the same campaign.
type Settings struct {
	Format  int      `json:"format"`
	Version string   `json:"version"` // of kjit: another one generates other programs
	Seed    uint64   `json:"seed"`
	JITs    []string `json:"jits"`              // the names of the targets, in order
	Profile string   `json:"profile,omitempty"` // the kernel that external JITs emit for; "": what they say
	Kind    string   `json:"kind,omitempty"`    // "socket" or "seccomp" alone; "": what the targets take
	Inputs  int      `json:"inputs"`            // most inputs for a program
	Size    int      `json:"size"`              // programs in a range
}

// Default returns the settings of a campaign against the targets of
// [generate.Default].
func Default() Settings {
	return Settings{Format: Format, Seed: 1, JITs: slices.Clone(generate.DefaultProfiles), Inputs: DefaultInputs, Size: DefaultSize}
}

// Validate returns what is wrong with the settings.
func (s *Settings) Validate() error {
	switch {
	case s.Format != Format:
		return fmt.Errorf("format %d, this kjit has %d", s.Format, Format)
	case len(s.JITs) == 0 || len(s.JITs) > MaxTargets:
		return fmt.Errorf("%d JITs: want 1 to %d", len(s.JITs), MaxTargets)
	case s.Inputs < 1 || s.Inputs > MaxInputs:
		return fmt.Errorf("inputs %d: want 1 to %d", s.Inputs, MaxInputs)
	case s.Size < 1 || s.Size > MaxSize:
		return fmt.Errorf("size of ranges %d: want 1 to %d", s.Size, MaxSize)
	}
	for i, name := range s.JITs {
		if slices.Contains(s.JITs[:i], name) {
			return fmt.Errorf("JIT %s is named twice", name)
		}
	}
	if s.Kind != "" {
		var kind bpf.Kind
		if err := kind.UnmarshalText([]byte(s.Kind)); err != nil {
			return fmt.Errorf("kind: %w", err)
		}
	}
	return nil
}

// Ranges returns how many ranges it takes for so many programs.
func (s *Settings) Ranges(programs uint64) uint64 {
	return (programs + uint64(s.Size) - 1) / uint64(s.Size)
}

// Target is a JIT that a campaign is against.
type Target struct {
	Name    string // as kjit replay --jit takes it
	Profile *kernelabi.Profile

	// Open opens the JIT for one goroutine. nil: it is the emitter that the
	// profile names.
	Open func() (harness.Imager, error)
}

// TargetByName returns that of one of kjit's own JITs, or of a mutant.
func TargetByName(name string) (Target, error) {
	p, err := harness.ProfileByName(name)
	switch {
	case err != nil:
		return Target{}, err
	case p.Emitter == "":
		return Target{}, fmt.Errorf("profile %s: nothing here compiles for it", name)
	}
	return Target{Name: name, Profile: p}, nil
}

// Config is a campaign: its settings with the targets that they name.
type Config struct {
	Settings
	Targets []Target

	programs generate.Config // but for the corpus
	partial  *partial        // nil: the targets take what is generated
}

// NewConfig returns the campaign of the settings. The targets are those that it
// names; none: they are found by [TargetByName]. It asks every target which
// features it takes.
func NewConfig(s Settings, targets ...Target) (*Config, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := &Config{Settings: s, Targets: targets}
	if len(targets) == 0 {
		for _, name := range s.JITs {
			t, err := TargetByName(name)
			if err != nil {
				return nil, err
			}
			c.Targets = append(c.Targets, t)
		}
	}
	names := make([]string, len(c.Targets))
	for i, t := range c.Targets {
		names[i] = t.Name
	}
	if !slices.Equal(names, s.JITs) {
		return nil, fmt.Errorf("targets %v for a campaign against %v", names, s.JITs)
	}
	return c, c.askTargets()
}

// askTargets finds out what programs to make.
func (c *Config) askTargets() error {
	asked, assumed := make([]generate.JIT, len(c.Targets)), make([]generate.JIT, len(c.Targets))
	for i := range c.Targets {
		t := &c.Targets[i]
		own := Target{Name: t.Name, Profile: t.Profile}
		for jit, of := range map[*generate.JIT]*Target{&asked[i]: t, &assumed[i]: &own} {
			jit.Profile = t.Profile
			if of.Open == nil && t.Profile.Emitter == "" {
				continue // it may take anything
			}
			r, err := of.runner()
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			defer r.Close()
			jit.Compile = func(prog bpf.Program, kind bpf.Kind, _ *kernelabi.Profile) (*kernelabi.Image, error) {
				return r.Image(prog, kind)
			}
		}
	}
	c.programs = generate.ForJITs(asked...)
	if !c.speaks(bpf.Socket) && !c.speaks(bpf.Seccomp) {
		// JITs of their users' that take so little that hardly a program can be
		// made of it: they get what is left of programs for the JITs of their
		// kernels.
		c.partial = &partial{c.programs.Features, c.programs.Rules}
		c.programs = generate.ForJITs(assumed...)
	}
	c.programs.Inputs = c.Inputs
	takes := func(kind bpf.Kind) bool {
		return (c.Kind == "" || c.Kind == kind.String()) && c.speaks(kind)
	}
	switch {
	case !takes(bpf.Socket) && !takes(bpf.Seccomp):
		return fmt.Errorf("none of %s takes a program of that kind", strings.Join(c.JITs, ", "))
	case !takes(bpf.Socket):
		c.programs.Seccomp = 100
	case !takes(bpf.Seccomp):
		c.programs.Seccomp = -1
	}
	return nil
}

// essential are the opcodes without which the generator makes no programs.
var essential = []uint16{
	bpf.LdWAbs, bpf.LdImm, bpf.LdxImm, bpf.LdMem, bpf.LdxMem, bpf.St, bpf.Stx, bpf.Tax, bpf.Txa, bpf.LdLen, bpf.LdxLen,
	bpf.AddK, bpf.SubK, bpf.AddX, bpf.SubX, bpf.Ja, bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK, bpf.JeqX, bpf.JgtX, bpf.JgeX, bpf.JsetX,
	bpf.RetK, bpf.RetA,
}

// speaks reports whether programs of a kind can be made.
func (c *Config) speaks(kind bpf.Kind) bool {
	f := &c.programs.Features[kind]
	return f.Kind == generate.Often && !slices.ContainsFunc(essential, func(code uint16) bool { return f.Codes[code] != generate.Often })
}

// Opcodes returns how many of the opcodes and ancillary loads that are generated
// often some target has run, and how many there are.
func (c *Config) Opcodes(t *Totals) (seen, all int) {
	for kind, percent := range [2]int{bpf.Socket: 100 - c.programs.Seccomp, bpf.Seccomp: c.programs.Seccomp} {
		f := &c.programs.Features[kind]
		if percent <= 0 || !c.speaks(bpf.Kind(kind)) {
			continue
		}
		if c.partial != nil {
			f = &c.partial.features[kind]
		}
		for n, use := range append(f.Codes[:len(f.Codes):len(f.Codes)], f.Exts[:]...) {
			if use != generate.Often {
				continue
			}
			all++
			if _, ok := slices.BinarySearch(t.Opcodes, uint32(kind*numCodes+n)); ok {
				seen++
			}
		}
	}
	return seen, all
}

// budget is how many blocks a run may take: far more than a filter of 4096
// instructions that call helpers needs, and little enough that thousands of
// inputs on which a faulty one never ends are bearable.
const budget = 1 << 16

// runner opens the target as a runner of its own.
func (t *Target) runner() (harness.Imager, error) {
	if t.Open != nil {
		return t.Open()
	}
	own, err := engine.ProfileTarget(t.Profile)
	if err != nil {
		return nil, err
	}
	return harness.NewCompiled(t.Name, own.Compiler, t.Profile, emulator.WithBudget(budget)), nil
}

// The working corpus that is there makes for more programs made from it: from
// the generator's own share up to mostShare percent.
const (
	leastShare = 8
	mostShare  = 20
	fullCorpus = 1000 // programs
)

// generator returns the configuration of the generator for an epoch.
func (c *Config) generator(corpus []Entry) generate.Config {
	cfg := c.programs
	cfg.Corpus = slices.Clip(cfg.Corpus)
	for i := range corpus {
		cfg.Corpus = append(cfg.Corpus, generate.Seed{Program: corpus[i].Program, Kind: corpus[i].Kind})
	}
	cfg.Mutated = leastShare + (mostShare-leastShare)*min(len(corpus), fullCorpus)/fullCorpus
	return cfg
}
