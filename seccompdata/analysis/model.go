// Package analysis answers questions about seccomp filters: which inputs two
// of them treat differently ([Diff]), which instruction decides about a call
// ([Who]), what their author most probably did not want ([Lint]), and which
// inputs are worth trying ([Inputs]).
//
// The answers are about all inputs, found by executing the filters symbolically
// (package paths). They are exact as long as a filter compares words of its
// input with constants, after whatever arithmetic with constants; where it does
// more, an answer says that it is not exact and why. Every witness has been run
// through the interpreter.
//
// Filters given together are a chain, the oldest first: all are asked and the
// strongest action wins. What the kernel does before it asks filters, see
// [seccompdata.Exempt], is left out.
package analysis

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// argLow and argHigh are the offsets of the halves of an argument.
func argLow(n int) uint32  { return seccompdata.OffArgs + 8*uint32(n) }
func argHigh(n int) uint32 { return argLow(n) + 4 }

const ipLow, ipHigh = seccompdata.OffIP, seccompdata.OffIP + 4

// newSpace orders the words as people read a filter: architecture, number,
// arguments. It is the order of Split, too.
func newSpace() *paths.Space {
	order := []uint32{seccompdata.OffArch, seccompdata.OffNr}
	for n := range 6 {
		order = append(order, argHigh(n), argLow(n))
	}
	return paths.NewSpace(append(order, ipHigh, ipLow)...)
}

// verdict is a return value of a chain, and the inputs that get it.
type verdict struct {
	value *paths.Expr
	cond  paths.Cond
}

// model is what a chain does with every input. The conditions of its verdicts
// have nothing in common and together are everything.
type model struct {
	*paths.Space
	filters  []*seccompdata.Filter
	maps     []*paths.Map
	verdicts []verdict
}

// newModel explores the filters. Its only error is a *paths.LimitError.
func newModel(s *paths.Space, filters []*seccompdata.Filter) (*model, error) {
	m := &model{Space: s, filters: filters}
	for i, f := range filters {
		found, err := s.Explore(f.Program(), paths.Options{Within: paths.Always})
		if err != nil {
			return nil, fmt.Errorf("filter %d: %w", i, err)
		}
		m.maps = append(m.maps, found)
	}
	m.verdicts = []verdict{{s.Const(uint32(seccompdata.Allow)), paths.Always}}
	for i := len(m.maps) - 1; i >= 0; i-- { // the newest is asked first
		m.ask(m.maps[i], len(m.maps) == 1)
	}
	return m, nil
}

// ask lets a filter change the verdict of those asked before it: a stronger
// action takes its place.
func (m *model) ask(filter *paths.Map, alone bool) {
	joined := map[*paths.Expr]paths.Cond{}
	var order []*paths.Expr
	add := func(value *paths.Expr, c paths.Cond) {
		if c == paths.Never {
			return
		}
		if _, ok := joined[value]; !ok {
			order = append(order, value)
		}
		joined[value] = m.Or(joined[value], c)
	}
	for _, end := range filter.Ends {
		if alone { // its data counts even if its action is ALLOW
			add(end.Value, end.Cond)
			continue
		}
		for _, v := range m.verdicts {
			both := m.And(end.Cond, v.cond)
			if both == paths.Never {
				continue
			}
			stronger := m.Compare(bpf.JgtX, m.rank(v.value), m.rank(end.Value))
			add(end.Value, m.And(both, stronger))
			add(v.value, m.AndNot(both, stronger))
		}
	}
	m.verdicts = nil
	for _, value := range order {
		m.verdicts = append(m.verdicts, verdict{value, joined[value]})
	}
}

// rank orders return values as [seccompdata.Stronger] does for today's kernels,
// in unsigned numbers: the lower, the stronger.
func (m *model) rank(value *paths.Expr) *paths.Expr {
	action := m.Op(bpf.AndX, value, m.Const(seccompdata.ActionFull))
	return m.Op(bpf.XorX, action, m.Const(1<<31))
}

