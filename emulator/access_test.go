package emulator

import (
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Writes below the stack pointer, where an interrupt would destroy them, are
// noticed by a machine that looks at accesses; pushes and calls are not that.
func TestBelowStack(t *testing.T) {
	const al = arm.AL
	x86Code := func(emit func(b *x86.Buf)) []byte {
		return code(func(b *x86.Buf) {
			emit(b)
			b.Bare(x86.Ret)
		})
	}
	armCode := func(emit func(a *arm.Asm)) []byte {
		return armAsm(func(a *arm.Asm) {
			emit(a)
			a.Bx(al, arm.LR)
		})
	}
	for _, tt := range []struct {
		desc    string
		profile string
		code    []byte
		broken  bool
	}{
		{"x86_64: a push and a pop", "linux-3.10-x86_64", x86Code(func(b *x86.Buf) { b.Push(x86.BX); b.Pop(x86.BX) }), false},
		{"x86_64: a write into the frame", "linux-3.10-x86_64", x86Code(func(b *x86.Buf) {
			b.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), 96)
			b.Mov(x86.W32, x86.At(x86.SP, 8), x86.AX)
			b.AluImm8(x86.Add, x86.W64, x86.R(x86.SP), 96)
		}), false},
		{"x86_64: a write below the frame", "linux-3.10-x86_64", x86Code(func(b *x86.Buf) { b.Mov(x86.W32, x86.At(x86.SP, -256), x86.AX) }), true},
		{"ARM: a push and a pop", "linux-4.5-armv7", armCode(func(a *arm.Asm) {
			a.Push(arm.Regs(arm.R4, arm.R5))
			a.Pop(arm.Regs(arm.R4, arm.R5))
		}), false},
		{"ARM: a write below the frame", "linux-4.5-armv7", armCode(func(a *arm.Asm) { a.Str(al, arm.R0, arm.At(arm.SP, -256)) }), true},
		{"ARMv5: a write below the frame", "linux-4.5-armv5", armCode(func(a *arm.Asm) { a.Str(al, arm.R0, arm.At(arm.SP, -256)) }), true},
	} {
		p, err := kernelabi.ProfileByName(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(t, p, WithAccessChecks())
		for _, r := range run(t, m, tt.code, kernelabi.NewSkb(nil)) {
			if got := r.Broken == BrokenFrame; r.Fault != nil || got != tt.broken || r.Broken&^BrokenFrame != 0 {
				t.Errorf("%s: broken %q, fault %v", tt.desc, r.Broken, r.Fault)
			}
		}
	}
}

// What lies above the return address is the caller's: reading it is a fault.
func TestCallersFrame(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-3.10-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	image := code(func(b *x86.Buf) {
		b.Load(x86.W32, x86.AX, x86.At(x86.SP, 8))
		b.Bare(x86.Ret)
	})
	for _, r := range run(t, newMachine(t, p), image, kernelabi.NewSkb(nil)) {
		if r.Fault == nil || r.Fault.Access != Read || r.Fault.Where != "the caller's stack frame" {
			t.Errorf("got %+v (%v)", r, r.Fault)
		}
	}
}

// Code that changes the control registers loses its result, and the inputs
// after it run under the old rules. This image clears CR0.WP unless the packet
// has 2 bytes; then it writes to the packet.
func TestControlRegisters(t *testing.T) {
	image := unhex("8b4760" + "83f802" + "7411" + "0f20c0" + "480fbaf010" + "0f22c0" + "b807000000c3" +
		"488b87b8000000" + "c60055" + "b807000000c3")
	m := postingMachine(t)
	one, two := kernelabi.NewSkb([]byte{1}), kernelabi.NewSkb([]byte{1, 2})
	for i, r := range run(t, m, image, two, one, two, one) {
		want := LostControl
		if i%2 == 0 {
			want = Protection
		}
		if r.Fault == nil || r.Fault.Kind != want {
			t.Errorf("input %d: %+v (%v), want %s", i, r, r.Fault, want)
		}
	}
}
