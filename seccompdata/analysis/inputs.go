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
// The same filters always get the same inputs. The error is a *paths.LimitError.
func Inputs(filters []*seccompdata.Filter, opt InputOptions) ([]seccompdata.Data, error) {
	if opt.PerCall == 0 {
		opt.PerCall = 400
	}
	g := generator{filters: filters, opt: opt, space: newSpace(), seen: map[seccompdata.Data]bool{}}
	archs, numbers, err := g.boundaries()
	if err != nil {
		return nil, err
	}
	for _, arch := range archs {
		for _, nr := range numbers {
			if err := g.call(arch, nr); err != nil {
				return nil, err
			}
		}
	}
	for _, abi := range opt.Calls {
		for _, nr := range abi.Numbers() {
			if !slices.Contains(archs, abi.Arch) || !slices.Contains(numbers, nr) {
				if err := g.call(abi.Arch, nr); err != nil {
					return nil, err
				}
			}
		}
	}
	return g.out, nil
}

type generator struct {
	filters []*seccompdata.Filter
	opt     InputOptions
	space   *paths.Space
	seen    map[seccompdata.Data]bool
	out     []seccompdata.Data
}

// marksPerTest bounds what is taken from one comparison.
const marksPerTest = 64

// boundaries returns the architectures and numbers to try, in ascending order.
func (g *generator) boundaries() (archs, numbers []uint32, err error) {
	marks := map[uint32]map[uint32]bool{seccompdata.OffArch: {}, seccompdata.OffNr: {}}
	for _, f := range g.filters {
		m, err := g.space.Explore(f.Program(), paths.Options{Within: paths.Always})
		if err != nil {
			return nil, nil, err
		}
		for word, values := range wordMarks(g.space, m) {
			if marks[word] != nil {
				maps.Copy(marks[word], values)
			}
		}
	}
	for _, abi := range seccompdata.ABIs() {
		marks[seccompdata.OffArch][abi.Arch] = true
		calls := abi.Numbers()
		marks[seccompdata.OffNr][calls[0]] = true
		marks[seccompdata.OffNr][calls[len(calls)-1]+1] = true
	}
	marks[seccompdata.OffNr][1<<32-1] = true
	for nr := range maps.Clone(marks[seccompdata.OffNr]) {
		marks[seccompdata.OffNr][nr^seccompdata.X32Bit] = true
	}
	sorted := func(word uint32) []uint32 { return slices.Sorted(maps.Keys(marks[word])) }
	return sorted(seccompdata.OffArch), sorted(seccompdata.OffNr), nil
}

// wordMarks returns, by word, the values on both sides of every boundary of the
// comparisons in a program.
func wordMarks(s *paths.Space, m *paths.Map) map[uint32]map[uint32]bool {
	out := map[uint32]map[uint32]bool{}
	for _, t := range m.Tests {
		words := s.Depends(t.Taken)
		if len(words) != 1 || !s.Exact(t.Taken) {
			continue
		}
		if out[words[0]] == nil {
			out[words[0]] = map[uint32]bool{}
		}
		for _, v := range s.Marks(t.Taken, words[0], marksPerTest) {
			out[words[0]][v] = true
		}
	}
	return out
}

// call adds the inputs for one number of one architecture.
func (g *generator) call(arch, nr uint32) error {
	plain := seccompdata.Data{Arch: arch, Nr: nr}
	g.add(plain)
	looks := false // further than number and architecture
	for _, f := range g.filters {
		for _, pc := range f.Path(&plain) {
			ins := f.Program()[pc]
			looks = looks || ins.Code == bpf.LdWAbs && ins.K >= seccompdata.OffIP
		}
	}
	if !looks {
		return nil
	}
	narrow := false
	if abi := seccompdata.ABIOf(arch, nr); abi != nil {
		narrow = abi.Bits == 32 && !g.opt.Impossible
	}
	marks := map[uint32]map[uint32]bool{}
	bases := []paths.Words{{}}
	s := newSpace()
	for _, f := range g.filters {
		m, err := s.Explore(f.Program(), paths.Options{
			Within: paths.Always,
			Fixed:  paths.Words{seccompdata.OffArch: arch, seccompdata.OffNr: nr},
		})
		if err != nil {
			return err
		}
		for word, values := range wordMarks(s, m) {
			if marks[word] == nil {
				marks[word] = map[uint32]bool{}
			}
			maps.Copy(marks[word], values)
		}
		for _, end := range m.Ends {
			if in, answer := s.Witness(end.Cond); answer == paths.Found {
				bases = append(bases, in)
			}
		}
	}
	start := len(g.out)
	add := func(in paths.Words) {
		d := dataOf(in)
		d.Arch, d.Nr = arch, nr
		if narrow {
			d.IP = uint64(uint32(d.IP))
			for n := range d.Args {
				d.Args[n] = uint64(uint32(d.Args[n]))
			}
		}
		if len(g.out)-start < g.opt.PerCall {
			g.add(d)
		}
	}
	for _, base := range bases {
		add(base)
	}
	for _, base := range bases {
		g.vary(base, marks, add)
	}
	return nil
}

// vary changes both halves of each field that is compared, one field after the
// other.
func (g *generator) vary(base paths.Words, marks map[uint32]map[uint32]bool, add func(paths.Words)) {
	for low := uint32(ipLow); low < seccompdata.Size; low += 8 {
		high := low + 4
		if marks[low] == nil && marks[high] == nil {
			continue
		}
		lows := append([]uint32{base[low]}, slices.Sorted(maps.Keys(marks[low]))...)
		highs := []uint32{base[high], 0, 1, 1<<32 - 1, 1 << 31}
		highs = append(highs, slices.Sorted(maps.Keys(marks[high]))...)
		for _, h := range highs {
			for _, l := range lows {
				in := maps.Clone(base)
				in[low], in[high] = l, h
				add(in)
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
