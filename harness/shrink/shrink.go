// Package shrink makes a program and an input that show something as small as
// they can be while they still show it. What it is that they show only the
// caller knows.
//
// A program shrinks by instructions that are removed, with the jumps over them
// mended; by jumps that are always or never taken; by what it computes put in
// as a constant; by simpler operations, constants, distances and cells. A
// packet shrinks by bytes at its end, fragments, metadata and bytes that are not
// zero. Every candidate passes the checker, and each that is taken is smaller
// than the one before, so that the same start always leads to the same end.
package shrink

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// DefaultTries is how many candidates are tried where the options do not say.
const DefaultTries = 20_000

// Options are what a shrinker has to know.
type Options struct {
	// Profile has the rules that candidates must pass and the semantics that
	// say what they compute; nil: those of today's Linux.
	Profile *kernelabi.Profile

	// Tries is the most candidates to try, DefaultTries if 0.
	Tries int

	// Stop, if not nil, ends the search early when it returns true.
	Stop func() bool
}

// Result is what a program and an input became.
type Result struct {
	Program bpf.Program
	Input   kernelabi.Input

	Tries    int  // candidates that shows was asked about
	Taken    int  // those that it was true of
	Complete bool // nothing more to remove was found; false: the tries were used up, or Stop said so
}

// Shrink looks for the smallest program and input of which shows is true. shows
// must depend on nothing else, and must not keep or change what it is given. If
// it is not true of prog and input themselves they come back as they are.
func Shrink(prog bpf.Program, input kernelabi.Input, shows func(bpf.Program, kernelabi.Input) bool, o Options) Result {
	if o.Profile == nil {
		o.Profile = kernelabi.Current()
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	s := &shrinker{
		prog: slices.Clone(prog), input: input, shows: shows, Options: o, seen: map[uint64]struct{}{},
	}
	if _, ok := input.(*kernelabi.Syscall); ok {
		s.kind = bpf.Seccomp
	}
	s.cost = costOf(s.prog, s.input)
	s.tries++
	if !shows(s.prog, s.input) {
		return s.result(false)
	}
	for before := -1; before != s.taken && !s.over(); {
		before = s.taken
		s.shrinkInput()
		s.shrinkProgram()
		s.clearInput()
	}
	return s.result(!s.over())
}

// shrinker is a search.
type shrinker struct {
	Options
	shows func(bpf.Program, kernelabi.Input) bool
	kind  bpf.Kind

	// The smallest so far, and what is known of it.
	prog   bpf.Program
	input  kernelabi.Input
	cost   cost
	states []bpf.State // the reference's run; nil if not known yet

	tries, taken int
	stopped      bool
	seen         map[uint64]struct{} // hashes of what was tried
}

func (s *shrinker) result(complete bool) Result {
	return Result{s.prog, s.input, s.tries, s.taken, complete}
}

// over reports whether the search has to end.
func (s *shrinker) over() bool {
	if !s.stopped && s.Stop != nil && s.tries%64 == 0 {
		s.stopped = s.Stop()
	}
	return s.stopped || s.tries >= s.Tries
}

// try takes a candidate if it is smaller and shows the same.
func (s *shrinker) try(prog bpf.Program, input kernelabi.Input) bool {
	if s.over() {
		return false
	}
	c := costOf(prog, input)
	if c.compare(s.cost) >= 0 || bpf.Check(prog, s.kind, s.Profile.Rules) != nil {
		return false
	}
	h := hash(prog, input)
	if _, known := s.seen[h]; known {
		return false
	}
	s.seen[h] = struct{}{}
	s.tries++
	if !s.shows(prog, input) {
		return false
	}
	s.taken++
	s.prog, s.input, s.cost, s.states = slices.Clone(prog), input, c, nil
	return true
}

func (s *shrinker) tryProgram(prog bpf.Program) bool    { return s.try(prog, s.input) }
func (s *shrinker) tryInput(input kernelabi.Input) bool { return s.try(s.prog, input) }

// trace returns the reference's states before each instruction of its run.
func (s *shrinker) trace() []bpf.State {
	if s.states == nil {
		s.states = []bpf.State{}
		if m, err := bpf.Compile(s.prog, s.kind, s.Profile.Rules); err == nil {
			m.Trace(s.input.Under(s.Profile.Semantics), func(st bpf.State) { s.states = append(s.states, st) })
		}
	}
	return s.states
}

// cost orders candidates: the first number that differs decides.
type cost [numCosts]int

const (
	costInsns = iota
	costCodes
	costConstants
	costJumps
	costCells
	costBytes  // of the packet
	costParts  // of the packet: the linear part that does not hold all, fragments
	costMeta   // metadata that is not the default
	costValues // bytes that are not 0, and how far from it
	costSplit  // bytes in the linear part, where that does not hold all
	numCosts
)

func (c cost) compare(d cost) int { return slices.Compare(c[:], d[:]) }

func costOf(prog bpf.Program, input kernelabi.Input) (c cost) {
	c[costInsns] = len(prog)
	for _, ins := range prog {
		c[costCodes] += codeCost(ins)
		switch {
		case ins.Code == bpf.Ja:
			c[costJumps] += int(ins.K)
		case bpf.IsCondJump(ins.Code):
			c[costJumps] += int(ins.JT) + int(ins.JF)
			c[costConstants] += weight(ins.K)
		case usesCell(ins.Code):
			c[costCells] += int(ins.K)
		default:
			c[costConstants] += weight(ins.K)
		}
	}
	switch in := input.(type) {
	case *kernelabi.Skb:
		packetCost(&c, in)
	case *kernelabi.Syscall:
		syscallCost(&c, in)
	}
	return c
}

// hash is one of all that a candidate is.
func hash(prog bpf.Program, input kernelabi.Input) uint64 {
	h := fnv.New64a()
	var b []byte
	for _, ins := range prog {
		b = binary.LittleEndian.AppendUint16(b, ins.Code)
		b = append(b, ins.JT, ins.JF)
		b = binary.LittleEndian.AppendUint32(b, ins.K)
	}
	h.Write(b)
	switch in := input.(type) {
	case *kernelabi.Skb:
		h.Write(packetKey(in))
	case *kernelabi.Syscall:
		h.Write(in.Append(nil))
	}
	return h.Sum64()
}

// sorted returns the values below the weight of k, lightest first, each once.
func sorted(values []uint32, k uint32) []uint32 {
	values = slices.DeleteFunc(values, func(v uint32) bool { return weight(v) >= weight(k) })
	slices.SortFunc(values, func(a, b uint32) int { return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a, b)) })
	return slices.Compact(values)
}
