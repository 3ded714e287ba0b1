package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// Difference is what two chains do differently.
type Difference struct {
	// Equal: they return the same for every input that a kernel can make. It is
	// proved, unless a group is undecided.
	Equal bool

	// Exact: Equal and Groups are all there is to know. If not, Why lists the
	// comparisons that no input was found for, nor proof that there is none.
	Exact bool
	Why   []string

	Groups []Group
}

// Group is a set of calls that two chains treat differently, in the same way.
type Group struct {
	ABIs    []string    // names; "other" stands for all architectures that have none
	Numbers []paths.Run // without the x32 bit; with a Pattern perhaps just the first
	Pattern string      // numbers of which there are many: "& 0x3 == 0x1", "many"
	Calls   []string    // names of those numbers that have one, the same in all ABIs
	When    []string    // alternatives, one of which holds; none: always
	More    bool        // there are more alternatives than When has

	A, B string // the verdicts; expressions where they depend on the input

	// Witness is one input, and RetA and RetB what it gets, by the interpreter.
	// Undecided groups have none: there, no input was found.
	Witness    seccompdata.Data
	RetA, RetB uint32
	Undecided  bool
}

// Diff compares two chains of filters, each oldest first. Inputs that no kernel
// makes, with more than 32 bits in the registers of a 32-bit ABI, do not count.
// The error is a *paths.LimitError.
func Diff(a, b []*seccompdata.Filter) (d *Difference, err error) {
	defer paths.Catch(&err)
	s := newSpace()
	ma, err := newModel(s, a)
	if err != nil {
		return nil, fmt.Errorf("the first: %w", err)
	}
	mb, err := newModel(s, b)
	if err != nil {
		return nil, fmt.Errorf("the second: %w", err)
	}
	c := &comparison{Space: s, a: a, b: b, possible: possible(s), result: &Difference{Exact: true}}
	for _, va := range ma.verdicts {
		for _, vb := range mb.verdicts {
			if differ := s.And(s.And(va.cond, vb.cond), s.Not(s.Compare(bpf.JeqX, va.value, vb.value))); differ != paths.Never {
				if err := c.pair(va.value, vb.value, differ); err != nil {
					return nil, err
				}
			}
		}
	}
	c.result.Equal = len(c.result.Groups) == 0
	slices.Sort(c.result.Why)
	c.result.Why = slices.Compact(c.result.Why)
	return c.result, nil
}

type comparison struct {
	*paths.Space
	a, b     []*seccompdata.Filter
	possible paths.Cond
	result   *Difference
}

// kind is one sort of system calls that groups are made for.
type kind struct {
	name  string
	abi   *seccompdata.ABI // nil: other architectures
	calls paths.Cond
}

func kinds(s *paths.Space) []kind {
	var out []kind
	other := paths.Always
	for _, abi := range seccompdata.ABIs() {
		c := ofABI(s, abi)
		other = s.AndNot(other, c)
		out = append(out, kind{abi.Name, abi, c})
	}
	return append(out, kind{"other", nil, other})
}

// part is a group in the making. Its numbers are without the x32 bit, which on
// x86_64 the kind has; so are all numbers of another ABI, so that it can join.
type part struct {
	numbers, rest paths.Cond // of the number, and of what comes behind it
	kinds         []kind
	exact, all    bool // a kind that is not x86 has just the numbers, or all there are
}

// fits reports whether a kind can join.
func (p *part) fits(numbers, rest paths.Cond, k kind, all bool) bool {
	return p.numbers == numbers && p.rest == rest && (k.x86() || all && !p.exact || !all && !p.all)
}

