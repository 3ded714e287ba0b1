package jitarm

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// trap is a fault that no kernel shipped, but that somebody who writes an emitter
// easily makes: a rule that is right nearly everywhere.
type trap struct {
	name    string // without "arm-" in front
	summary string // what comes of it, one line
	rules   []string
	change  func(t *table)
}

// traps lists the emitters with such a fault. All are made of kjit-arm, which has
// no other.
func traps() (all []*Emitter) {
	for _, x := range slices.Concat(aluTraps, cpuTraps, jumpTraps, loadTraps, extTraps, frameTraps) {
		t := kjit()
		x.change(&t)
		all = append(all, &Emitter{
			Name:    "arm-" + x.name,
			Summary: x.summary,
			Fault:   &Fault{Base: "kjit-arm", Rules: x.rules},
			rules:   t,
		})
	}
	return all
}

// replaced is a change that puts in other rules by opcode.
func replaced(rules map[uint16]rule) func(*table) {
	return func(t *table) { t.Replace(rules) }
}

// replacedExt is one that puts in another rule for an ancillary load.
func replacedExt(ext bpf.Extension, r rule) func(*table) {
	return func(t *table) { t.Exts[ext/4].Emit = r }
}

// The names of all rules of a sort.
var (
	allLoads = []string{"ld-abs", "ld-ind", "ldh-abs", "ldh-ind", "ldb-abs", "ldb-ind", "ldx-msh"}
	allMem   = []string{"ld-mem", "ldx-mem", "st", "stx"}
	allJumps = []string{"jeq-k", "jeq-x", "jgt-k", "jgt-x", "jge-k", "jge-x", "jset-k", "jset-x"}
	allDivs  = []string{"div-k", "div-x", "mod-k", "mod-x"}
	allRets  = []string{"ret-k", "ret-a"}
)
