package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kjit-project/kjit/seccompdata"
)

// Parse reads a profile: linux.seccomp of the OCI runtime specification, a
// whole config.json, or the form of Docker and Podman, whose rules may be bound
// to capabilities, kernels and machines. What the profile asks of the parts of
// a policy is done as runc and libseccomp do it. Errors are *ProfileError.
func Parse(name string, data []byte, o Options) (*Policy, error) {
	profile, path, caps, err := decodeProfile(name, data)
	if err != nil {
		return nil, err
	}
	if o.Capabilities == nil {
		o.Capabilities = caps
	}
	p, err := resolve(name, path, profile, o)
	if err != nil {
		return nil, err
	}
	if path == "" {
		p.Warnings = append(strangeFields(path, data), p.Warnings...)
	}
	return p, nil
}

// resolver turns a profile into a policy.
type resolver struct {
	Options
	policy *Policy
	path   string          // before all paths
	told   map[string]bool // calls for which there was a warning
	absent bool            // the rule at hand is for other containers
}

func (r *resolver) fail(where, format string, args ...any) error {
	return &ProfileError{Name: r.policy.Name, Where: r.path + where, Reason: fmt.Sprintf(format, args...)}
}

func (r *resolver) warn(where, format string, args ...any) {
	if !r.absent {
		r.policy.Warnings = append(r.policy.Warnings, Warning{r.path + where, fmt.Sprintf(format, args...)})
	}
}

// resolve decides all that the profile leaves open.
func resolve(name, path string, profile *seccomp.Seccomp, o Options) (*Policy, error) {
	r := &resolver{Options: o, policy: &Policy{Name: name}, path: path, told: map[string]bool{}}
	var err error
	if profile.DefaultAction == "" {
		return nil, r.fail("defaultAction", "is missing: want one of %s", known(actions))
	}
	if r.policy.Default, err = r.action("default", profile.DefaultAction, profile.DefaultErrnoRet); err != nil {
		return nil, err
	}
	if r.policy.ABIs, err = r.abis(profile); err != nil {
		return nil, err
	}
	for i, call := range profile.Syscalls {
		where := fmt.Sprintf("syscalls[%d]", i)
		if call == nil {
			return nil, r.fail(where, "is null: want an object")
		}
		// A rule for other containers has to be right all the same.
		r.absent = !r.included(call.Includes) || r.excluded(call.Excludes)
		if err := r.rule(where, call); err != nil {
			return nil, err
		}
	}
	r.absent = false
	r.overlaps()
	return r.policy, nil
}

// actions of the OCI runtime specification.
var actions = map[specs.LinuxSeccompAction]seccompdata.Action{
	specs.ActKill:        seccompdata.KillThread, // as runc, and libseccomp's alias, have it
	specs.ActKillThread:  seccompdata.KillThread,
	specs.ActKillProcess: seccompdata.KillProcess,
	specs.ActTrap:        seccompdata.Trap,
	specs.ActErrno:       seccompdata.Errno,
	specs.ActTrace:       seccompdata.Trace,
	specs.ActAllow:       seccompdata.Allow,
	specs.ActLog:         seccompdata.Log,
	specs.ActNotify:      seccompdata.UserNotif,
}

// action returns the return value for an action: with EPERM where it takes an
// errno and is given none. field is what its fields begin
// with: "default", or the path of a rule with a dot.
func (r *resolver) action(field string, action specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	actionField, errnoField := field+"action", field+"errnoRet"
	if field == "default" {
		actionField, errnoField = "defaultAction", "defaultErrnoRet"
	}
	act, ok := actions[action]
	if !ok {
		return 0, r.fail(actionField, "unknown action %q; known are %s", action, known(actions))
	}
	switch {
	case act != seccompdata.Errno && act != seccompdata.Trace:
		if errno != nil {
			r.warn(errnoField, "%s takes no errno: runc ignores it, the OCI specification says that the container must not start", action)
		}
		return uint32(act), nil
	case errno == nil:
		return uint32(act) | uint32(seccompdata.EPERM), nil
	case *errno > seccompdata.DataMask:
		return 0, r.fail(errnoField, "%d does not fit in the 16 bits that a return value has for it", *errno)
	case act == seccompdata.Errno && *errno > uint(seccompdata.MaxErrno):
		r.warn(errnoField, "%d is above %d, the largest errno: Linux returns that", *errno, int(seccompdata.MaxErrno))
	}
	return uint32(act) | uint32(*errno), nil
}

