package main

import (
	"slices"
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	for _, test := range []struct {
		desc, line string
		want       string // among the candidates; "": there are none
		not        string
	}{
		{"a command", "kjit rep", "replay", "jit"},
		{"a command behind a flag", "kjit --json sec", "seccomp", "replay"},
		{"a command's command", "kjit seccomp ", "who", "replay"},
		{"hidden commands are not shown", "kjit ", "man", "__complete"},
		{"a flag", "kjit replay x --ro", "--rows", "--jit"},
		{"a flag of all commands", "kjit seccomp who --js", "--json", ""},
		{"a value that an enum has", "kjit replay --rows d", "diverging", "all"},
		{"a value behind =", "kjit replay --rows=d", "--rows=diverging", "--rows=all"},
		{"a JIT", "kjit replay --jit linux-3.1", "linux-3.10-x86_64", "linux-3.0-x86_64"},
		{"a JIT in a list", "kjit replay --jit all,inl", "all,inline-x86_64", ""},
		{"a mutant", "kjit jit --jit mutant:x86-an", "mutant:x86-and-imm16", ""},
		{"a mutant's name alone", "kjit mutants --only arm-rsh", "arm-rsh0", "mutant:arm-rsh0"},
		{"mutants in a list", "kjit mutants --only arm-rsh0,x86-an", "arm-rsh0,x86-and-imm16", ""},
		{"the name of the JIT with the fault", "kjit mutants --only mutant:arm-rsh", "mutant:arm-rsh0", ""},
		{"a form", "kjit convert --to dd", "ddd", "asm"},
		{"a kind", "kjit jit --kind s", "seccomp", ""},
		{"kinds of records are others", "kjit verify --kind ", "", "seccomp"},
		{"a program of the corpus", "kjit replay corpus:post", "corpus:posting2011", ""},
		{"packets of the corpus", "kjit replay f corpus:pa", "corpus:packets", ""},
		{"a value is no command", "kjit replay --dlt seccomp --ro", "--rows", ""},
		{"a file", "kjit replay fil", "", "file"},
		{"arguments only, behind --", "kjit replay -- --ro", "", "--rows"},
		{"an unknown flag", "kjit replay --nonsense=", "", ""},
		{"nothing", "", "", ""},
	} {
		var got []string
		for _, c := range complete(model(t).Model.Node, strings.Split(test.line, " ")) {
			got = append(got, c.text)
		}
		if test.want != "" && !slices.Contains(got, test.want) || slices.Contains(got, test.not) {
			t.Errorf("%s: %q: got %q, want %q, not %q", test.desc, test.line, got, test.want, test.not)
		}
	}
}
