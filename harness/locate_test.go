package harness

import (
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestLocate(t *testing.T) {
	var locator Locator
	defer locator.Close()
	for _, tt := range []struct {
		desc    string
		profile string
		prog    bpf.Program
		pc      int
		how     string
	}{
		{"A wrong quotient is found at the division.", "linux-3.0-x86_64",
			bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.DivK, K: 1}, {Code: bpf.AddK, K: 5}, {Code: bpf.RetA}},
			1, "after it A is 0x0, the interpreter has 0x10203"},
		{"A jump to the wrong instruction is found at the jump.", "linux-3.0-x86_64",
			bpf.Program{{Code: bpf.LdImm, K: 10}, {Code: bpf.LdxImm}, {Code: bpf.DivX}, {Code: bpf.JeqK, JF: 1, K: 10}, {Code: bpf.RetK}, {Code: bpf.RetK, K: 5}},
			2, "the code goes on to instruction 5, the interpreter has returned"},
		{"Running off the image is found at the jump that left it.", "linux-3.0-x86_64",
			bpf.Program{{Code: bpf.LdImm, K: 10}, {Code: bpf.LdxImm}, {Code: bpf.DivX}, {Code: bpf.JeqK, JF: 1, K: 10}, {Code: bpf.RetK, K: 5}, {Code: bpf.RetK}},
			2, "breakpoint"},
		{"A register that keeps the caller's value is found where it is needed first.", "linux-4.5-armv7",
			bpf.Program{{Code: bpf.LdLen}, {Code: bpf.JeqK, JF: 1, K: 1}, {Code: bpf.Tax}, {Code: bpf.Txa}, {Code: bpf.RetA}},
			-1, "after it X is 0xdead5555, the interpreter has 0x0"},
		{"A cell that is wrong is found at the store.", "mutant:arm-scratch-byte-offset",
			bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.St}, {Code: bpf.LdImm, K: 8}, {Code: bpf.St, K: 3}, {Code: bpf.AddK, K: 1}, {Code: bpf.LdMem}, {Code: bpf.RetA}},
			3, "after it M[0] is 0x8000007, the interpreter has 0x7"},
		{"A cell of x86 code is looked at too.", "linux-3.0-x86_64",
			bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.St, K: 15}, {Code: bpf.DivK, K: 1}, {Code: bpf.St, K: 14}, {Code: bpf.LdMem, K: 15}, {Code: bpf.LdxMem, K: 14}, {Code: bpf.AddX}, {Code: bpf.RetA}},
			2, "after it A is 0x0, the interpreter has 0x7"},
		{"An image that was never written has no place.", "linux-3.0-x86_64", convergeLast(), -1, "breakpoint"},
	} {
		p, err := ProfileByName(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewJIT(p)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		place, err := locator.Locate(r, tt.prog, kernelabi.NewSkb([]byte{0, 1, 2, 3, 4, 5}))
		if err != nil {
			t.Errorf("%s got error %v", tt.desc, err)
			continue
		}
		if place.PC != tt.pc || !strings.Contains(place.How, tt.how) {
			t.Errorf("%s got instruction %d: %s; want %d: %s", tt.desc, place.PC, place.How, tt.pc, tt.how)
		}
		var b strings.Builder
		place.Print(&b)
		if !strings.Contains(b.String(), place.How) {
			t.Errorf("%s prints\n%s", tt.desc, b.String())
		}
	}
	if _, err := Locate(NewInterpreter(nil), returnLength, kernelabi.NewSkb(nil)); err == nil {
		t.Error("the interpreter, which runs no machine code, has a place")
	}
}

// One machine traces all that a runner diverges on, also when code ran wild in
// it before, and not more than a few are kept.
func TestLocatorKeepsMachines(t *testing.T) {
	var locator Locator
	defer locator.Close()
	p, err := ProfileByName("linux-3.0-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	skb := kernelabi.NewSkb([]byte{0, 1, 2, 3, 4, 5})
	wild := bpf.Program{{Code: bpf.LdImm, K: 10}, {Code: bpf.LdxImm}, {Code: bpf.DivX}, {Code: bpf.JeqK, JF: 1, K: 10}, {Code: bpf.RetK, K: 5}, {Code: bpf.RetK}}
	wrong := bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.DivK, K: 1}, {Code: bpf.RetA}}
	var first *guest
	for range maxTracers + 2 {
		r, err := NewJIT(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			prog bpf.Program
			pc   int
		}{{wrong, 1}, {wild, 2}, {wrong, 1}} {
			place, err := locator.Locate(r, tt.prog, skb)
			if err != nil || place.PC != tt.pc {
				t.Fatalf("%+v, %v, want instruction %d", place, err, tt.pc)
			}
		}
		if g := locator.tracer(r); first == nil {
			first = g
		}
		r.Close()
	}
	if len(locator.tracers) != maxTracers || first.machine != nil {
		t.Errorf("%d machines are kept", len(locator.tracers))
	}
}

// convergeLast is the program whose sizes first agree in the last pass of
// Linux 3.0: eight blocks of a far jump and what it jumps over.
func convergeLast() bpf.Program {
	prog := bpf.Program{{Code: bpf.LdLen}}
	for j := range uint32(8) {
		jf := uint8(25)
		if j == 7 {
			jf = 24
		}
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, JF: jf, K: 1000 + j})
		for i := range uint32(24) {
			prog = append(prog, bpf.Instruction{Code: bpf.AddK, K: 1000 + i})
		}
	}
	return append(prog, bpf.Instruction{Code: bpf.RetK, K: 1})
}