// otherArchs are the architectures of the OCI runtime specification that kjit
// has no table for.
var otherArchs = []specs.Arch{
	specs.ArchMIPS, specs.ArchMIPS64, specs.ArchMIPS64N32, specs.ArchMIPSEL, specs.ArchMIPSEL64, specs.ArchMIPSEL64N32,
	specs.ArchPPC, specs.ArchPPC64, specs.ArchPPC64LE, specs.ArchS390, specs.ArchS390X,
	specs.ArchPARISC, specs.ArchPARISC64, specs.ArchRISCV64, specs.ArchLOONGARCH64, specs.ArchM68K, specs.ArchSH, specs.ArchSHEB,
}

// abis returns the ABIs of the policy. The native one is always among them:
// libseccomp puts it into each new filter.
func (r *resolver) abis(profile *seccomp.Seccomp) ([]*seccompdata.ABI, error) {
	native := r.native()
	out := []*seccompdata.ABI{native}
	lookup := func(where string, arch specs.Arch) (*seccompdata.ABI, error) {
		if slices.Contains(otherArchs, arch) {
			return nil, nil
		}
		abi, err := seccompdata.ABIByName(string(arch))
		if err != nil || !strings.HasPrefix(string(arch), "SCMP_ARCH_") {
			return nil, r.fail(where, "unknown architecture %q: want a name of the OCI specification, such as %s", arch, specs.ArchX86_64)
		}
		return abi, nil
	}
	take := func(abi *seccompdata.ABI) {
		if abi != nil && !slices.Contains(out, abi) {
			out = append(out, abi)
		}
	}
	if len(profile.Architectures) > 0 && len(profile.ArchMap) > 0 {
		return nil, r.fail("archMap", "stands beside architectures: a profile has one of the two")
	}
	for i, arch := range profile.Architectures {
		where := fmt.Sprintf("architectures[%d]", i)
		abi, err := lookup(where, arch)
		if err != nil {
			return nil, err
		}
		if abi == nil {
			r.warn(where, "kjit has no system calls of %s: it is left out", arch)
		}
		take(abi)
	}
	for i, line := range profile.ArchMap {
		where := fmt.Sprintf("archMap[%d]", i)
		main, err := lookup(where+".architecture", line.Arch)
		if err != nil {
			return nil, err
		}
		for j, arch := range line.SubArches {
			sub, err := lookup(fmt.Sprintf("%s.subArchitectures[%d]", where, j), arch)
			if err != nil {
				return nil, err
			}
			if main == native {
				take(sub)
			}
		}
	}
	if len(r.ABIs) > 0 {
		return slices.Clone(r.ABIs), nil
	}
	return out, nil
}

// operators of the OCI runtime specification.
var operators = map[specs.LinuxSeccompOperator]Op{
	specs.OpEqualTo: EQ, specs.OpNotEqual: NE, specs.OpLessThan: LT, specs.OpLessEqual: LE,
	specs.OpGreaterThan: GT, specs.OpGreaterEqual: GE, specs.OpMaskedEqual: MaskedEQ,
}

// rule adds a rule for each name and ABI.
func (r *resolver) rule(where string, rule *seccomp.Syscall) error {
	names := rule.Names
	//lint:ignore SA1019 Profiles from before Docker 1.13 have it.
	oldName := rule.Name
	switch {
	case oldName != "" && len(names) > 0:
		return r.fail(where+".name", "stands beside names: a rule has one of the two")
	case oldName != "":
		names = []string{oldName}
	case len(names) == 0:
		r.warn(where, "it names no call: it is without effect")
	}
	if rule.Action == "" {
		return r.fail(where+".action", "is missing: want one of %s", known(actions))
	}
	ret, err := r.action(where+".", rule.Action, rule.ErrnoRet)
	if err != nil {
		return err
	}
	alternatives, err := r.conditions(where, rule.Args)
	if err != nil {
		return err
	}
	for i, name := range names {
		at := fmt.Sprintf("%s.names[%d]", where, i)
		if name == "" {
			return r.fail(at, "is empty: want the name of a call")
		}
		if r.absent {
			continue
		}
		found := false
		for _, abi := range r.policy.ABIs {
			for _, conditions := range alternatives {
				for _, one := range reached(abi, name, conditions) {
					one.Ret, one.Where = ret, r.path+where
					r.policy.Rules = append(r.policy.Rules, one)
					found = true
				}
			}
		}
		if through, _, ok := seccompdata.MultiplexerOf(name); ok && len(rule.Args) > 0 && slices.Contains(r.policy.ABIs, seccompdata.I386) && !r.told[name] {
			r.told[name] = true
			r.warn(at, "i386 programs can call %s through %s, whose arguments are in memory: no condition on arguments holds there", name, through)
		}
		if !found && !r.told[name] {
			r.told[name] = true
			r.policy.Unknown = append(r.policy.Unknown, name)
		}
	}
	return nil
}

