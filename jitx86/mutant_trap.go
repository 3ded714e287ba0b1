package jitx86

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// trap is a fault that no kernel shipped, but that somebody who writes an emitter
// easily makes: a rule that is right nearly everywhere.
type trap struct {
	name    string // without "x86-" in front
	summary string // what comes of it, one line
	rules   []string
	change  func(t *table)
}

// traps lists the emitters with such a fault. The load helpers of linux-3.10 are
// not the emitter's; faults of loads in place are put into inline.
func traps() (all []*Emitter) {
	for _, group := range []struct {
		base  string
		table func() table
		traps []trap
	}{
		{"linux-3.10", linux310, slices.Concat(aluTraps, jumpTraps, loadTraps, frameTraps)},
		{"inline", inline, slices.Concat(inlineTraps, seccompTraps)},
	} {
		for _, x := range group.traps {
			t := group.table()
			x.change(&t)
			all = append(all, &Emitter{
				Name:    "x86-" + x.name,
				Summary: x.summary,
				Fault:   &Fault{Base: group.base, Rules: x.rules},
				rules:   t,
			})
		}
	}
	return all
}

// replaced is a change that puts in other rules by opcode.
func replaced(rules map[uint16]rule) func(*table) {
	return func(t *table) { t.Replace(rules) }
}

// replacedExts is one that puts in other rules for ancillary loads.
func replacedExts(rules map[bpf.Extension]rule) func(*table) {
	return func(t *table) { t.ReplaceExts(rules) }
}

// jumps is one that puts in other conditional jumps.
func jumps(rules map[uint16]func(skipRule) rule) func(*table) {
	return func(t *table) {
		for code, jump := range rules {
			t.Codes[code].Emit = jump(exactSkip)
		}
	}
}

// The names of all rules of a sort.
var (
	allLoads = []string{"ld-abs", "ld-ind", "ldh-abs", "ldh-ind", "ldb-abs", "ldb-ind", "ldx-msh"}
	allInd   = []string{"ld-ind", "ldh-ind", "ldb-ind"}
	allMem   = []string{"ld-mem", "ldx-mem", "st", "stx"}
	allJumps = []string{"ja", "jeq-k", "jeq-x", "jgt-k", "jgt-x", "jge-k", "jge-x", "jset-k", "jset-x"}
	allRets  = []string{"ret-k", "ret-a"}
)
