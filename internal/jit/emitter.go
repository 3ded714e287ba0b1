// Package jit is what the emitters of all architectures have in common: tables
// of rules, the state of a compilation that no architecture has a say in, and
// what code needs of the kernel that it is made for.
package jit

import "fmt"

// Fault is a fault put into an emitter that does not have it otherwise: one that
// kernels shipped, or a trap.
type Fault struct {
	Base     string // the emitter it was put into
	Versions string // the releases that had it; "": none, it is a trap
	Fixed    string // the first fixed release and its commit, as far as known

	// Rules are the emission rules that were replaced, by the names that package
	// harness/judge gives them, and "entry-a" or "entry-x" where it is the
	// prologue that leaves a register wrong. Empty: the fault is in no rule, and
	// shows in whatever the program does.
	Rules []string
}

// Trap reports whether no kernel shipped the fault: it is one that whoever writes
// an emitter easily makes.
func (f *Fault) Trap() bool { return f.Versions == "" }

// ByName returns the emitter whose String is name, or an error that lists those
// of the architecture.
func ByName[E fmt.Stringer](arch string, emitters []E, name string) (E, error) {
	names := make([]string, len(emitters))
	for i, e := range emitters {
		if names[i] = e.String(); names[i] == name {
			return e, nil
		}
	}
	var none E
	return none, fmt.Errorf("no %s emitter %q: there are %q", arch, name, names)
}
