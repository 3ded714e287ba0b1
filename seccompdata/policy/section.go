package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/kjit-project/kjit/seccompdata"
)

// section is what a filter knows about the numbers of one architecture: all
// numbers, from 0 to the largest, in zones.
type section struct {
	arch  uint32
	zones []zone // in ascending order, without gaps
}

// zone is a range of numbers with a common result but for some of them.
type zone struct {
	low, high uint32 // both included
	leaf      *node  // for the numbers that are not among the entries
	entries   []entry
}

// entry is a number with a result of its own.
type entry struct {
	nr     uint32
	leaf   *node
	weight float64 // how often the call is made; only ratios mean something
	rule   int     // if one decides alone
}

// builder makes the graph of a policy.
type builder struct {
	*graph
	policy  *Policy
	options CompileOptions
	hot     map[call]float64 // weights; empty if nothing is known
}

func newBuilder(p *Policy, o CompileOptions) *builder {
	b := &builder{newGraph(), p, o, map[call]float64{}}
	for i, abi := range p.ABIs {
		for name, weight := range o.Histogram.Weights(abi, i == 0) {
			if nr, ok := abi.Number(name); ok {
				b.hot[call{abi, nr}] += weight
			}
		}
	}
	return b
}

// sections returns one for each architecture, in the order of the ABIs.
func (b *builder) sections() []section {
	entries := b.entries()
	var out []section
	for _, abi := range b.policy.ABIs {
		if slices.ContainsFunc(out, func(s section) bool { return s.arch == abi.Arch }) {
			continue
		}
		out = append(out, section{abi.Arch, b.zones(abi.Arch, entries[abi.Arch])})
	}
	return out
}

// entries returns the calls that rules decide, by architecture and in ascending
// order.
func (b *builder) entries() map[uint32][]entry {
	out := map[uint32][]entry{}
	for c, rules := range b.policy.deciders() {
		e := entry{nr: c.nr, weight: b.hot[c], rule: none}
		if first := b.policy.Rules[rules[0]]; len(first.Conditions) == 0 {
			e.leaf, e.rule = b.ret(first.Ret, rules[0]), rules[0]
		} else {
			e.leaf = decide(b.graph, c.abi, b.policy.Rules, rules, b.ret(b.policy.Default, none))
		}
		out[c.abi.Arch] = append(out[c.abi.Arch], e)
	}
	for _, entries := range out {
		slices.SortFunc(entries, func(x, y entry) int { return cmp.Compare(x.nr, y.nr) })
	}
	return out
}

// zones cuts the numbers where calls without a rule begin to be treated
// otherwise.
func (b *builder) zones(arch uint32, entries []entry) []zone {
	begins := []uint32{0}
	if arch == seccompdata.ArchX86_64 {
		const bit31 = 1 << 31
		begins = append(begins, seccompdata.X32Bit, bit31, bit31|seccompdata.X32Bit, math.MaxUint32)
	}
	for _, abi := range b.policy.ABIs {
		if last, ok := b.policy.enosysAbove(abi, b.options); ok && abi.Arch == arch {
			begins = append(begins, last+1)
		}
	}
	slices.Sort(begins)
	var out []zone
	for i, low := range begins {
		z := zone{low: low, high: math.MaxUint32}
		if i+1 < len(begins) {
			z.high = begins[i+1] - 1
		}
		ret, _ := b.policy.unnamed(arch, low, b.options)
		z.leaf = b.ret(ret, none)
		for _, e := range entries {
			if e.nr >= z.low && e.nr <= z.high && e.leaf != z.leaf {
				z.entries = append(z.entries, e)
			}
		}
		if last := len(out) - 1; last >= 0 && out[last].leaf == z.leaf && (len(out[last].entries) == 0 || len(z.entries) == 0) {
			out[last].high = z.high
			out[last].entries = append(out[last].entries, z.entries...)
			continue
		}
		out = append(out, z)
	}
	return out
}
