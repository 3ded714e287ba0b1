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
			for n := range 6 {
				a := argument{v.abi, nr, name, n, verdicts}
				low, high := l.depends(verdicts, argLow(n)), l.depends(verdicts, argHigh(n))
				kind := argumentWidth(name, n)
				switch {
				case kind == widthPointer && (low || high):
					l.pointer(a)
				case kind == widthInt && high:
					l.intArgument(a)
				case kind != widthInt && low && !high:
					l.lowWord(a, kind)
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

func (l *linter) depends(verdicts []known, word uint32) bool {
	return slices.ContainsFunc(verdicts, func(k known) bool {
		return slices.Contains(l.Depends(k.cond), word)
	})
}

// argument is an argument of a call, with the verdicts for the call.
type argument struct {
	abi      *seccompdata.ABI
	nr       uint32
	call     string
	n        int
	verdicts []known
}

func (a argument) String() string { return fmt.Sprintf("args[%d] of %s", a.n, a.call) }

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
					l.report(try.id, severity, high, fmt.Sprintf(try.sentence, a), cases...)
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
		if !slices.Contains(l.Depends(weak.cond), low) || !slices.ContainsFunc(a.verdicts, func(k known) bool { return weaker(weak.ret, k.ret) }) {
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
		l.report("low-word-compare", severity, low,
			fmt.Sprintf("%s %s, and only its low word is compared: values that differ in the upper half count as equal", a, what),
			Case{a.at(in, paths.Words{high: 1}), weak.ret}, Case{a.at(in, nil), weak.ret})
		return
	}
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
		words := l.Depends(k.cond)
		if !slices.Contains(words, argLow(a.n)) && !slices.Contains(words, argHigh(a.n)) {
			continue
		}
		if in, answer := l.Witness(k.cond); answer == paths.Found {
			l.report("pointer-compare", Warning, argLow(a.n),
				fmt.Sprintf("%s is a pointer: its address is compared, what lies there no filter can see", a), Case{a.at(in, nil), k.ret})
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
