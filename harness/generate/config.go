package generate

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Use says how often programs have a feature of the language.
type Use uint8

const (
	Never  Use = iota // a checker refuses it
	Seldom            // no JIT takes it: some of 1000 programs, for the JIT that forgets to decline
	Rare              // one JIT takes it, another declines: some of 100 programs
	Often
)

// Features says how often programs of one kind have what not every JIT takes.
// A program that a JIT declines cannot be compared.
type Features struct {
	Kind   Use      // programs of this kind at all
	Codes  [256]Use // by opcode
	Exts   [bpf.NumExtensions]Use
	Beyond Use // ancillary loads that do not exist, where the checker lets them pass

	NegativeAbs Use // LD ABS from a negative offset that is no ancillary load
	NegativeMsh Use // LDX MSH from a negative offset
	WideShift   Use // shifts by a constant above 31
}

// Config says what a Generator makes. The zero value of every field but Rules
// and Features is replaced by the default given with it.
type Config struct {
	Rules    []bpf.Rules // the checkers that accept every program
	Features [2]Features // by bpf.Kind

	// Semantics are those that the solver assumes; inputs are good for others,
	// too, they only may reach something else.
	Semantics kernelabi.Semantics

	Inputs  int // most inputs for a program: 64
	Length  int // mean number of instructions of a program: 26, at least 8
	Seccomp int // percentage of seccomp filters, if there are any: 8; none with -1
	Mutated int // percentage of programs made from Corpus: 8; none with -1

	// Corpus are programs to mutate and splice; those of package corpus if nil.
	Corpus []Seed
}

// Seed is a program that others are made of.
type Seed struct {
	Program bpf.Program
	Kind    bpf.Kind
}

// DefaultProfiles are the kernels that [Default] is for: one of each architecture,
// the ARM ones without the known faults of the kernels'.
var DefaultProfiles = []string{"linux-3.10-x86_64", "kjit-armv5", "kjit-armv7"}

// Default returns For(DefaultProfiles...).
func Default() Config {
	profiles := make([]*kernelabi.Profile, len(DefaultProfiles))
	for i, name := range DefaultProfiles {
		var err error
		if profiles[i], err = kernelabi.ProfileByName(name); err != nil {
			panic(err) // they are built in
		}
	}
	cfg, err := For(profiles...)
	if err != nil {
		panic(err)
	}
	return cfg
}

// For returns a configuration for comparing the JITs of the given kernels:
// their checkers accept every program, and what some JIT declines is rare. It
// tries the emitters to find out; a profile without one counts as taking all.
// Without profiles it is a configuration for today's Linux.
func For(profiles ...*kernelabi.Profile) (Config, error) {
	if len(profiles) == 0 {
		profiles = []*kernelabi.Profile{kernelabi.Current()}
	}
	var jits []JIT
	for _, p := range profiles {
		j, err := jitOf(p)
		if err != nil {
			return Config{}, err
		}
		jits = append(jits, j)
	}
	return ForJITs(jits...), nil
}

// ForJITs returns such a configuration for JITs whatever makes their code.
func ForJITs(jits ...JIT) Config {
	var cfg Config
	for _, j := range jits {
		cfg.Rules = append(cfg.Rules, j.Profile.Rules)
	}
	if len(jits) > 0 {
		cfg.Semantics = jits[0].Profile.Semantics
	}
	for _, kind := range []bpf.Kind{bpf.Socket, bpf.Seccomp} {
		cfg.Features[kind] = featuresOf(kind, cfg.Rules, jits)
	}
	return cfg.complete()
}

// complete fills in the defaults.
func (c Config) complete() Config {
	def := func(field *int, value int) {
		switch {
		case *field == 0:
			*field = value
		case *field < 0:
			*field = 0
		}
	}
	def(&c.Inputs, 64)
	def(&c.Length, 26)
	def(&c.Seccomp, 8)
	def(&c.Mutated, 8)
	c.Length = max(c.Length, 8)
	if c.Corpus == nil {
		c.Corpus = slices.Clone(corpusSeeds())
	}
	return c
}

