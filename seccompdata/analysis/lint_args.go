package analysis

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// arguments looks at how the arguments of each call are compared, where they
// have 64 bits.
func (l *linter) arguments() {
	for _, v := range l.handled() {
		if v.abi.Bits != 64 || v.abi == seccompdata.X32 {
			continue
		}
		looking := l.looking(v)
		for _, nr := range v.abi.Numbers() {
			if !l.Holds(looking, paths.Words{seccompdata.OffNr: nr}) {
				continue
			}
			name, _ := v.abi.Call(nr)
			verdicts := l.of(v, nr)
			compared := map[uint32]bool{} // words
			for _, k := range verdicts {
				for _, word := range l.Depends(k.cond) {
					compared[word] = true
				}
			}
			for n := range 6 {
				a := argument{v.abi, nr, name, n, verdicts}
				low, high := compared[argLow(n)], compared[argHigh(n)]
				kind := argumentWidth(name, n)
				switch {
				case kind == widthPointer && (low || high):
					l.pointer(a)
				case kind == widthInt && high:
					l.intArgument(a)
				case kind != widthInt && low && !high:
					l.lowWord(a, kind)
				case low && high:
					l.splitCompare(a)
				}
			}
		}
	}
}

// looking are the numbers for which a verdict depends on more than the number.
func (l *linter) looking(v view) paths.Cond {
	c := paths.Never
	for _, k := range v.known {
		for _, part := range l.Split(k.cond, seccompdata.OffNr) {
			if part.Rest != paths.Always {
				c = l.Or(c, part.Values)
			}
		}
	}
	return c
}

// argument is an argument of a call, with the verdicts for the call.
type argument struct {
	abi      *seccompdata.ABI
	nr       uint32
	call     string
	n        int
	verdicts []known
}

// subject is what findings about arguments have in common that become one.
type subject struct {
	id, sentence string
	severity     Severity
	abi          *seccompdata.ABI
	n            int
	filter, pc   int
}

// mention is where a subject was found, and for which calls.
type mention struct {
	at    int // in linter.found
	calls []string
}

// reportArgument reports something about an argument, whose name is put into the
// sentence. A filter that compares an argument before it knows which call it is
// for does so for hundreds of calls: they share one finding.
func (l *linter) reportArgument(id string, severity Severity, word uint32, sentence string, a argument, cases ...Case) {
	if !l.report(id, severity, word, sentence, cases...) {
		return
	}
	last := len(l.found) - 1
	key := subject{id, sentence, severity, a.abi, a.n, l.found[last].Filter, l.found[last].PC}
	m := l.mentions[key]
	if m == nil {
		m = &mention{at: last}
		l.mentions[key] = m
	} else {
		l.found = l.found[:last]
	}
	m.calls = append(m.calls, a.call)
	l.found[m.at].Sentence = fmt.Sprintf(sentence, fmt.Sprintf("args[%d] of %s", a.n, some(m.calls)))
}

// at is a call with the given words, those of in replaced by set.
func (a argument) at(in, set paths.Words) seccompdata.Data {
	all := paths.Words{}
	for _, words := range []paths.Words{in, set, {seccompdata.OffNr: a.nr}} {
		for off, value := range words {
			all[off] = value
		}
	}
	return call(a.abi, all)
}

// change finds an input for which the verdict is from where the upper half of
// the argument is high, and to where it is as in the input.
func (l *linter) change(a argument, high uint32, from, to known, also paths.Cond) (cases []Case, ok bool) {
	word := argHigh(a.n)
	c := l.And(l.And(l.Fix(from.cond, word, 1<<32-1, high), to.cond), also)
	in, answer := l.Witness(c)
	if answer != paths.Found {
		return nil, false
	}
	return []Case{
		{a.at(in, nil), to.ret},
		{a.at(in, paths.Words{word: high}), from.ret},
	}, true
}

