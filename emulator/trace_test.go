package emulator

import (
	"slices"
	"testing"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// TestTrace: A is eax, X is ebx, and a word that was stored is on the stack. A
// machine traces one input after another.
func TestTrace(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p, WithTrace())
	var b x86.Buf
	b.Push(x86.BP)
	b.Mov(x86.W64, x86.R(x86.BP), x86.SP)
	b.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), 96)
	b.MovImm32(x86.AX, 7)
	b.Mov(x86.W32, x86.At8(x86.BP, -16), x86.AX)
	at := len(b)
	b.Bare(x86.Leave)
	b.Bare(x86.Ret)
	if err := m.Load(&kernelabi.Image{Code: b, Base: p.Base}); err != nil {
		t.Fatal(err)
	}
	names := RegisterNames(p.Arch)
	rsp, rbp := slices.Index(names, "rsp"), slices.Index(names, "rbp")
	for range 2 {
		steps, result, err := m.Trace(kernelabi.NewSkb(nil), 0)
		if err != nil || result.Value != 7 || len(steps) != 7 {
			t.Fatalf("%d steps, %+v, %v", len(steps), result, err)
		}
		s := steps[5]
		cell := (s.Registers[rbp] - 16 - s.Registers[rsp]) / 4
		if s.Offset != at || s.A != 7 || cell != 20 || s.Stack[cell] != 7 {
			t.Errorf("step %+v, the cell is word %d", s, cell)
		}
	}
	// A loop ends with the blocks of the trace, and the machine's budget is as
	// it was.
	if err := m.Load(&kernelabi.Image{Code: []byte{0xeb, 0xfe}, Base: p.Base}); err != nil {
		t.Fatal(err)
	}
	steps, result, err := m.Trace(kernelabi.NewSkb(nil), 100)
	if err != nil || result.Fault == nil || result.Fault.Kind != Timeout || len(steps) > 101 {
		t.Errorf("%d steps, %+v, %v", len(steps), result, err)
	}
	if steps, _, err = m.Trace(kernelabi.NewSkb(nil), 0); err != nil || len(steps) != maxSteps {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}