// rank is the same of a number.
func rank(ret uint32) uint32 { return ret&seccompdata.ActionFull ^ 1<<31 }

// weaker reports whether a lets through more than b.
func weaker(a, b uint32) bool { return rank(a) > rank(b) }

// allows reports whether the call is executed.
func allows(ret uint32) bool {
	a := seccompdata.ActionOf(ret)
	return a == seccompdata.Allow || a == seccompdata.Log
}

// refuses reports whether the call is not executed, whoever traces or listens.
func refuses(ret uint32) bool { return rank(ret) <= rank(uint32(seccompdata.Errno)) }

// constants are the verdicts with a constant value; all says whether there are
// no others.
func (m *model) constants() (out []known, all bool) {
	all = true
	for _, v := range m.verdicts {
		if ret, ok := v.value.Const(); ok {
			out = append(out, known{ret, v.cond})
		} else {
			all = false
		}
	}
	return out, all
}

// known is a verdict that is a constant.
type known struct {
	ret  uint32
	cond paths.Cond
}

// decide is what the chain returns for one input, by the interpreter. A single
// filter's own value counts, data of ALLOW and all.
func decide(filters []*seccompdata.Filter, d *seccompdata.Data) (ret uint32, filter int, v seccompdata.Verdict) {
	ret, filter = uint32(seccompdata.Allow), -1
	for i := len(filters) - 1; i >= 0; i-- {
		got := filters[i].Run(d)
		if len(filters) == 1 || seccompdata.Stronger(got.Ret, ret, seccompdata.CurrentKernel) {
			ret, filter, v = got.Ret, i, got
		}
	}
	return ret, filter, v
}

// possible are the inputs that kernels make: 32-bit ABIs have arguments and
// addresses of 32 bits.
func possible(s *paths.Space) paths.Cond {
	narrow := paths.Never
	for _, abi := range seccompdata.ABIs() {
		if abi.Bits == 32 {
			narrow = s.Or(narrow, s.Is(seccompdata.OffArch, abi.Arch))
		}
	}
	return s.Or(s.Not(narrow), zeroHigh(s))
}

// zeroHigh are the inputs that a 32-bit ABI can make.
func zeroHigh(s *paths.Space) paths.Cond {
	c := s.Is(ipHigh, 0)
	for n := range 6 {
		c = s.And(c, s.Is(argHigh(n), 0))
	}
	return c
}

// narrowed is c for an ABI whose registers have 32 bits: the upper halves are 0.
func narrowed(s *paths.Space, c paths.Cond) paths.Cond {
	c = s.Fix(c, ipHigh, 1<<32-1, 0)
	for n := range 6 {
		c = s.Fix(c, argHigh(n), 1<<32-1, 0)
	}
	return c
}

// dependsOn reports whether c depends on one of the words.
func dependsOn(s *paths.Space, c paths.Cond, words ...uint32) bool {
	return slices.ContainsFunc(s.Depends(c), func(word uint32) bool { return slices.Contains(words, word) })
}

// dataOf makes a system call of the words of an input.
func dataOf(in paths.Words) seccompdata.Data {
	d := seccompdata.Data{Nr: in[seccompdata.OffNr], Arch: in[seccompdata.OffArch]}
	d.IP = uint64(in[ipHigh])<<32 | uint64(in[ipLow])
	for n := range d.Args {
		d.Args[n] = uint64(in[argHigh(n)])<<32 | uint64(in[argLow(n)])
	}
	return d
}

// ofABI returns the inputs that are calls of an ABI.
func ofABI(s *paths.Space, abi *seccompdata.ABI) paths.Cond {
	c := s.Is(seccompdata.OffArch, abi.Arch)
	if abi.Arch == seccompdata.ArchX86_64 {
		c = s.And(c, s.Masked(seccompdata.OffNr, seccompdata.X32Bit, abi.Bit))
	}
	return c
}