// intArgument is for an argument of which the kernel sees the low half alone,
// and the verdict depends on the upper one.
func (l *linter) intArgument(a argument) {
	low, high := argLow(a.n), argHigh(a.n)
	negative := l.And(l.Between(low, 1<<31, 1<<32-1), l.Is(high, 1<<32-1))
	for _, try := range []struct {
		id       string
		severity Severity
		bypass   bool // the upper half makes the verdict weaker
		also     paths.Cond
		sentence string
	}{
		{"int-arg-bypass", Error, true, paths.Always,
			"%s is an int, of which the kernel ignores the upper half, and compared with all 64 bits: with something there the verdict gets weaker; compare the low word only"},
		{"sign-extension", Warning, false, negative,
			"%s is an int: negative values get a stronger verdict where the caller sign-extended them to 64 bits; compare the low word only"},
		{"int-arg-garbage", Note, false, paths.Always,
			"%s is an int, of which the kernel ignores the upper half: with something there the verdict gets stronger"},
	} {
		for _, from := range a.verdicts {
			for _, to := range a.verdicts {
				if from.ret == to.ret || weaker(to.ret, from.ret) != try.bypass {
					continue
				}
				if cases, ok := l.change(a, 0, from, to, try.also); ok {
					severity := try.severity
					if try.bypass && (!allows(to.ret) || allows(from.ret)) {
						severity = Warning
					}
					l.reportArgument(try.id, severity, high, try.sentence, a, cases...)
					if try.bypass {
						break // it may be denied wrongly elsewhere, too
					}
					return
				}
			}
		}
	}
}

// lowWord is for an argument that may have 64 bits, of which the filter looks at
// the low half alone. That is right for masks.
func (l *linter) lowWord(a argument, kind width) {
	low, high := argLow(a.n), argHigh(a.n)
	if !l.comparesWhole(low) {
		return
	}
	for _, weak := range a.verdicts {
		if !dependsOn(l.Space, weak.cond, low) || !slices.ContainsFunc(a.verdicts, func(k known) bool { return weaker(weak.ret, k.ret) }) {
			continue
		}
		in, answer := l.Witness(weak.cond)
		if answer != paths.Found {
			continue
		}
		severity, what := Warning, "has 64 bits"
		if kind == widthUnknown {
			severity, what = Note, "may have 64 bits"
		}
		l.reportArgument("low-word-compare", severity, low,
			"%s "+what+", and only its low word is compared: values that differ in the upper half count as equal", a,
			Case{a.at(in, paths.Words{high: 1}), weak.ret}, Case{a.at(in, nil), weak.ret})
		return
	}
}

// splitCompare finds an order of 64-bit numbers that was made of two orders of
// 32-bit ones: the low word is compared where the upper halves alone decide. In
// a right one no two neighbouring upper halves leave it to the same comparison.
func (l *linter) splitCompare(a argument) {
	low, high := argLow(a.n), argHigh(a.n)
	matters := paths.Never // where the low word makes a difference
	for _, k := range a.verdicts {
		words := slices.DeleteFunc(l.Depends(k.cond), func(word uint32) bool { return word == low })
		matters = l.Or(matters, l.And(l.Project(k.cond, words...), l.Project(l.Not(k.cond), words...)))
	}
	for _, m := range l.maps {
		for _, t := range m.Tests {
			bound, constant := t.R.Const()
			if t.L != l.Word(low) || !constant || t.Code != bpf.JgtX && t.Code != bpf.JgeX || t.Taken == paths.Never || t.Taken == paths.Always {
				continue
			}
			if t.Code == bpf.JgtX {
				bound++ // the least value for which it holds
			}
			here := l.And(matters, l.Substitute(l.within(a.abi, t.Reach), seccompdata.OffNr, a.nr))
			runs, _ := l.Runs(l.Project(here, high), high, 16)
			for _, run := range runs {
				in, answer := l.Witness(l.And(here, l.Is(high, run.Lo)))
				above := l.decided(a.at(in, paths.Words{low: bound}))
				next := l.decided(a.at(in, paths.Words{high: run.Lo + 1, low: bound - 1}))
				if run.Lo == run.Hi || answer != paths.Found || above.Ret == next.Ret {
					continue
				}
				l.reportArgument("split-compare", Warning, low,
					"%s has 64 bits, and its halves are ordered one by one: where the upper half is below its bound already, the low word is compared all the same, so that a greater value gets what a smaller one does not; compare the low word only where the upper half is equal", a,
					above, next)
				return
			}
		}
	}
}

