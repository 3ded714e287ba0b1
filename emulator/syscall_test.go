package emulator

import (
	"slices"
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// loadWord is code that returns the word at an offset from its argument.
func loadWord(a kernelabi.Arch, off int32) []byte {
	if a == kernelabi.X86_64 {
		return code(func(b *x86.Buf) {
			b.Load(x86.W32, x86.AX, x86.At(x86.DI, off))
			b.Bare(x86.Ret)
		})
	}
	return armCode(func(b *arm.Buf) {
		b.Ldr(arm.AL, arm.R0, arm.At(arm.R0, off))
		b.Bx(arm.AL, arm.LR)
	})
}

// System calls and packets may follow each other in any order; code finds every
// word of the struct and nothing behind it.
func TestSystemCalls(t *testing.T) {
	for _, name := range []string{"linux-6.18-x86_64", "linux-6.1-armv5", "linux-6.1-armv7"} {
		p := profile(t, name)
		m := newMachine(t, p)
		var calls []kernelabi.Input
		for i := range uint64(windowSlots + 10) {
			calls = append(calls, &kernelabi.Syscall{Data: seccompdata.Data{
				Nr: uint32(i), Arch: 0xc000003e, IP: 0x1122334455667788 * i, Args: [6]uint64{i<<33 | i + 1, 1, 2, 3, 4, ^i},
			}})
		}
		for off := uint32(0); off < seccompdata.Size; off += 4 {
			for i, got := range run(t, m, loadWord(p.Arch, int32(off)), calls...) {
				want, _ := calls[i].(*kernelabi.Syscall).Load(off, 4)
				if got.Value != want || got.Fault != nil {
					t.Fatalf("%s: call %d, offset %d: %+v (%v), want %#x", name, i, off, got, got.Fault, want)
				}
			}
		}
		for _, off := range []int32{seccompdata.Size, seccompdata.Size + 4} {
			got := run(t, m, loadWord(p.Arch, off), calls[3])[0]
			if f := got.Fault; f == nil || f.Where != "the guard page behind the system call" {
				t.Errorf("%s: a load at %d: %+v (%v)", name, off, got, f)
			}
		}

		packet := kernelabi.NewSkb(make([]byte, 77))
		packet.NoDevice = true
		mixed := slices.Clone(calls)
		for i := range mixed {
			if i%3 == 0 {
				mixed[i] = packet
			}
		}
		dev := p.Layout[kernelabi.SkbDev]
		for range 2 {
			for i, got := range run(t, m, loadWord(p.Arch, int32(dev)), mixed...) {
				want := uint32(0)
				if call, ok := mixed[i].(*kernelabi.Syscall); ok {
					want, _ = call.Load(uint32(dev), 4)
				}
				if got.Value != want || got.Fault != nil {
					t.Fatalf("%s: input %d of both kinds: %+v (%v), want %#x", name, i, got, got.Fault, want)
				}
			}
			slices.Reverse(mixed)
		}
	}
}
