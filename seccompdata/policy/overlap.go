package policy

import (
	"slices"

	"github.com/kjit-project/kjit/seccompdata"
)

// maxCompared bounds the rules of one call that are compared with each other.
const maxCompared = 500

// overlaps warns about rules of one call that have different actions and can
// hold at once: then it matters which is asked first.
func (r *resolver) overlaps() {
	type pair struct{ one, other string }
	seen := map[pair]bool{}
	rules := r.policy.Rules
	byCall := map[call][]int{}
	for i, rule := range rules {
		c := call{rule.ABI, rule.Nr}
		if len(byCall[c]) > maxCompared {
			continue
		}
		for _, j := range byCall[c] {
			p := pair{rules[j].Where, rule.Where}
			if seen[p] || rules[j].Ret == rule.Ret {
				continue
			}
			if text := conflict(rules[j], rule, r.policy.Default); text != "" {
				seen[p] = true
				r.warn("", "%s and %s, both for %s: %s", rules[j].Where, rule.Where, rule.Call, text)
			}
		}
		byCall[c] = append(byCall[c], i)
	}
}

// conflict says what becomes of two rules with different actions, in the order
// of the profile; "" if they do not get in each other's way.
func conflict(first, second Rule, otherwise uint32) string {
	if !together(first, second) {
		return ""
	}
	always := func(r Rule) bool { return len(r.Conditions) == 0 }
	switch {
	case first.Ret == otherwise || second.Ret == otherwise:
		return "the one with the default action is without effect (runc does not install it)"
	case always(first) && always(second):
		return "the first decides"
	case always(first) || always(second):
		return "the one without conditions decides, and the other is without effect"
	}
	return "both can hold, and then the first decides; libseccomp may have another order"
}

// together reports whether the conditions of both rules can hold for one call.
// It may say so wrongly.
func together(a, b Rule) bool {
	for _, x := range a.Conditions {
		for _, y := range b.Conditions {
			if x.Arg == y.Arg && disjoint(x, y, a.ABI) {
				return false
			}
		}
	}
	return true
}

// disjoint reports whether two conditions on one argument never hold at once.
func disjoint(x, y Condition, abi *seccompdata.ABI) bool {
	if x.Op == MaskedEQ && y.Op == MaskedEQ {
		return (x.Value^y.Value)&x.Mask&y.Mask != 0
	}
	// Of all others, some argument next to one of the constants fulfils both,
	// if any does; a mask may leave more open.
	var candidates []uint64
	for _, c := range []Condition{x, y} {
		if c.Op == MaskedEQ {
			candidates = append(candidates, c.Value, c.Value|^c.Mask)
		}
		candidates = append(candidates, c.Value-1, c.Value, c.Value+1)
	}
	candidates = append(candidates, 0, ^uint64(0))
	both := slices.ContainsFunc(candidates, func(arg uint64) bool {
		if abi.Bits == 32 {
			arg = uint64(uint32(arg))
		}
		return x.Holds(arg) && y.Holds(arg)
	})
	masked := x.Op == MaskedEQ || y.Op == MaskedEQ
	equal := x.Op == EQ || y.Op == EQ
	return !both && (!masked || equal)
}
