package policy

import (
	"math"
	"slices"

	"github.com/kjit-project/kjit/seccompdata"
)

// manyRules is up to how many rules of one call each is tried with the constants
// of all.
const manyRules = 100

// Boundaries returns the calls at which a filter made of the policy is most
// likely to be wrong: for each number of a rule the number itself, its
// neighbours and it with bits 30 and 31; for each constant that an argument is
// compared with its neighbours, and it with something in the high word; foreign
// architectures and number -1. There are a few dozen for each rule.
func (p *Policy) Boundaries() []seccompdata.Data {
	var out []seccompdata.Data
	seen := map[seccompdata.Data]bool{}
	add := func(d seccompdata.Data) {
		if !seen[d] {
			seen[d] = true
			out = append(out, d)
		}
	}
	archs := []uint32{0, seccompdata.ArchX86_64 ^ 1, 0x80000000, math.MaxUint32} // and those of ABIs
	for _, abi := range seccompdata.ABIs() {
		if !slices.Contains(archs, abi.Arch) {
			archs = append(archs, abi.Arch)
		}
	}
	for _, arch := range archs {
		for _, nr := range []uint32{
			0, 1, seccompdata.X32Bit - 1, seccompdata.X32Bit, seccompdata.X32Bit + 1, 1<<31 - 1, 1 << 31, 1<<31 + 1,
			3<<30 - 1, 3 << 30, math.MaxUint32 - 1, math.MaxUint32,
		} {
			add(seccompdata.Data{Nr: nr, Arch: arch})
		}
	}
	byCall := map[call][]Rule{}
	var order []call
	for _, r := range p.Rules {
		c := call{r.ABI, r.Nr}
		if byCall[c] == nil {
			order = append(order, c)
		}
		byCall[c] = append(byCall[c], r)
	}
	for _, c := range order {
		for _, nr := range []uint32{c.nr, c.nr - 1, c.nr + 1, c.nr ^ 1<<30, c.nr ^ 1<<31, c.nr ^ 3<<30} {
			for _, arch := range archs {
				add(seccompdata.Data{Nr: nr, Arch: arch})
			}
		}
		base := seccompdata.Data{Nr: c.nr, Arch: c.abi.Arch}
		full := base
		for i := range full.Args {
			full.Args[i] = math.MaxUint64
		}
		add(full)
		interesting := argValues(byCall[c])
		for _, r := range byCall[c] {
			// From a call that the rule should decide, one argument away.
			fits := base
			fits.Args = r.example(interesting)
			add(fits)
			near := interesting
			if len(byCall[c]) > manyRules {
				near = argValues([]Rule{r})
			}
			for arg, values := range near {
				for _, v := range values {
					d := fits
					d.Args[arg] = v
					add(d)
				}
			}
		}
	}
	return out
}

// argValues returns for each argument the values around the constants of rules.
func argValues(rules []Rule) [6][]uint64 {
	var out [6][]uint64
	for _, r := range rules {
		for _, c := range r.Conditions {
			constants := []uint64{c.Value}
			if c.Op == MaskedEQ {
				constants = append(constants, c.Value|^c.Mask, c.Mask, c.Value^c.Mask&-c.Mask)
				for bit := uint64(1); bit != 0; bit <<= 1 {
					constants = append(constants, c.Value^bit)
				}
			}
			for _, v := range constants {
				low := v & math.MaxUint32
				out[c.Arg] = append(out[c.Arg], v, v-1, v+1, v-1<<32, v+1<<32, v^1<<63, low, low|math.MaxUint32<<32, v|math.MaxUint32)
			}
		}
	}
	for arg := range out {
		slices.Sort(out[arg])
		out[arg] = slices.Compact(out[arg])
	}
	return out
}

// example returns arguments that fulfil the rule's conditions, as far as single
// values do.
func (r Rule) example(interesting [6][]uint64) (args [6]uint64) {
	for arg := range args {
		fits := func(v uint64) bool {
			for _, c := range r.Conditions {
				if c.Arg == arg && !c.Holds(v) {
					return false
				}
			}
			return true
		}
		if i := slices.IndexFunc(interesting[arg], fits); i >= 0 && !fits(0) {
			args[arg] = interesting[arg][i]
		}
	}
	return args
}