// decided is a call with what the interpreter says of it.
func (l *linter) decided(d seccompdata.Data) Case {
	ret, _, _ := decide(l.filters, &d)
	return Case{d, ret}
}

// comparesWhole reports whether some filter compares the word as it is, not
// under a mask.
func (l *linter) comparesWhole(word uint32) bool {
	for _, m := range l.maps {
		for _, t := range m.Tests {
			if t.L == l.Word(word) && t.Code != bpf.JsetX {
				return true
			}
		}
	}
	return false
}

func (l *linter) pointer(a argument) {
	for _, k := range a.verdicts {
		if !dependsOn(l.Space, k.cond, argLow(a.n), argHigh(a.n)) {
			continue
		}
		if in, answer := l.Witness(k.cond); answer == paths.Found {
			l.reportArgument("pointer-compare", Warning, argLow(a.n),
				"%s is a pointer: its address is compared, what lies there no filter can see", a, Case{a.at(in, nil), k.ret})
			return
		}
	}
}

// alwaysTrue finds comparisons of an argument after which the filter returns the
// same, whatever came of them.
func (l *linter) alwaysTrue() {
	for i, m := range l.maps {
		ends := l.endsOf(m)
		for _, v := range l.handled() {
			for n := range 6 {
				l.alwaysTrueIn(i, m, ends, v.abi, n)
			}
		}
	}
}

// endsOf joins the ends of one filter by value.
func (l *linter) endsOf(m *paths.Map) []known {
	var out []known
	for _, e := range m.Ends {
		ret, ok := e.Value.Const()
		if !ok {
			continue
		}
		i := slices.IndexFunc(out, func(k known) bool { return k.ret == ret })
		if i < 0 {
			i = len(out)
			out = append(out, known{ret: ret})
		}
		out[i].cond = l.Or(out[i].cond, e.Cond)
	}
	return out
}

func (l *linter) alwaysTrueIn(filter int, m *paths.Map, ends []known, abi *seccompdata.ABI, n int) {
	low, high := argLow(n), argHigh(n)
	where := paths.Never // the numbers for which the argument is compared
	for _, t := range m.Tests {
		words := append(t.L.Words(), t.R.Words()...)
		if slices.Contains(words, low) || slices.Contains(words, high) {
			where = l.Or(where, l.Project(l.within(abi, t.Reach), seccompdata.OffNr))
		}
	}
	if where == paths.Never {
		return
	}
	v := view{abi: abi}
	for _, k := range ends {
		v.known = append(v.known, known{k.ret, l.within(abi, k.cond)})
	}
	for _, nr := range abi.Numbers() {
		if !l.Holds(where, paths.Words{seccompdata.OffNr: nr &^ abi.Bit}) {
			continue
		}
		verdicts := l.of(v, nr&^abi.Bit)
		if len(verdicts) != 1 || verdicts[0].cond != paths.Always {
			continue // it depends on something, if not on this
		}
		name, _ := abi.Call(nr)
		f := Finding{ID: "always-true", Severity: Warning, Filter: filter, Sentence: fmt.Sprintf(
			"args[%d] of %s (%s) is compared, and the verdict is %s whatever it is: conditions that leave out no value, or were joined by OR instead of AND",
			n, name, abi, seccompdata.FormatRet(verdicts[0].ret))}
		for _, value := range []uint64{0, 1<<32 - 1} {
			d := seccompdata.Data{Arch: abi.Arch, Nr: nr}
			d.Args[n] = value
			f.Cases = append(f.Cases, Case{d, l.filters[filter].Run(&d).Ret})
		}
		f.PC = l.loads(filter, &f.Cases[0].Call, low, high)
		f.Rule = l.rule(filter, f.PC)
		l.found = append(l.found, f)
	}
}

// loads is the first instruction that the filter loads one of the words with.
func (l *linter) loads(filter int, d *seccompdata.Data, words ...uint32) int {
	for _, pc := range l.filters[filter].Path(d) {
		if ins := l.filters[filter].Program()[pc]; ins.Code == bpf.LdWAbs && slices.Contains(words, ins.K) {
			return pc
		}
	}
	return -1
}
