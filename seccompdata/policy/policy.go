// Package policy turns descriptions of which system calls may be made into
// seccomp filters: it reads OCI and Docker profiles ([Parse], [DockerDefault])
// into a [Policy] and compiles it in one of several layouts ([Compile]).
//
// # What a policy means
//
// Calls of an ABI that the policy does not list get the bad-arch action of
// [CompileOptions]. Among the rules for a call, those with the action of
// Policy.Default are without effect, as runc does not install them. Of the
// others the first without conditions decides; where there is none, the first
// whose conditions hold; and where no rule decides, Policy.Default does. That a
// rule without conditions comes before all that have some is what libseccomp
// makes of a profile, in whatever order the rules stand.
package policy

import (
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/seccompdata"
)

// Policy says what happens to each system call. It is not bound to any file
// format.
type Policy struct {
	Name     string             // as shown to people
	ABIs     []*seccompdata.ABI // that may make calls, the native one first
	Default  uint32             // return value where no rule decides
	Rules    []Rule
	Unknown  []string  // names of calls that none of the ABIs has; rules for them are left out
	Warnings []Warning // what else the reader found odd but not wrong
}

// Rule gives a return value to one call of one ABI.
type Rule struct {
	ABI        *seccompdata.ABI
	Nr         uint32 // with ABI.Bit set
	Call       string // name of the call, as the profile has it
	Ret        uint32
	Conditions []Condition // all have to hold; none: the rule always decides
	Where      string      // place in the profile, "syscalls[3]"
}

func (r Rule) String() string {
	text := fmt.Sprintf("%s %s", r.ABI, r.Call)
	for i, c := range r.Conditions {
		if i > 0 {
			text += " &&"
		}
		text += " " + c.String()
	}
	text += ": " + seccompdata.FormatRet(r.Ret)
	if r.Where != "" {
		text += " (" + r.Where + ")"
	}
	return text
}

// Warning is something in a profile that does not mean what it may seem to.
type Warning struct {
	Where  string // "syscalls[3].names[1]"; "" if it is about the whole
	Reason string
}

func (w Warning) String() string {
	if w.Where == "" {
		return w.Reason
	}
	return w.Where + ": " + w.Reason
}

// call is a call of one ABI.
type call struct {
	abi *seccompdata.ABI
	nr  uint32
}

// deciders returns for each call the rules that can decide it, in the order in
// which they are asked: one without conditions, or some that have them.
func (p *Policy) deciders() map[call][]int {
	out := map[call][]int{}
	for i, r := range p.Rules {
		if r.Ret == p.Default {
			continue
		}
		c := call{r.ABI, r.Nr}
		have := out[c]
		switch {
		case len(have) > 0 && len(p.Rules[have[0]].Conditions) == 0:
		case len(r.Conditions) == 0:
			out[c] = []int{i}
		default:
			out[c] = append(have, i)
		}
	}
	return out
}

// has reports whether the policy lists the ABI.
func (p *Policy) has(abi *seccompdata.ABI) bool {
	return slices.Contains(p.ABIs, abi)
}

// largest returns the highest number that a rule names for the ABI, with its
// Bit, and whether there is one. Rules without effect count, as in runc.
func (p *Policy) largest(abi *seccompdata.ABI) (nr uint32, ok bool) {
	for _, r := range p.Rules {
		if r.ABI == abi {
			nr, ok = max(nr, r.Nr), true
		}
	}
	return nr, ok
}

// check finds what Compile cannot work with.
func (p *Policy) check() error {
	if len(p.ABIs) == 0 {
		return fmt.Errorf("policy %s: it lists no ABI: give at least one", p.Name)
	}
	for i, r := range p.Rules {
		if r.ABI == nil || !p.has(r.ABI) {
			return fmt.Errorf("policy %s: rule %d is for the ABI %v, which the policy does not list", p.Name, i, r.ABI)
		}
		if r.Nr&r.ABI.Bit != r.ABI.Bit || r.ABI.Arch == seccompdata.ArchX86_64 && seccompdata.ABIOf(r.ABI.Arch, r.Nr) != r.ABI {
			return fmt.Errorf("policy %s: rule %d: %#x is no number of the ABI %s", p.Name, i, r.Nr, r.ABI)
		}
		for _, c := range r.Conditions {
			if err := c.check(); err != nil {
				return fmt.Errorf("policy %s: rule %d (%s): %w", p.Name, i, r.Call, err)
			}
		}
	}
	return nil
}