// corpusSeeds are the programs of package corpus, which take longer to parse than
// everything else that a configuration is made of.
var corpusSeeds = sync.OnceValue(func() []Seed {
	programs, err := corpus.Programs()
	if err != nil {
		panic(err) // it is embedded
	}
	seeds := make([]Seed, len(programs))
	for i, p := range programs {
		seeds[i] = Seed{p.Program, p.Kind}
	}
	return seeds
})

// JIT is what a configuration is for: a kernel, and what compiles for it.
type JIT struct {
	Profile *kernelabi.Profile

	// Compile is asked which features the JIT takes: one for which it gives a
	// *kernelabi.Refusal it does not. nil: it takes all.
	Compile func(bpf.Program, bpf.Kind, *kernelabi.Profile) (*kernelabi.Image, error)
}

func jitOf(p *kernelabi.Profile) (JIT, error) {
	switch {
	case p.Emitter == "":
		return JIT{Profile: p}, nil
	case p.Arch == kernelabi.X86_64:
		e, err := jitx86.ByName(p.Emitter)
		if err != nil {
			return JIT{}, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		return JIT{p, e.Compile}, nil
	}
	e, err := jitarm.ByName(p.Emitter)
	if err != nil {
		return JIT{}, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return JIT{p, e.Compile}, nil
}

func (j JIT) takes(prog bpf.Program, kind bpf.Kind) bool {
	if j.Compile == nil {
		return true
	}
	_, err := j.Compile(prog, kind, j.Profile)
	var refusal *kernelabi.Refusal
	return !errors.As(err, &refusal)
}

// featuresOf tries every feature in a program that consists of little else.
func featuresOf(kind bpf.Kind, rules []bpf.Rules, jits []JIT) Features {
	var f Features
	accepted := func(prog bpf.Program) bool {
		return !slices.ContainsFunc(rules, func(r bpf.Rules) bool { return bpf.Check(prog, kind, r) != nil })
	}
	// The others take no program of the kind.
	running := slices.DeleteFunc(slices.Clone(jits), func(j JIT) bool {
		return !j.takes(bpf.Program{{Code: bpf.RetK}}, kind) && !j.takes(bpf.Program{{Code: bpf.RetA}}, kind)
	})
	// A JIT takes a feature if it takes any of the programs that have it.
	try := func(progs ...bpf.Program) Use {
		progs = slices.DeleteFunc(progs, func(p bpf.Program) bool { return !accepted(p) })
		if len(progs) == 0 {
			return Never
		}
		takes := 0
		for _, j := range running {
			if slices.ContainsFunc(progs, func(p bpf.Program) bool { return j.takes(p, kind) }) {
				takes++
			}
		}
		switch {
		case takes == 0:
			return Seldom
		case takes < len(running):
			return Rare
		}
		return Often
	}
	one := func(ins bpf.Instruction) Use {
		store, retA, retK := bpf.Instruction{Code: bpf.St, K: 4}, bpf.Instruction{Code: bpf.RetA}, bpf.Instruction{Code: bpf.RetK}
		return try(bpf.Program{store, ins, retA}, bpf.Program{ins, retA}, bpf.Program{ins, retK})
	}
	f.Kind = try(bpf.Program{{Code: bpf.RetA}}, bpf.Program{{Code: bpf.RetK}})
	for code := range f.Codes {
		ins := bpf.Instruction{Code: uint16(code), K: 4}
		if bpf.IsCondJump(ins.Code) || ins.Code == bpf.Ja {
			ins.K = 0
		}
		f.Codes[code] = one(ins)
	}
	if kind == bpf.Seccomp {
		return f
	}
	for n := range f.Exts {
		f.Exts[n] = one(bpf.Instruction{Code: bpf.LdWAbs, K: bpf.Extension(4 * n).K()})
	}
	f.Beyond = one(bpf.Instruction{Code: bpf.LdWAbs, K: bpf.ADOff + 0x800})
	f.NegativeAbs = one(bpf.Instruction{Code: bpf.LdWAbs, K: bpf.NetOff})
	f.NegativeMsh = one(bpf.Instruction{Code: bpf.LdxMsh, K: bpf.NetOff})
	f.WideShift = one(bpf.Instruction{Code: bpf.LshK, K: 33})
	return f
}
