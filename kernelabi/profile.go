// Package kernelabi describes a kernel as code compiled from BPF sees it: the
// profile (layouts, symbols, calling conventions), the images that JITs emit,
// the packets they read, and what every helper they may call means. It is data
// and meaning; nothing here executes machine code.
package kernelabi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// Arch is an instruction set with its baseline.
type Arch string

const (
	X86_64 Arch = "x86_64"
	ARMv5  Arch = "armv5"
	ARMv6  Arch = "armv6"
	ARMv7  Arch = "armv7"
)

// Profile is one kernel as compiled code sees it. Profiles are values: With*
// methods return changed copies.
type Profile struct {
	Name    string // "linux-3.10-x86_64"
	Arch    Arch
	Emitter string // the table of emission rules in jitx86 or jitarm, "linux-3.10"; "": images are imported only
	Summary string // one line for lists

	Layout  Layout
	Symbols map[string]uint64 // addresses of all that compiled code may refer to
	Base    uint64            // where images are loaded when nothing else says so

	// LoadHelpers is the generation of the C functions that packet loads call,
	// where kernels with the same symbols differ: LoadHelpers312 or
	// LoadHelpers42. Only ARM code depends on it.
	LoadHelpers string

	// LogsCopy: the address in the kernel log (bpf_jit_enable=2) is that of a
	// writable copy, not where the code runs (x86_64, Linux 5.18 on).
	LogsCopy bool

	// Features are the options that code depends on.
	Features Features

	Rules     bpf.Rules // the checker a program passed before the JIT saw it
	Semantics Semantics // what this kernel's interpreter does where kernels differ
}

// Generations of jit_get_skb_b, _h and _w.
const (
	LoadHelpers312 = "linux-3.12" // offsets are unsigned and all passed to skb_copy_bits
	LoadHelpers42  = "linux-4.2"  // negative offsets count from the headers
)

// Semantics are the points where Linux itself changed what a program means.
// They say what a correct JIT of that kernel has to do, so the reference
// interpreter follows them when it judges one. Historic bugs are not here.
type Semantics struct {
	// NoDeviceKeepsA: an ifindex or hatype load without a device ends the
	// program with the value A had (since 4.x), not with 0 (3.x).
	NoDeviceKeepsA bool `json:"no_device_keeps_a"`
	// NlattrFailLoads0: a netlink attribute search that cannot start loads 0
	// (since 4.x) instead of ending the program with 0 (3.x).
	NlattrFailLoads0 bool `json:"nlattr_fail_loads_0"`
	// VlanPresentInTCI: bit 12 of vlan_tci is the tag-present flag and is
	// masked out of the tag (before 4.20 or so), not a bit of the tag.
	VlanPresentInTCI bool `json:"vlan_present_in_tci"`
	// NegativeOffsetsReachFrags: loads from negative offsets may read page
	// fragments (recent kernels), not only the linear part.
	NegativeOffsetsReachFrags bool `json:"negative_offsets_reach_frags"`
}

// WithLayout returns a copy of p whose layout has the given fields changed.
func (p *Profile) WithLayout(changes map[string]int) *Profile {
	q := *p
	q.Layout = p.Layout.With(changes)
	return &q
}

// WithSymbols returns a copy of p with the given symbols added or replaced.
func (p *Profile) WithSymbols(changes map[string]uint64) *Profile {
	q := *p
	q.Symbols = make(map[string]uint64, len(p.Symbols)+len(changes))
	maps.Copy(q.Symbols, p.Symbols)
	maps.Copy(q.Symbols, changes)
	return &q
}

// WithBase returns a copy of p that loads images at base.
func (p *Profile) WithBase(base uint64) *Profile {
	q := *p
	q.Base = base
	return &q
}

// Symbol returns the address of a symbol, or an error that names it.
func (p *Profile) Symbol(name string) (uint64, error) {
	if addr, ok := p.Symbols[name]; ok {
		return addr, nil
	}
	return 0, fmt.Errorf("profile %s has no symbol %s: add it with --symbol %s=ADDRESS", p.Name, name, name)
}

// Profiles lists the built-in profiles, oldest first.
func Profiles() []*Profile { return slices.Clone(profiles) }

// ProfileByName returns a built-in profile, or an error that lists them.
func ProfileByName(name string) (*Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return p, nil
		}
	}
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.Name
	}
	return nil, fmt.Errorf("no profile %q: there are %q", name, names)
}
