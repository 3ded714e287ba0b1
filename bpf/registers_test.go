package bpf_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kjit-project/kjit/bpf"
)

// What Reads and Writes say is found out by trying: a register that an
// instruction does not read cannot change what it does, and one that it does
// not write stays as it was.
func TestReadsAndWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for code := range uint16(0x100) {
		if !bpf.RulesCurrent.Accepts(code, bpf.Socket) || bpf.IsRet(code) {
			continue
		}
		reads, writes := bpf.Registers(0), bpf.Registers(0)
		ins := bpf.Instruction{Code: code, JT: 0, JF: 1, K: 3}
		for range 200 {
			a, x := r.Uint32N(40), r.Uint32N(40)
			base := step1(t, ins, a, x)
			if got := step1(t, ins, a+1, x); got.changed(base, bpf.RegA) {
				reads |= bpf.RegA
			}
			if got := step1(t, ins, a, x+1); got.changed(base, bpf.RegX) {
				reads |= bpf.RegX
			}
			if base.a != a {
				writes |= bpf.RegA
			}
			if base.x != x {
				writes |= bpf.RegX
			}
		}
		if got := ins.Reads(); got != reads {
			t.Errorf("code %#x reads %b, Reads says %b", code, reads, got)
		}
		if got := ins.Writes(); got != writes {
			t.Errorf("code %#x writes %b, Writes says %b", code, writes, got)
		}
	}
}

// after is what an instruction leaves behind.
type after struct{ a, x, m, a0, x0, pc uint32 }

// changed compares all but the register that was varied, if it was kept.
func (s after) changed(t after, varied bpf.Registers) bool {
	if varied == bpf.RegA && s.a == s.a0 && t.a == t.a0 {
		s.a, t.a = 0, 0
	}
	if varied == bpf.RegX && s.x == s.x0 && t.x == t.x0 {
		s.x, t.x = 0, 0
	}
	s.a0, t.a0, s.x0, t.x0 = 0, 0, 0, 0
	return s != t
}

// step1 executes ins with the given registers and M[3] = 99.
func step1(t *testing.T, ins bpf.Instruction, a, x uint32) after {
	t.Helper()
	prog := bpf.Program{
		{Code: bpf.LdImm, K: 99}, {Code: bpf.St, K: 3}, {Code: bpf.LdxImm, K: x}, {Code: bpf.LdImm, K: a},
		ins, {Code: bpf.LdxMem, K: 3}, {Code: bpf.LdxMem, K: 3}, {Code: bpf.LdxMem, K: 3}, {Code: bpf.LdxMem, K: 3}, {Code: bpf.RetK},
	}
	m, err := bpf.Compile(prog, bpf.Socket, bpf.RulesCurrent)
	if err != nil {
		t.Fatalf("code %#x: %v", ins.Code, err)
	}
	s := after{a0: a, x0: x}
	seen := false
	m.Trace(&packet{Packet: someBytes()}, func(st bpf.State) {
		if st.PC > 4 && !seen {
			seen = true
			s.a, s.x, s.m, s.pc = st.A, st.X, st.M[3], uint32(st.PC)
		}
	})
	return s
}

func someBytes() []byte {
	b := make([]byte, 128)
	for i := range b {
		b[i] = byte(i*37 + 11)
	}
	return b
}
