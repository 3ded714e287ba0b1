package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// Severity says how bad a finding is.
type Severity uint8

const (
	Note    Severity = iota // worth knowing; may well be wanted
	Warning                 // most probably not wanted
	Error                   // what the filter denies can be had in another way
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// MarshalText writes "note", "warning" or "error".
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Note, Warning, Error} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("severity %q: want note, warning or error", text)
}

// Check is one thing that [Lint] looks for. IDs stay what they are.
type Check struct {
	ID    string
	About string
	run   func(*linter) // nil: found by another check
}

// Checks lists what Lint looks for.
func Checks() []Check { return slices.Clone(checks) }

// checks is filled by init, for the functions refer to it.
var checks []Check

func init() {
	checks = []Check{
		{"arch-unchecked", "The verdict does not depend on the architecture, though numbers mean other calls on others.", (*linter).archUnchecked},
		{"arch-foreign", "Calls of architectures that the filter does not test are allowed.", (*linter).archForeign},
		{"x32-bypass", "With the x32 bit in its number, a call of x86_64 gets a weaker verdict.", (*linter).x32},
		{"multiplexer-bypass", "socketcall or ipc of i386 lets through what the filter restricts in the calls it stands for.", (*linter).multiplexers},
		{"int-arg-bypass", "An int argument is compared with all 64 bits: garbage in the upper half, which the kernel ignores, weakens the verdict.", (*linter).arguments},
		{"sign-extension", "A negative int argument gets a stronger verdict where the caller sign-extended it.", nil},
		{"int-arg-garbage", "Garbage in the upper half of an int argument strengthens the verdict.", nil},
		{"low-word-compare", "A 64-bit argument is decided on by its low word alone.", nil},
		{"split-compare", "The halves of a 64-bit argument are ordered one by one, which is no order of 64-bit numbers.", nil},
		{"pointer-compare", "The verdict depends on a pointer, whose target a filter cannot see.", nil},
		{"always-true", "An argument is compared, but the verdict is the same whatever it is: conditions joined by OR that leave out no value.", (*linter).alwaysTrue},
		{"unknown-errno", "Calls newer than all that are known fail with another error than ENOSYS, so that libraries do not fall back to older ones.", (*linter).unknownCalls},
		{"unknown-kill", "Calls newer than all that are known kill, so that libraries cannot fall back to older ones.", nil},
		{"unknown-action", "A return value has an action that kernels do not know: they kill.", (*linter).unknownActions},
		{"unreachable-rule", "No input makes a rule of the policy decide anything.", (*linter).unreachable},
		{"unreachable", "No input reaches an instruction.", nil},
		{"instruction-pointer", "The verdict depends on the address of the call, which an attacker may jump to.", (*linter).instructionPointer},
		{"division-by-zero", "Some inputs end the filter by a division by 0, which kills the thread.", (*linter).divisionByZero},
		{"cache-lost", "Calls are allowed whatever their arguments, but by instructions that the kernel's cache does not follow.", (*linter).cacheLost},
		{"computed-verdict", "A return value is computed from the input: the other checks leave it out.", (*linter).computed},
		{"undecided", "Comparisons that are not with constants: what depends on them is not known exactly.", (*linter).undecided},
		{"profile", "The reader of the profile found something that does not mean what it may seem to.", (*linter).profile},
	}
}

// Finding is something about a filter that its author should know.
type Finding struct {
	ID       string
	Severity Severity
	Filter   int    // 0 is the oldest
	PC       int    // the instruction it is about, -1: the filter as a whole
	Rule     string // the rule it is about, where that is known
	Sentence string
	Cases    []Case // inputs that show it, run by the interpreter
}

// Case is an input with what it gets.
type Case struct {
	Call seccompdata.Data
	Ret  uint32
}

func (c Case) String() string {
	return CallText(&c.Call) + ": " + seccompdata.FormatRet(c.Ret)
}

