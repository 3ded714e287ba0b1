package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/x86"
)

var seccompTraps = []trap{
	{"seccomp-order", "words of system calls are swapped as those of packets are", []string{"ld-data"},
		seccompLoad(func(c *Compiler, in bpf.Instruction) {
			loadData(c, in)
			c.Bswap(x86.W32, x86.AX)
		})},
	{"seccomp-halves", "the halves of arguments are taken for big endian", []string{"ld-data"},
		seccompLoad(func(c *Compiler, in bpf.Instruction) {
			if in.K >= 16 {
				in.K ^= 4
			}
			loadData(c, in)
		})},
	{"seccomp-no-ip", "arguments are loaded from where the instruction pointer is", []string{"ld-data"},
		seccompLoad(func(c *Compiler, in bpf.Instruction) {
			if in.K >= 16 {
				in.K -= 8
			}
			loadData(c, in)
		})},
	{"seccomp-len", "LD LEN reads the length of a packet that is not there", []string{"ld-len"}, seccompWithout(bpf.LdLen)},
	{"seccomp-x-len", "LDX LEN reads the length of a packet that is not there", []string{"ldx-len"}, seccompWithout(bpf.LdxLen)},
	{"seccomp-a-not-cleared", "filters do not clear A in front of a load of X", []string{"entry-a"}, func(t *table) {
		for _, code := range []uint16{bpf.LdxImm, bpf.LdxLen} {
			e := t.Lookup(bpf.Instruction{Code: code}, bpf.Seccomp)
			e.SetsA = true
			t.Seccomp[code] = e
		}
	}},
}

func seccompLoad(load rule) func(*table) {
	return func(t *table) {
		t.Seccomp[bpf.LdWAbs] = entry{Emit: load, SetsA: true}
	}
}

// seccompWithout leaves the rule of socket filters in force.
func seccompWithout(code uint16) func(*table) {
	return func(t *table) {
		delete(t.Seccomp, code)
	}
}
