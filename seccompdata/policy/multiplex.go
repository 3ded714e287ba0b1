package policy

import (
	"slices"

	"github.com/kjit-project/kjit/seccompdata"
)

// reached returns the rules for a call of an ABI: one for its number, and on
// i386 one for the call that it can be made through. As libseccomp does it, the
// latter tests the first argument for the number of the call in place of what
// the rule says about it, and keeps the conditions on the others, though they
// are other things there: the real arguments are in memory, where no filter can
// see them.
func reached(abi *seccompdata.ABI, name string, conditions []Condition) []Rule {
	var out []Rule
	if nr, ok := abi.Number(name); ok {
		out = append(out, Rule{ABI: abi, Nr: nr, Call: name, Conditions: conditions})
	}
	through, argument, ok := seccompdata.MultiplexerOf(name)
	if !ok || abi != seccompdata.I386 {
		return out
	}
	if nr, ok := abi.Number(through); ok {
		which := []Condition{{Arg: 0, Op: EQ, Value: argument}}
		others := slices.DeleteFunc(slices.Clone(conditions), func(c Condition) bool { return c.Arg == 0 })
		out = append(out, Rule{ABI: abi, Nr: nr, Call: through, Conditions: append(which, others...)})
	}
	return out
}