// conditions returns alternatives; in each of them all conditions have to hold.
func (r *resolver) conditions(where string, args []specs.LinuxSeccompArg) ([][]Condition, error) {
	var all []Condition
	var used [6]int
	twice := false
	for i, arg := range args {
		at := fmt.Sprintf("%s.args[%d]", where, i)
		if arg.Index >= uint(len(used)) {
			return nil, r.fail(at+".index", "there is no argument %d, only 0 to 5", arg.Index)
		}
		op, ok := operators[arg.Op]
		if !ok {
			return nil, r.fail(at+".op", "unknown operator %q; known are %s", arg.Op, known(operators))
		}
		c := Condition{Arg: int(arg.Index), Op: op, Value: arg.Value}
		if op == MaskedEQ {
			c.Mask, c.Value = arg.Value, arg.ValueTwo
			if c.Value&^c.Mask != 0 {
				r.warn(at+".valueTwo", "%#x has bits that are not in the mask %#x (value): libseccomp drops them", c.Value, c.Mask)
				c.Value &= c.Mask
			}
		} else if arg.ValueTwo != 0 {
			r.warn(at+".valueTwo", "%s has no second value: it is ignored", arg.Op)
		}
		used[c.Arg]++
		twice = twice || used[c.Arg] > 1
		r.wide(at, c)
		all = append(all, c)
	}
	if !twice || r.SameArg == SameArgAnd {
		return [][]Condition{all}, nil
	}
	r.warn(where+".args", "several conditions on one argument: runc makes each of the %d conditions a rule of its own, so that one of them is enough; the OCI specification says that all have to hold", len(all))
	var out [][]Condition
	for _, c := range all {
		out = append(out, []Condition{c})
	}
	return out, nil
}

// wide warns about constants that arguments of 32-bit ABIs never reach.
func (r *resolver) wide(at string, c Condition) {
	for _, abi := range r.policy.ABIs {
		if abi.Bits == 32 && max(c.Value, c.Mask) > 0xffffffff {
			r.warn(at+".value", "%s has 32-bit arguments: libseccomp compares the low 32 bits of %#x, kjit the whole number", abi, max(c.Value, c.Mask))
			return
		}
	}
}

// goArch is what conditions on arches call a machine: Docker's names, which are
// nearly Go's.
var goArch = map[*seccompdata.ABI]string{
	seccompdata.X86_64: "amd64", seccompdata.X32: "amd64", seccompdata.I386: "x86",
	seccompdata.ARM: "arm", seccompdata.AARCH64: "arm64",
}

// included reports whether all that a rule is bound to is there.
func (r *resolver) included(f *seccomp.Filter) bool {
	if f == nil {
		return true
	}
	for _, c := range f.Caps {
		if !r.has(c) {
			return false
		}
	}
	return (len(f.Arches) == 0 || slices.Contains(f.Arches, goArch[r.native()])) &&
		(f.MinKernel == nil || r.atLeast(f.MinKernel.Kernel, f.MinKernel.Major))
}

// excluded reports whether something is there that a rule is not for.
func (r *resolver) excluded(f *seccomp.Filter) bool {
	return f != nil && (slices.ContainsFunc(f.Caps, r.has) ||
		slices.Contains(f.Arches, goArch[r.native()]) ||
		f.MinKernel != nil && r.atLeast(f.MinKernel.Kernel, f.MinKernel.Major))
}

// known lists the keys of a table of words.
func known[K cmp.Ordered, V any](table map[K]V) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(sortedKeys(table)), "[]"), " ", ", ")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
