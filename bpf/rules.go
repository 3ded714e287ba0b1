package bpf

import "fmt"

// Rules are the points in which the checkers of Linux releases differ. The
// zero value takes what today's Linux takes; every field says what an older
// release did otherwise.
type Rules struct {
	Name string // the release, for messages: "linux-3.10"

	// NoSeccomp: there are no seccomp filters (before 3.5).
	NoSeccomp bool
	// NoModXor: MOD and XOR are unknown codes (before 3.7).
	NoModXor bool
	// NewExtension is the first ancillary load that came later; 0 means that
	// all are known.
	NewExtension Extension
	// AnyExtension: an absolute load with K >= SKF_AD_OFF that is no known
	// ancillary load is not refused, but a load from a negative offset that no
	// packet has (3.0 does so, 3.10 no more).
	AnyExtension bool
	// AnyShift: the count of LSH K and RSH K may be above 31, which leaves the
	// result undefined (before 4.5).
	AnyShift bool
}

// The checkers of the releases whose JITs this project knows. Sources: Linux
// 3.0.1 and 3.10.99, sk_chk_filter; Linux 6.18, by trying.
var (
	RulesLinux3_0 = Rules{
		Name: "linux-3.0", NoSeccomp: true, NoModXor: true,
		NewExtension: ExtXorX, AnyExtension: true, AnyShift: true,
	}
	RulesLinux3_10 = Rules{
		Name: "linux-3.10", NewExtension: ExtRandom, AnyShift: true,
	}
	RulesLinux3_12 = Rules{
		Name: "linux-3.12", NewExtension: ExtRandom, AnyShift: true,
	}
	// RulesLinux4_5 takes shifts by more than 31, so that it is the JIT that
	// declines them: so it is in the recorded facts. Releases of that time may
	// refuse them already.
	RulesLinux4_5 = Rules{Name: "linux-4.5", AnyShift: true}
	RulesCurrent  = Rules{Name: "linux"}
)

// Accepts reports whether programs of the kind may hold the code at all.
func (r Rules) Accepts(code uint16, kind Kind) bool {
	return r.refusal(code, kind) == ""
}

// Knows reports whether the kernel knows the ancillary load.
func (r Rules) Knows(ext Extension) bool {
	return ext.Known() && (r.NewExtension == 0 || ext < r.NewExtension)
}

// Extension returns the ancillary load that the instruction performs on a
// kernel with these rules.
func (r Rules) Extension(ins Instruction) (Extension, bool) {
	ext, ok := ins.Extension()
	return ext, ok && r.Knows(ext)
}

// String returns the name of the release.
func (r Rules) String() string {
	if r.Name == "" {
		return RulesCurrent.Name
	}
	return r.Name
}

// refusal says why programs of the kind may not hold the code; "" if they may.
func (r Rules) refusal(code uint16, kind Kind) string {
	var known opcode
	if int(code) < len(opcodes) {
		known = opcodes[code]
	}
	switch {
	case kind == Seccomp && r.NoSeccomp:
		return "is not allowed, " + noSeccomp(r)
	case known.op == opNone:
		return "is no instruction"
	case known.modXor && r.NoModXor:
		return "is unknown to " + r.String() + " (MOD and XOR came with 3.7)"
	case kind == Seccomp && !known.seccomp:
		return "is not allowed in seccomp filters"
	}
	return ""
}

// AllRules lists the checkers, oldest first.
func AllRules() []Rules {
	return []Rules{RulesLinux3_0, RulesLinux3_10, RulesLinux3_12, RulesLinux4_5, RulesCurrent}
}

// RulesByName returns the checker of a release by its name, or by "current".
func RulesByName(name string) (Rules, error) {
	if name == "current" {
		return RulesCurrent, nil
	}
	for _, r := range AllRules() {
		if r.Name == name {
			return r, nil
		}
	}
	return Rules{}, fmt.Errorf("no rules %q: there are %v and current", name, AllRules())
}

func noSeccomp(r Rules) string { return r.String() + " has no seccomp filters" }
