package analysis

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

// unknownCalls looks at the numbers behind the last that has a name.
func (l *linter) unknownCalls() {
	const ahead = 100
	if !l.checks(seccompdata.OffNr) {
		return
	}
	for _, v := range l.handled() {
		if v.abi == seccompdata.X32 && l.checksArch() && !l.handles(v.abi) {
			continue
		}
		last := v.abi.Last() &^ v.abi.Bit
		newer := l.Between(seccompdata.OffNr, last+1, last+ahead)
		for _, k := range v.known {
			in, answer := l.Witness(l.And(k.cond, newer))
			if answer != paths.Found {
				continue
			}
			c := Case{call(v.abi, in), k.ret}
			switch action := seccompdata.ActionOf(k.ret); {
			case action == seccompdata.Errno && seccompdata.LinuxErrno(k.ret&seccompdata.DataMask) != seccompdata.ENOSYS:
				l.report("unknown-errno", Warning, paths.NoWord, fmt.Sprintf(
					"calls of %s after the last known one, number %d, get %s: libraries that try a new call fall back to an old one on ENOSYS (38) only", v.abi, last, seccompdata.FormatRet(k.ret)), c)
			case action == seccompdata.KillProcess || action == seccompdata.KillThread || action == seccompdata.Trap:
				l.report("unknown-kill", Note, paths.NoWord, fmt.Sprintf(
					"calls of %s after the last known one, number %d, get %s: libraries that try a new call cannot fall back to an old one", v.abi, last, seccompdata.FormatRet(k.ret)), c)
			}
		}
	}
}

func (l *linter) unknownActions() {
	for _, k := range l.known {
		if seccompdata.ActionOf(k.ret).Known() {
			continue
		}
		if d, ok := l.example(k.cond); ok {
			l.report("unknown-action", Warning, paths.NoWord, fmt.Sprintf(
				"the return value %#08x has an action that kernels do not know: they kill the process", k.ret), Case{d, k.ret})
		}
	}
}

// unreachable finds rules and instructions that no input comes to.
func (l *linter) unreachable() {
	for i, m := range l.maps {
		l.unreachableRules(i, m)
		flow := bpf.Flow(m.Program)
		var dead, excluded []int
		for pc, reach := range m.Reach {
			switch {
			case reach != paths.Never:
			case flow.Reachable(pc):
				excluded = append(excluded, pc)
			default:
				dead = append(dead, pc)
			}
		}
		l.unreachableInstructions(i, dead, "no jump leads there")
		l.unreachableInstructions(i, excluded, "the comparisons on the way exclude each other")
	}
}

func (l *linter) unreachableInstructions(filter int, pcs []int, why string) {
	if len(pcs) == 0 {
		return
	}
	var texts []string
	for _, pc := range pcs {
		texts = append(texts, fmt.Sprint(pc))
	}
	what := "instructions " + some(texts) + " are"
	if len(pcs) == 1 {
		what = "instruction " + texts[0] + " is"
	}
	l.found = append(l.found, Finding{ID: "unreachable", Severity: Note, Filter: filter, PC: pcs[0], Rule: l.rule(filter, pcs[0]),
		Sentence: fmt.Sprintf("%s never executed: %s", what, why)})
}

func (l *linter) unreachableRules(filter int, m *paths.Map) {
	o := l.origin(filter)
	if o == nil {
		return
	}
	first := map[int]int{} // by rule
	reached := map[int]bool{}
	for pc, rule := range o.Rules {
		if rule < 0 || pc >= len(m.Reach) {
			continue
		}
		if _, ok := first[rule]; !ok {
			first[rule] = pc
		}
		reached[rule] = reached[rule] || m.Reach[pc] != paths.Never
	}
	for rule := range o.Names {
		if pc, ok := first[rule]; ok && !reached[rule] {
			l.found = append(l.found, Finding{ID: "unreachable-rule", Severity: Warning, Filter: filter, PC: pc, Rule: o.Names[rule],
				Sentence: "no input makes the rule decide anything"})
		}
	}
}

