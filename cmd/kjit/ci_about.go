package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/judge"
)

// inWords says what happens in divergences of a kind.
var inWords = map[judge.Kind]string{
	judge.Value:     "the filter returns another value",
	judge.Fault:     "the code does what no compiled filter may do",
	judge.Timeout:   "the code does not come to an end",
	judge.Broken:    "the value is right, a promise to the caller is broken",
	judge.Refusal:   "the JIT refuses a program that it should compile",
	judge.Rejected:  "JIT and interpreter do not agree on whether the program is valid",
	judge.Undefined: "another value after a shift by X of 32 or more",
	judge.Failed:    "the JIT gives no outcome",
}

// operands are those of bpf_asm, by what emission rules are called after the
// mnemonic.
var operands = map[string]string{
	"k": "#k", "x": "x", "a": "a", "imm": "#k", "mem": "M[k]", "len": "#len", "abs": "[k]", "ind": "[x + k]", "msh": "4*([k]&0xf)",
	"data": "[k] of seccomp data",
}

// blamed says what the blame is on for a rule of package judge.
func blamed(rule string) string {
	first, rest, more := strings.Cut(rule, "-")
	switch {
	case rule == campaign.Unreproduced:
		return "a program that alone does not show it"
	case more && first == "entry":
		return "the prologue (" + rest + ")"
	case more && first == "native":
		return "the machine instruction " + rest
	case more && operands[rest] != "":
		return first + " " + operands[rest]
	}
	return rule
}

// aboutDivergence tells of the divergences of a signature; again is a command that
// shows one.
func aboutDivergence(sig judge.Signature, again string) ciformat.About {
	what := cmp.Or(inWords[sig.Kind], string(sig.Kind))
	why := "To blame is " + blamed(sig.Rule)
	switch sig.Kind {
	case judge.Refusal, judge.Rejected, judge.Failed:
		why = "The reason is " + sig.Rule
	}
	return ciformat.About{
		Brief: fmt.Sprintf("%s, %s: %s", sig.Runner, blamed(sig.Rule), what),
		Full: fmt.Sprintf("The code of %s does not do what the kernel's interpreter does: %s. %s. "+
			"Divergences of one JIT, rule (%s) and kind (%s) are taken for one fault.", sig.Runner, what, why, sig.Rule, sig.Kind),
		Again: again,
	}
}

// commandLine is a command of kjit's as a shell takes it. Words that are empty are
// left out.
func commandLine(words ...string) string {
	line := "kjit"
	for _, w := range words {
		switch {
		case w == "":
		case strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-") == "":
			line += " " + w
		default:
			line += " '" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return line
}

// replayAgain is the command that runs a recorded divergence of a JIT again. One of
// the user's own has to be named: it is not started because a file says so.
func replayAgain(jit, file string) string {
	if !usesPlugin(jit) {
		return commandLine("replay", file)
	}
	return commandLine("replay", file, "--jit", jit)
}
