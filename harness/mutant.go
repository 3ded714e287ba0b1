package harness

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// MutantPrefix in front of an emitter's name makes the name of a mutant's
// profile: "mutant:x86-and-imm16" is the kernel that the fault was put into, with
// the faulty emitter. "mutant:arm-rsh0@linux-4.5-armv7" chooses another kernel
// than the first that has the emitter without the fault.
const MutantPrefix = "mutant:"

// mutant is an emitter with a fault.
type mutant struct{ name, summary, base string }

func mutants() (all []mutant) {
	for _, e := range jitx86.Emitters() {
		if e.Fault != nil {
			all = append(all, mutant{e.Name, e.Summary, e.Fault.Base})
		}
	}
	for _, e := range jitarm.Emitters() {
		if e.Fault != nil {
			all = append(all, mutant{e.Name, e.Summary, e.Fault.Base})
		}
	}
	return all
}

// profile returns the mutant's profile on the kernel of p.
func (m *mutant) profile(p *kernelabi.Profile, name string) *kernelabi.Profile {
	q := *p
	q.Name, q.Emitter, q.Summary = name, m.name, m.summary
	return &q
}

// Mutants lists the profiles of the emitters with a fault put in on purpose.
// They stand beside those of [kernelabi.Profiles].
func Mutants() (all []*kernelabi.Profile) {
	for _, m := range mutants() {
		for _, p := range kernelabi.Profiles() {
			if p.Emitter == m.base {
				all = append(all, m.profile(p, MutantPrefix+m.name))
				break
			}
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
	for _, p := range Mutants() {
		if p.Name != MutantPrefix+fault {
			continue
		}
		if !chosen {
			return p, nil
		}
		on, err := kernelabi.ProfileByName(kernel)
		if err != nil {
			return nil, err
		}
		m := mutant{name: fault, summary: p.Summary}
		q := m.profile(on, name)
		if _, err := emitterFor(q); err != nil || on.Emitter == "" {
			return nil, fmt.Errorf("%s is for %s, and %s is not a kernel of that kind whose code is emitted here", fault, p.Arch, kernel)
		}
		return q, nil
	}
	var names []string
	for _, m := range mutants() {
		names = append(names, MutantPrefix+m.name)
	}
	return nil, fmt.Errorf("no mutant %q: there are %s", name, strings.Join(names, ", "))
}