func (l *linter) instructionPointer() {
	for _, k := range l.known {
		if !dependsOn(l.Space, k.cond, ipLow, ipHigh) {
			continue
		}
		if d, ok := l.example(k.cond); ok {
			l.report("instruction-pointer", Note, paths.NoWord,
				"the verdict depends on the address that the call is made from; whoever controls a jump can make it from an allowed one", Case{d, k.ret})
			return
		}
	}
}

func (l *linter) divisionByZero() {
	for i, m := range l.maps {
		for _, e := range m.Ends {
			if !e.DivZero {
				continue
			}
			d, ok := l.example(e.Cond)
			if !ok {
				continue
			}
			ret, _, _ := decide(l.filters, &d)
			l.found = append(l.found, Finding{ID: "division-by-zero", Severity: Warning, Filter: i, PC: e.PC, Rule: l.rule(i, e.PC),
				Sentence: "X may be 0 here: the division ends the filter with 0, which is KILL_THREAD", Cases: []Case{{d, ret}}})
		}
	}
}

// cacheLost finds calls that are always allowed and yet run the filters.
func (l *linter) cacheLost() {
	type place struct {
		filter, pc int
		why        seccompdata.Why
	}
	calls := map[place][]string{}
	var order []place
	first := map[place]Case{}
	for _, v := range l.handled() {
		if v.abi == seccompdata.X32 {
			continue // the cache has no table for it
		}
		for _, nr := range v.abi.Calls(seccompdata.CurrentKernel) {
			var proof seccompdata.Proof
			i := slices.IndexFunc(l.filters, func(f *seccompdata.Filter) bool {
				proof = f.ConstAllow(nr, v.abi.Arch)
				return !proof.Allowed
			})
			if i < 0 {
				continue
			}
			verdicts := l.of(v, nr)
			if len(verdicts) != 1 || verdicts[0].ret != uint32(seccompdata.Allow) || verdicts[0].cond != paths.Always {
				continue
			}
			p := place{i, proof.PC, proof.Why}
			if calls[p] == nil {
				order = append(order, p)
				first[p] = Case{seccompdata.Data{Arch: v.abi.Arch, Nr: nr}, verdicts[0].ret}
			}
			if name, _ := v.abi.Call(nr); !slices.Contains(calls[p], name) {
				calls[p] = append(calls[p], name)
			}
		}
	}
	for _, p := range order {
		l.found = append(l.found, Finding{ID: "cache-lost", Severity: Note, Filter: p.filter, PC: p.pc, Rule: l.rule(p.filter, p.pc),
			Sentence: fmt.Sprintf("%s: allowed whatever the arguments, but not cached by the kernel: this instruction %s", some(calls[p]), lostBy(p.why)),
			Cases:    []Case{first[p]}})
	}
}

func lostBy(why seccompdata.Why) string {
	switch why {
	case seccompdata.WhyOpcode:
		return "is none that the kernel follows"
	case seccompdata.WhyLoad:
		return "loads more than number and architecture"
	}
	return "does not return exactly ALLOW"
}

func (l *linter) computed() {
	for i, m := range l.maps {
		seen := map[int]bool{}
		for _, e := range m.Ends {
			if _, ok := e.Value.Const(); !ok && !seen[e.PC] {
				seen[e.PC] = true
				l.found = append(l.found, Finding{ID: "computed-verdict", Severity: Note, Filter: i, PC: e.PC, Rule: l.rule(i, e.PC),
					Sentence: fmt.Sprintf("the return value is computed, %s: the other checks leave it out", e.Value)})
			}
		}
	}
}

func (l *linter) undecided() {
	for i, m := range l.maps {
		seen := map[int]bool{}
		for _, t := range m.Tests {
			if !l.Exact(t.Taken) && !seen[t.PC] {
				seen[t.PC] = true
				l.found = append(l.found, Finding{ID: "undecided", Severity: Note, Filter: i, PC: t.PC, Rule: l.rule(i, t.PC),
					Sentence: fmt.Sprintf("this is no comparison of one word with a constant (%s): what depends on it was searched, not proved", l.Atoms(t.Taken)[0])})
			}
		}
	}
}

func (l *linter) profile() {
	for i, o := range l.origins {
		if o == nil {
			continue
		}
		for _, w := range o.Warnings {
			l.found = append(l.found, Finding{ID: "profile", Severity: Warning, Filter: i, PC: -1, Sentence: w})
		}
	}
}
