package policy

import (
	"math"

	"github.com/kjit-project/kjit/seccompdata"
)

// By says what part of a filter decided.
type By string

const (
	ByRule    By = "rule"
	ByDefault By = "default"      // no rule did
	ByArch    By = "architecture" // the ABI is not listed
	ByX32     By = "x32 guard"    // the ABI is x32, and not listed
	ByEnosys  By = "enosys"       // the number is above all that the policy names
)

// Verdict is what a policy says to a call.
type Verdict struct {
	Ret  uint32
	Rule int // index into Policy.Rules; -1 if none decided
	By   By
}

// Verdict asks the policy itself, without a filter. All layouts give the same.
func (p *Policy) Verdict(d *seccompdata.Data, o CompileOptions) Verdict {
	abi, conditional := seccompdata.ABIOf(d.Arch, d.Nr), none
	for i, r := range p.Rules {
		switch {
		case r.ABI != abi || r.Nr != d.Nr || r.Ret == p.Default:
		case len(r.Conditions) == 0:
			return Verdict{r.Ret, i, ByRule}
		case conditional == none && r.holds(d):
			conditional = i
		}
	}
	if conditional != none {
		return Verdict{p.Rules[conditional].Ret, conditional, ByRule}
	}
	ret, by := p.unnamed(d.Arch, d.Nr, o)
	return Verdict{ret, none, by}
}

// holds reports whether all conditions do.
func (r Rule) holds(d *seccompdata.Data) bool {
	for _, c := range r.Conditions {
		arg := d.Args[c.Arg]
		if r.ABI.Bits == 32 {
			arg = uint64(uint32(arg))
		}
		if !c.Holds(arg) {
			return false
		}
	}
	return true
}

// unnamed is the verdict on calls that no rule decides.
func (p *Policy) unnamed(arch, nr uint32, o CompileOptions) (uint32, By) {
	abi := seccompdata.ABIOf(arch, nr)
	last, limited := p.enosysAbove(abi, o)
	switch {
	case limited && nr > last:
		return enosys, ByEnosys
	case abi != nil && arch == seccompdata.ArchX86_64 && !p.has(seccompdata.X32) && p.has(seccompdata.X86_64) && nr >= seccompdata.X32Bit:
		// Numbers with bit 31 alone are no x32 calls, and no others. libseccomp
		// and elastic treat them as x32.
		if nr == math.MaxUint32 {
			return p.Default, ByDefault
		}
		return o.X32.ret(p, o)
	case abi == nil || !p.has(abi):
		return o.BadArch, ByArch
	}
	return p.Default, ByDefault
}

func (x X32) ret(p *Policy, o CompileOptions) (uint32, By) {
	switch x {
	case X32Enosys:
		return enosys, ByX32
	case X32Default:
		return p.Default, ByDefault
	}
	return o.BadArch, ByX32
}

// enosysAbove returns the largest number of the ABI that is not answered with
// ENOSYS; limited is false if there is no limit.
func (p *Policy) enosysAbove(abi *seccompdata.ABI, o CompileOptions) (last uint32, limited bool) {
	if !o.Enosys || abi == nil || !p.has(abi) {
		return 0, false
	}
	switch seccompdata.ActionOf(p.Default) {
	case seccompdata.Allow, seccompdata.Log, seccompdata.Trace:
		return 0, false
	}
	return p.largest(abi)
}
