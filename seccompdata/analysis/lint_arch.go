package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

func (l *linter) archUnchecked() {
	if l.checksArch() || !l.checks(seccompdata.OffNr) {
		return
	}
	// The most telling number: denied, and another call elsewhere.
	byStrength := slices.SortedFunc(slices.Values(l.known), func(a, b known) int {
		return int(int64(rank(a.ret)) - int64(rank(b.ret)))
	})
	a, b := seccompdata.X86_64, seccompdata.I386
	for _, k := range byStrength {
		both := l.And(l.And(l.within(a, k.cond), l.within(b, k.cond)), zeroHigh(l.Space))
		for _, nr := range a.Numbers() {
			nameA, _ := a.Call(nr)
			nameB, ok := b.Call(nr)
			if nameA == nameB || !ok {
				continue
			}
			in, answer := l.Witness(l.And(both, l.Is(seccompdata.OffNr, nr)))
			if answer != paths.Found {
				continue
			}
			if l.report("arch-unchecked", Error, paths.NoWord,
				fmt.Sprintf("the verdict does not depend on the architecture: number %d is %s on %s and %s on %s; load [4] and compare it before the number", nr, nameA, a, nameB, b),
				Case{call(a, in), k.ret}, Case{call(b, in), k.ret}) {
				l.found[len(l.found)-1].PC = -1
			}
			return
		}
	}
}

func (l *linter) archForeign() {
	if !l.checksArch() {
		return // archUnchecked has it
	}
	foreign := l.foreign
	if !allowsSome(foreign.known) {
		return
	}
	var names []string
	var reach *seccompdata.ABI // one that the kernel of a handled one also runs
	handled := l.handled()
	for _, v := range l.views {
		if v.abi == seccompdata.X32 || l.handles(v.abi) {
			continue
		}
		names = append(names, v.abi.Name)
		for _, h := range handled {
			if seccompdata.NativeOf(v.abi) == seccompdata.NativeOf(h.abi) || h.abi == seccompdata.AARCH64 && v.abi == seccompdata.ARM {
				reach = v.abi
			}
		}
	}
	names = append(names, "others")
	severity := Warning
	abi := foreign.abi
	if reach != nil {
		severity, abi = Error, reach
	}
	var allowed []string
	for _, k := range foreign.known {
		if text := seccompdata.FormatRet(k.ret); allows(k.ret) {
			if k.cond != paths.Always {
				text += " for some calls"
			}
			allowed = append(allowed, text)
		}
	}
	sentence := fmt.Sprintf("calls of architectures that it does not test for (%s) get %s", strings.Join(names, ", "), strings.Join(allowed, ", "))
	if reach != nil {
		sentence += fmt.Sprintf("; a process can make calls of %s on the same kernel", reach)
	}
	l.report("arch-foreign", severity, paths.NoWord, sentence, l.bypass(abi, handled)...)
}

// bypass finds a call that is denied to a handled ABI and allowed to abi; or
// just one that is allowed.
func (l *linter) bypass(abi *seccompdata.ABI, handled []view) []Case {
	mine := l.view(abi)
	if !slices.Contains(seccompdata.ABIs(), abi) {
		handled = nil // it has no names
	}
	for _, h := range handled {
		for _, nr := range h.abi.Numbers() {
			name, _ := h.abi.Call(nr)
			other, ok := abi.Number(name)
			if !ok {
				continue
			}
			for _, denied := range l.of(h, nr) {
				for _, allowed := range l.of(mine, other) {
					if allows(denied.ret) || !allows(allowed.ret) {
						continue
					}
					c := l.And(l.And(denied.cond, allowed.cond), zeroHigh(l.Space))
					if in, answer := l.Witness(c); answer == paths.Found {
						theirs, ours := call(h.abi, in), call(abi, in)
						theirs.Nr, ours.Nr = nr, other
						return []Case{{ours, allowed.ret}, {theirs, denied.ret}}
					}
				}
			}
		}
	}
	for _, k := range mine.known {
		if in, answer := l.Witness(k.cond); allows(k.ret) && answer == paths.Found {
			return []Case{{call(abi, in), k.ret}}
		}
	}
	return nil
}

func (l *linter) x32() {
	native, x32 := l.viewOf(seccompdata.X86_64), l.viewOf(seccompdata.X32)
	if l.checksArch() && !l.handles(seccompdata.X86_64) {
		return // as foreign as others
	}
	// What only garbage in upper halves does is no matter of x32.
	usual := l.And(l.named(seccompdata.X86_64), zeroHigh(l.Space))
	var calls []string
	var first []Case
	severity := Warning
	for _, strong := range native.known {
		for _, weak := range x32.known {
			if !weaker(weak.ret, strong.ret) || refuses(weak.ret) {
				continue
			}
			c := l.And(l.And(strong.cond, weak.cond), usual)
			in, answer := l.Witness(c)
			if answer != paths.Found {
				continue
			}
			if allows(weak.ret) && !allows(strong.ret) && severity != Error {
				severity, first = Error, nil
			}
			if first == nil {
				first = []Case{{call(seccompdata.X32, in), weak.ret}, {call(seccompdata.X86_64, in), strong.ret}}
			}
			numbers := l.Project(c, seccompdata.OffNr)
			for _, nr := range seccompdata.X86_64.Numbers() {
				if name, _ := seccompdata.X86_64.Call(nr); l.Holds(numbers, paths.Words{seccompdata.OffNr: nr}) && !slices.Contains(calls, name) {
					calls = append(calls, name)
				}
			}
		}
	}
	if first != nil {
		l.report("x32-bypass", severity, paths.NoWord, fmt.Sprintf(
			"with bit 30 in its number, which makes it a call of x32, %s gets a weaker verdict: refuse numbers from 0x40000000 on", some(calls)), first...)
	}
}

func (l *linter) multiplexers() {
	v := l.viewOf(seccompdata.I386)
	if !l.checksArch() || !l.handles(v.abi) {
		return
	}
	for _, m := range seccompdata.Multiplexers() {
		nr, _ := v.abi.Number(m.Name)
		var open []string
		var first []Case
		for code, name := range m.Calls {
			direct, ok := v.abi.Number(name)
			if !ok {
				continue
			}
			for _, weak := range l.of(v, nr) {
				through := l.And(weak.cond, l.Is(argLow(0), uint32(code)))
				in, answer := l.Witness(through)
				if !allows(weak.ret) || answer != paths.Found {
					continue
				}
				for _, strong := range l.of(v, direct) {
					denied, answer := l.Witness(strong.cond)
					if allows(strong.ret) || answer != paths.Found {
						continue
					}
					in[seccompdata.OffNr], denied[seccompdata.OffNr] = nr, direct
					if first == nil {
						first = []Case{{call(v.abi, in), weak.ret}, {call(v.abi, denied), strong.ret}}
					}
					if !slices.Contains(open, name) {
						open = append(open, name)
					}
				}
			}
		}
		if first != nil {
			l.report("multiplexer-bypass", Warning, paths.NoWord, fmt.Sprintf(
				"%s of i386 is allowed and does what the filter restricts in %s; its arguments lie in memory, where no filter sees them", m.Name, some(open)), first...)
		}
	}
}