// Origin is what a filter was compiled from.
type Origin struct {
	Rules    []int    // for each pc the rule it belongs to, -1 for none or several
	Names    []string // of the rules
	Warnings []string // of the reader of the profile
}

// Lint looks a chain of filters through, oldest first. origins may be nil, or
// have nil for filters of unknown origin. The error is a *paths.LimitError.
func Lint(filters []*seccompdata.Filter, origins []*Origin) (found []Finding, err error) {
	defer paths.Catch(&err)
	m, err := newModel(newSpace(), filters)
	if err != nil {
		return nil, err
	}
	l := &linter{model: m, origins: origins, mentions: map[subject]*mention{}}
	l.known, _ = m.constants()
	for _, abi := range seccompdata.ABIs() {
		l.views = append(l.views, l.view(abi))
	}
	l.foreign = l.untested()
	for _, c := range checks {
		if c.run != nil {
			c.run(l)
		}
		if l.err != nil {
			return nil, l.err
		}
	}
	slices.SortStableFunc(l.found, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	return l.found, nil
}

type linter struct {
	*model
	origins []*Origin
	known   []known
	views   []view
	foreign view
	found   []Finding
	err     error

	mentions map[subject]*mention // of findings about arguments
}

// view is what one ABI sees: the verdicts for its calls, by number without the
// x32 bit, and arguments.
type view struct {
	abi   *seccompdata.ABI
	known []known
}

func (l *linter) view(abi *seccompdata.ABI) view {
	v := view{abi: abi}
	for _, k := range l.known {
		if c := l.within(abi, k.cond); c != paths.Never {
			v.known = append(v.known, known{k.ret, c})
		}
	}
	return v
}

// within is a condition for the calls of an ABI. Upper halves that it does not
// have are 0.
func (l *linter) within(abi *seccompdata.ABI, c paths.Cond) paths.Cond {
	c = l.wide(abi, c)
	if abi.Bits == 32 {
		c = narrowed(l.Space, c)
	}
	return c
}

// wide is within for registers of 64 bits, whichever the ABI has.
func (l *linter) wide(abi *seccompdata.ABI, c paths.Cond) paths.Cond {
	c = l.Substitute(c, seccompdata.OffArch, abi.Arch)
	if abi.Arch == seccompdata.ArchX86_64 {
		c = l.Fix(c, seccompdata.OffNr, seccompdata.X32Bit, abi.Bit)
	}
	return c
}

// viewOf returns the view of an ABI that is known.
func (l *linter) viewOf(abi *seccompdata.ABI) view {
	return l.views[slices.IndexFunc(l.views, func(v view) bool { return v.abi == abi })]
}

// of returns the verdicts for one call, with the bit of the ABI in its number or
// without.
func (l *linter) of(v view, nr uint32) []known {
	var out []known
	for _, k := range v.known {
		if c := l.Substitute(k.cond, seccompdata.OffNr, nr); c != paths.Never {
			out = append(out, known{k.ret, c})
		}
	}
	return out
}

// allowsSome reports whether any of the verdicts lets calls through.
func allowsSome(verdicts []known) bool {
	return slices.ContainsFunc(verdicts, func(k known) bool { return allows(k.ret) })
}

// checks reports whether any verdict depends on the word.
func (l *linter) checks(word uint32) bool {
	return slices.ContainsFunc(l.verdicts, func(v verdict) bool {
		return dependsOn(l.Space, v.cond, word)
	})
}

func (l *linter) checksArch() bool { return l.checks(seccompdata.OffArch) }

// example is an input in c that a kernel can make, of an ABI that is known if
// there is one.
func (l *linter) example(c paths.Cond) (d seccompdata.Data, ok bool) {
	c = l.And(c, possible(l.Space))
	for _, k := range kinds(l.Space) {
		if in, answer := l.Witness(l.And(c, k.calls)); answer == paths.Found {
			return dataOf(in), true
		}
	}
	return d, false
}

// untested is what architectures get that the filters do not test for.
func (l *linter) untested() view {
	tested := map[uint32]bool{}
	for _, m := range l.maps {
		for v := range wordMarks(l.Space, m)[seccompdata.OffArch] {
			tested[v] = true
		}
	}
	other := &seccompdata.ABI{Name: "other", Bits: 64}
	for tested[other.Arch] || seccompdata.ABIOf(other.Arch, 0) != nil {
		other.Arch++
	}
	return l.view(other)
}

// handles reports whether the filters treat the ABI otherwise than those they
// do not test for.
func (l *linter) handles(abi *seccompdata.ABI) bool {
	// Compared as foreign ones are: by all bits that they may have.
	for _, k := range l.known {
		if l.wide(abi, k.cond) != l.wide(l.foreign.abi, k.cond) {
			return true
		}
	}
	return false
}

// handled are the views of the ABIs that the filters are made for: those they
// test for, or all if they test for none.
func (l *linter) handled() []view {
	all := !l.checksArch()
	return slices.DeleteFunc(slices.Clone(l.views), func(v view) bool {
		return !allowsSome(v.known) || !all && !l.handles(v.abi)
	})
}

// named are the numbers that the ABI has names for, without the x32 bit.
func (l *linter) named(abi *seccompdata.ABI) paths.Cond {
	c := paths.Never
	for _, nr := range abi.Numbers() {
		c = l.Or(c, l.Is(seccompdata.OffNr, nr&^abi.Bit))
	}
	return c
}

// call makes a call of the ABI of an input of its view.
func call(abi *seccompdata.ABI, in paths.Words) seccompdata.Data {
	d := dataOf(in)
	d.Arch, d.Nr = abi.Arch, d.Nr|abi.Bit
	return d
}

// report adds a finding. The place is where the first case is decided, unless pc
// says otherwise; every case must get what the analysis says.
func (l *linter) report(id string, severity Severity, word uint32, sentence string, cases ...Case) (reported bool) {
	f := Finding{ID: id, Severity: severity, PC: -1, Sentence: sentence, Cases: cases}
	for i, c := range cases {
		ret, filter, v := decide(l.filters, &c.Call)
		if ret != c.Ret {
			if !l.exact() {
				return false // where atoms take part, a case may be none
			}
			l.err = fmt.Errorf("internal error: %s: the analysis says %s, the interpreter %s", id, c, seccompdata.FormatRet(ret))
			return false
		}
		if i == 0 && filter >= 0 {
			f.Filter, f.PC = filter, v.PC
			f.Rule = l.rule(filter, v.PC)
		}
		if i == 0 && word != paths.NoWord {
			l.place(&f, &c.Call, word)
		}
	}
	l.found = append(l.found, f)
	return true
}

// exact reports whether no verdict depends on atoms.
func (l *linter) exact() bool {
	return !slices.ContainsFunc(l.verdicts, func(v verdict) bool { return !l.Exact(v.cond) })
}

// place moves a finding to the instruction that loads the word.
func (l *linter) place(f *Finding, d *seccompdata.Data, word uint32) {
	for i := len(l.filters) - 1; i >= 0; i-- {
		for _, pc := range l.filters[i].Path(d) {
			if ins := l.filters[i].Program()[pc]; ins.Code == bpf.LdWAbs && ins.K == word {
				f.Filter, f.PC = i, pc
				if rule := l.rule(i, pc); rule != "" {
					f.Rule = rule
				}
				return
			}
		}
	}
}

func (l *linter) origin(filter int) *Origin {
	if filter < len(l.origins) {
		return l.origins[filter]
	}
	return nil
}

// rule is the name of the rule that an instruction belongs to.
func (l *linter) rule(filter, pc int) string {
	o := l.origin(filter)
	if o == nil || pc < 0 || pc >= len(o.Rules) || o.Rules[pc] < 0 || o.Rules[pc] >= len(o.Names) {
		return ""
	}
	return o.Names[o.Rules[pc]]
}

// some lists a few names, and says how many more there are.
func some(names []string) string {
	const few = 6
	if len(names) <= few+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