// pair makes the groups of two verdicts.
func (c *comparison) pair(va, vb *paths.Expr, differ paths.Cond) error {
	var parts []part
	for _, k := range kinds(c.Space) {
		for _, arch := range c.Split(c.And(differ, k.calls), seccompdata.OffArch) {
			for _, nr := range c.Split(arch.Rest, seccompdata.OffNr) {
				numbers, all := c.withoutBit(nr.Values, k)
				i := slices.IndexFunc(parts, func(p part) bool { return p.fits(numbers, nr.Rest, k, all) })
				if i < 0 {
					i = len(parts)
					parts = append(parts, part{numbers: numbers, rest: nr.Rest})
				}
				p := &parts[i]
				if !k.x86() {
					p.exact, p.all = !all, all
				}
				if !slices.ContainsFunc(p.kinds, func(have kind) bool { return have.name == k.name }) {
					p.kinds = append(p.kinds, k)
				}
			}
		}
	}
	for _, p := range parts {
		if err := c.group(va, vb, differ, p); err != nil {
			return err
		}
	}
	return nil
}

// group adds the group of a part, if some kernel can make one of its inputs.
func (c *comparison) group(va, vb *paths.Expr, differ paths.Cond, p part) error {
	g := Group{A: verdictText(va), B: verdictText(vb), Undecided: true}
	narrow := true
	for _, k := range p.kinds {
		inputs := c.And(c.And(c.And(differ, k.calls), c.And(p.rest, c.possible)), c.numbersOf(k, p))
		in, answer := c.Witness(inputs)
		switch {
		case answer == paths.Impossible:
			continue
		case answer == paths.Unknown:
			c.result.Exact = false
			c.result.Why = append(c.result.Why, c.Atoms(inputs)...)
		case g.Undecided:
			g.Undecided = false
			g.Witness = dataOf(in)
			g.RetA, _, _ = decide(c.a, &g.Witness)
			g.RetB, _, _ = decide(c.b, &g.Witness)
			if g.RetA == g.RetB || g.RetA != va.Eval(in) || g.RetB != vb.Eval(in) {
				return fmt.Errorf("internal error: the analysis says %s and %s to %s, the interpreter %#x and %#x",
					g.A, g.B, CallText(&g.Witness), g.RetA, g.RetB)
			}
		}
		g.ABIs = append(g.ABIs, k.name)
		narrow = narrow && k.abi != nil && k.abi.Bits == 32
	}
	if len(g.ABIs) == 0 {
		return nil
	}
	g.Numbers, g.Pattern = c.runs(p)
	g.Calls = names(p.kinds, g.Numbers)
	g.When, g.More = describe(c.Space, p.rest, narrow)
	c.result.Groups = append(c.result.Groups, g)
	return nil
}

// withoutBit takes the x32 bit out of numbers. all says that they are those of an
// ABI for which the bit is one like others, and all.
func (c *comparison) withoutBit(numbers paths.Cond, k kind) (plain paths.Cond, all bool) {
	const nr, bit = seccompdata.OffNr, seccompdata.X32Bit
	clear := c.Masked(nr, bit, 0)
	switch {
	case k.x86():
		return c.And(c.Fix(numbers, nr, bit, k.abi.Bit), clear), false
	case numbers == paths.Always:
		return clear, true
	}
	return numbers, false
}

// numbersOf are the numbers of a part for a kind, as they are in an input.
func (c *comparison) numbersOf(k kind, p part) paths.Cond {
	if k.x86() || p.all { // k.calls has the bit
		return c.Fix(p.numbers, seccompdata.OffNr, seccompdata.X32Bit, 0)
	}
	return p.numbers
}

func (k kind) x86() bool { return k.abi != nil && k.abi.Arch == seccompdata.ArchX86_64 }

// maxNumbers bounds the ranges that a group lists.
const maxNumbers = 1000

// runs are the numbers of a part as ranges, or, where those are many, as
// patterns. What goes on beyond the x32 bit is one range.
func (c *comparison) runs(p part) (runs []paths.Run, pattern string) {
	runs, all := c.Runs(p.numbers, seccompdata.OffNr, maxNumbers)
	if len(runs) > few {
		if text := setText(c.Space, seccompdata.OffNr, p.numbers, nil); strings.HasPrefix(text, "&") {
			pattern = text
		} else if !all {
			pattern = "many"
		}
	}
	if n := len(runs); n > 1 && !p.exact &&
		runs[n-2].Hi == seccompdata.X32Bit-1 && runs[n-1] == (paths.Run{Lo: 1 << 31, Hi: 1<<31 + seccompdata.X32Bit - 1}) {
		runs[n-2].Hi = 1<<32 - 1
		runs = runs[:n-1]
	}
	if !all {
		runs = runs[:maxNumbers]
	}
	return runs, pattern
}

