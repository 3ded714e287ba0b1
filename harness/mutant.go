package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// MutantPrefix in front of an emitter's name makes the name of a mutant's
// profile: "mutant:x86-and-imm16" is the kernel that the fault was put into, with
// the faulty emitter. "mutant:arm-rsh0@linux-4.5-armv7" chooses another kernel
// than the first that has the emitter without the fault.
const MutantPrefix = "mutant:"

// Mutant is an emitter with a fault put in on purpose.
type Mutant struct {
	Name    string // "x86-and-imm16"
	Summary string // what comes of the fault, one line
	Fault   *jit.Fault
}

// AllMutants lists the faults that kernels shipped, and the traps, those of
// x86_64 first.
func AllMutants() (all []Mutant) {
	for _, e := range jitx86.Emitters() {
		if e.Fault != nil {
			all = append(all, Mutant{e.Name, e.Summary, e.Fault})
		}
	}
	for _, e := range jitarm.Emitters() {
		if e.Fault != nil {
			all = append(all, Mutant{e.Name, e.Summary, e.Fault})
		}
	}
	return all
}

// Bases lists the kernels that have the emitter which the mutant is made of.
func (m *Mutant) Bases() []*kernelabi.Profile {
	return slices.DeleteFunc(kernelabi.Profiles(), func(p *kernelabi.Profile) bool { return p.Emitter != m.Fault.Base })
}

// On returns the mutant's profile on one of its kernels. [ProfileByName] finds it
// by its name.
func (m *Mutant) On(base *kernelabi.Profile) *kernelabi.Profile {
	return m.profile(base, MutantPrefix+m.Name+"@"+base.Name)
}

func (m *Mutant) profile(p *kernelabi.Profile, name string) *kernelabi.Profile {
	q := *p
	q.Name, q.Emitter, q.Summary = name, m.Name, m.Summary
	return &q
}

// Mutants lists the profiles of the emitters with a fault that kernels shipped,
// each on the first of its kernels. They stand beside those of
// [kernelabi.Profiles].
func Mutants() []*kernelabi.Profile { return mutantProfiles(false) }

// Traps lists those of the faults that no kernel shipped.
func Traps() []*kernelabi.Profile { return mutantProfiles(true) }

func mutantProfiles(traps bool) (all []*kernelabi.Profile) {
	for _, m := range AllMutants() {
		if m.Fault.Trap() == traps {
			all = append(all, m.profile(m.Bases()[0], MutantPrefix+m.Name))
		}
	}
	return all
}

// ProfileByName returns a built-in profile or that of a mutant, or an error that
// lists those like it.
func ProfileByName(name string) (*kernelabi.Profile, error) {
	rest, ok := strings.CutPrefix(name, MutantPrefix)
	if !ok {
		return kernelabi.ProfileByName(name)
	}
	fault, kernel, chosen := strings.Cut(rest, "@")
	for _, m := range AllMutants() {
		if m.Name != fault {
			continue
		}
		p := m.profile(m.Bases()[0], name)
		if !chosen {
			return p, nil
		}
		on, err := kernelabi.ProfileByName(kernel)
		if err != nil {
			return nil, err
		}
		q := m.profile(on, name)
		if _, err := emitterFor(q); err != nil || on.Emitter == "" {
			return nil, fmt.Errorf("%s is for %s, and %s is not a kernel of that kind whose code is emitted here", fault, p.Arch, kernel)
		}
		return q, nil
	}
	var names []string
	for _, p := range Mutants() {
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("no mutant %q: there are %s, and %d traps (kjit mutants --list)", name, strings.Join(names, ", "), len(Traps()))
}
