package analysis

import (
	"maps"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// InputOptions say which inputs [Inputs] makes.
type InputOptions struct {
	// Calls adds every call of these ABIs that has a name.
	Calls []*seccompdata.ABI
	// PerCall bounds the inputs for one number of one architecture, 0 is 400.
	PerCall int
	// Impossible adds inputs that no kernel makes: upper halves of arguments
	// that are not 0 where a register has 32 bits.
	Impossible bool
}

// Inputs returns system calls at which one of the filters may change its mind:
// the boundaries of all comparisons it makes. Numbers and architectures are
// taken from both sides of every boundary, with and without the x32 bit, for
// each ABI; the arguments of a call from both sides of the boundaries that the
// filters have for that call, with upper halves that are 0, 1, sign-extended
// and garbage, starting from an input for each way in which a filter can end.
// The same filters always get the same inputs.
//
// Of filters that are too complex for an exact answer the constants are taken
// as they stand there. The error is always nil so far.
func Inputs(filters []*seccompdata.Filter, opt InputOptions) ([]seccompdata.Data, error) {
	if opt.PerCall == 0 {
		opt.PerCall = 400
	}
	g := generator{filters: filters, opt: opt, space: newSpace(), seen: map[seccompdata.Data]bool{}}
	archs, numbers := g.boundaries()
	for _, arch := range archs {
		for _, nr := range numbers {
			g.call(arch, nr)
		}
	}
	for _, abi := range opt.Calls {
		for _, nr := range abi.Numbers() {
			if !slices.Contains(archs, abi.Arch) || !slices.Contains(numbers, nr) {
				g.call(abi.Arch, nr)
			}
		}
	}
	return g.out, nil
}

type generator struct {
	filters []*seccompdata.Filter
	opt     InputOptions
	space   *paths.Space
	complex bool       // too much so to be explored
	simply  lists      // what to try with the calls of complex filters
	turn    int        // where in those the next call begins
	nodes   int        // spent on single calls
	looking paths.Cond // in space: the architectures and numbers that more is asked of
	seen    map[seccompdata.Data]bool
	out     []seccompdata.Data
}

// Bounds: of what is taken from one comparison, of the architectures and the
// numbers that are tried, and of what is spent on one call.
const (
	marksPerTest = 64
	maxArchs     = 64
	maxCalls     = 1 << 16 // of all architectures together
	maxInputs    = 1 << 18
	nodesPerCall = 1 << 18
	nodesOfCalls = 1 << 23

	perComplexCall = 8
)

// values are words, by offset, with the values to try.
type values map[uint32]map[uint32]bool

func (v values) add(word uint32, more ...uint32) {
	if v[word] == nil {
		v[word] = map[uint32]bool{}
	}
	for _, value := range more {
		v[word][value] = true
	}
}

func (v values) join(other values) {
	for word, more := range other {
		v.add(word, slices.Collect(maps.Keys(more))...)
	}
}

func (v values) sorted(word uint32) []uint32 { return slices.Sorted(maps.Keys(v[word])) }

// lists are words, by offset, with the values to try in order.
type lists map[uint32][]uint32

func (v values) lists() lists {
	out := lists{}
	for word := range v {
		out[word] = v.sorted(word)
	}
	return out
}

// boundaries returns the architectures and numbers to try.
func (g *generator) boundaries() (archs, numbers []uint32) {
	marks := values{}
	for _, f := range g.filters {
		more, _ := g.marksOf(g.space, f, nil, g.look)
		marks.join(more)
	}
	for _, abi := range seccompdata.ABIs() {
		archs = append(archs, abi.Arch)
		calls := abi.Numbers()
		numbers = append(numbers, calls[0], calls[len(calls)-1]+1)
	}
	archs = append(archs, marks.sorted(seccompdata.OffArch)...)
	numbers = append(numbers, 1<<32-1)
	numbers = append(numbers, marks.sorted(seccompdata.OffNr)...)
	for _, nr := range slices.Clone(numbers) {
		numbers = append(numbers, nr^seccompdata.X32Bit)
	}
	archs = unique(archs, maxArchs)
	return archs, unique(numbers, maxCalls/len(archs))
}

// look finds out for which architectures and numbers a filter looks at anything
// else.
func (g *generator) look(m *paths.Map) {
	for _, t := range m.Tests {
		for _, word := range append(t.L.Words(), t.R.Words()...) {
			if word >= seccompdata.OffIP {
				g.looking = g.space.Or(g.looking, g.space.Project(t.Reach, seccompdata.OffArch, seccompdata.OffNr))
				break
			}
		}
	}
}

// unique returns the first limit values, each once.
func unique(all []uint32, limit int) (out []uint32) {
	seen := map[uint32]bool{}
	for _, v := range all {
		if !seen[v] && len(out) < limit {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// marksOf returns the values on both sides of what a filter compares with, and
// an input for each of its ends. also gets what was found.
func (g *generator) marksOf(s *paths.Space, f *seccompdata.Filter, fixed paths.Words, also func(*paths.Map)) (marks values, ends []paths.Words) {
	if g.complex {
		return constants(f), nil
	}
	explore := func() (err error) {
		defer paths.Catch(&err)
		m, err := s.Explore(f.Program(), paths.Options{Within: paths.Always, Fixed: fixed})
		if err != nil {
			return err
		}
		for _, end := range m.Ends {
			if in, answer := s.Witness(end.Cond); answer == paths.Found {
				ends = append(ends, in)
			}
		}
		marks = wordMarks(s, m)
		also(m)
		return nil
	}
	if explore() != nil {
		g.complex = true
		return constants(f), nil
	}
	return marks, ends
}

// constants takes every number that is compared with for one of every word.
func constants(f *seccompdata.Filter) values {
	out := values{}
	for _, ins := range f.Program() {
		if ins.Code == bpf.LdWAbs {
			out.add(ins.K, 0)
		}
	}
	for _, ins := range f.Program() {
		if bpf.IsCondJump(ins.Code) {
			for word := range out {
				out.add(word, ins.K-1, ins.K, ins.K+1)
			}
		}
	}
	return out
}

// wordMarks returns, by word, the values on both sides of every boundary of the
// comparisons in a program.
func wordMarks(s *paths.Space, m *paths.Map) values {
	out := values{}
	for _, t := range m.Tests {
		if words := s.Depends(t.Taken); len(words) == 1 && s.Exact(t.Taken) {
			out.add(words[0], s.Marks(t.Taken, words[0], marksPerTest)...)
		}
	}
	return out
}

// call adds the inputs for one number of one architecture.
func (g *generator) call(arch, nr uint32) {
	plain := seccompdata.Data{Arch: arch, Nr: nr}
	g.add(plain)
	if len(g.out) >= maxInputs || !g.complex && !g.space.Holds(g.looking, paths.Words{seccompdata.OffArch: arch, seccompdata.OffNr: nr}) {
		return
	}
	narrow := false
	if abi := seccompdata.ABIOf(arch, nr); abi != nil {
		narrow = abi.Bits == 32 && !g.opt.Impossible
	}
	marks, bases := g.marksOfCall(arch, nr)
	end := len(g.out) + g.opt.PerCall
	if g.complex {
		end = len(g.out) + min(g.opt.PerCall, perComplexCall)
	}
	end = min(end, maxInputs)
	add := func(in paths.Words) (more bool) {
		d := dataOf(in)
		d.Arch, d.Nr = arch, nr
		if narrow {
			d.IP = uint64(uint32(d.IP))
			for n := range d.Args {
				d.Args[n] = uint64(uint32(d.Args[n]))
			}
		}
		if len(g.out) < end {
			g.add(d)
		}
		return len(g.out) < end
	}
	for _, base := range bases {
		add(base)
	}
	for _, base := range bases {
		g.vary(base, marks, add)
	}
}

// marksOfCall returns what to try with a call, beginning with inputs that lead
// to different ends.
func (g *generator) marksOfCall(arch, nr uint32) (marks lists, bases []paths.Words) {
	found := values{}
	bases = []paths.Words{{}}
	if !g.complex {
		s := newSpace()
		s.Limit(nodesPerCall)
		for _, f := range g.filters {
			more, ends := g.marksOf(s, f, paths.Words{seccompdata.OffArch: arch, seccompdata.OffNr: nr}, func(*paths.Map) {})
			found.join(more)
			bases = append(bases, ends...)
		}
		g.nodes += s.Size()
		g.complex = g.complex || g.nodes > nodesOfCalls
		return found.lists(), bases
	}
	if g.simply == nil {
		for _, f := range g.filters {
			found.join(constants(f))
		}
		g.simply = found.lists()
	}
	marks = lists{}
	for word, all := range g.simply {
		for i := range min(len(all), perComplexCall) {
			marks[word] = append(marks[word], all[(g.turn+i)%len(all)])
		}
	}
	g.turn += perComplexCall
	return marks, bases
}

// vary changes both halves of each field that is compared, one field after the
// other.
func (g *generator) vary(base paths.Words, marks lists, add func(paths.Words) (more bool)) {
	for low := uint32(ipLow); low < seccompdata.Size; low += 8 {
		high := low + 4
		if marks[low] == nil && marks[high] == nil {
			continue
		}
		lows := append([]uint32{base[low]}, marks[low]...)
		highs := []uint32{base[high], 0, 1, 1<<32 - 1, 1 << 31}
		highs = append(highs, marks[high]...)
		for _, h := range highs {
			for _, l := range lows {
				in := maps.Clone(base)
				in[low], in[high] = l, h
				if !add(in) {
					return
				}
			}
		}
	}
}

func (g *generator) add(d seccompdata.Data) {
	if !g.seen[d] {
		g.seen[d] = true
		g.out = append(g.out, d)
	}
}