// names lists the calls whose number is in the runs, in the order of the
// numbers. Where several ABIs are concerned they must agree; x32 goes with
// x86_64.
func names(kinds []kind, runs []paths.Run) []string {
	var out []string
	for i, k := range kinds {
		if k.abi == nil || i > 0 && k.abi == seccompdata.X32 && kinds[0].abi == seccompdata.X86_64 {
			continue
		}
		mine := namesIn(k.abi, runs)
		if i > 0 && !slices.Equal(mine, out) {
			return nil
		}
		out = mine
	}
	return out
}

func namesIn(abi *seccompdata.ABI, runs []paths.Run) []string {
	var out []string
	for _, nr := range abi.Numbers() {
		_, found := slices.BinarySearchFunc(runs, nr&^abi.Bit, func(r paths.Run, nr uint32) int {
			switch {
			case r.Hi < nr:
				return -1
			case r.Lo > nr:
				return 1
			}
			return 0
		})
		if found {
			name, _ := abi.Call(nr)
			out = append(out, name)
		}
	}
	return out
}

// Where says which calls the group has: "x86_64 ioctl when args[1] == 0x5413".
func (g Group) Where() string {
	text := fmt.Sprintf("%s %s", strings.Join(g.ABIs, ", "), g.numbers())
	if len(g.When) > 0 {
		text += " when " + strings.Join(g.When, "; or ")
	}
	if g.More {
		text += "; ..."
	}
	return text
}

// String is the group in a line.
func (g Group) String() string { return fmt.Sprintf("%s: %s, %s", g.Where(), g.A, g.B) }

// few is how many calls or ranges are written out.
const few = 12

// numbers writes the calls of a group by their names, numbers where they have
// none.
func (g Group) numbers() string {
	if len(g.Numbers) == 1 && g.Numbers[0] == (paths.Run{Lo: 0, Hi: 1<<32 - 1}) {
		return "all calls"
	}
	var total uint64
	var runs []string
	for i, r := range g.Numbers {
		total += uint64(r.Hi) - uint64(r.Lo) + 1
		switch {
		case i < few:
			runs = append(runs, g.runText(r))
		case i == few:
			runs = append(runs, "...")
		}
	}
	if g.Pattern != "" && g.Pattern != "many" {
		return "nr " + g.Pattern
	}
	numbers := "nr " + strings.Join(runs, ", ")
	switch {
	case uint64(len(g.Calls)) == total && total <= few:
		return strings.Join(g.Calls, ", ")
	case len(g.Calls) > few:
		return fmt.Sprintf("%s (%s and %d more)", numbers, strings.Join(g.Calls[:few], ", "), len(g.Calls)-few)
	case len(g.Calls) > 0:
		return fmt.Sprintf("%s (%s)", numbers, strings.Join(g.Calls, ", "))
	}
	return numbers
}

// runText writes a range of numbers. Those of the upper half are negative, and
// those of x32 only get their bit back for that.
func (g Group) runText(r paths.Run) string {
	if r.Lo == 1<<31 && (r.Hi == 1<<32-1 || r.Hi == 1<<31+seccompdata.X32Bit-1) {
		return "negative"
	}
	number := func(nr uint32) int32 {
		if nr >= 1<<31 && len(g.ABIs) == 1 && g.ABIs[0] == seccompdata.X32.Name {
			nr |= seccompdata.X32Bit
		}
		return int32(nr)
	}
	switch {
	case r.Lo == r.Hi:
		return fmt.Sprint(number(r.Lo))
	case r.Hi == 1<<32-1 && r.Lo < 1<<31:
		return fmt.Sprintf("from %d on", r.Lo)
	case r.Hi < 1<<31:
		return fmt.Sprintf("%d-%d", r.Lo, r.Hi)
	}
	return fmt.Sprintf("%d to %d", number(r.Lo), number(r.Hi))
}
