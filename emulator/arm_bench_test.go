package emulator

import (
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// armProfiles are one profile for each emulated ARM processor.
var armProfiles = []string{"linux-4.5-armv5", "linux-4.5-armv7", "linux-4.5-armv7-idiv"}

// armFilter is the posting's filter cut down to its first test, as Linux 4.5
// compiles it: the type of an Ethernet frame, by a slow load or a fast one.
func armFilter(p *kernelabi.Profile) []byte {
	return armAsm(func(a *arm.Asm) {
		slow, done := a.NewLabel(), a.NewLabel()
		field := func(name string) arm.Mem {
			off, err := p.Layout.Offset(name)
			if err != nil {
				panic(err)
			}
			return arm.At(arm.R6, int32(off))
		}
		saved := arm.Regs(arm.R4, arm.R6, arm.R7, arm.R8)
		a.Push(saved | arm.Regs(arm.LR))
		a.Mov(arm.AL, arm.R6, arm.R(arm.R0))
		a.Ldr(arm.AL, arm.R7, field(kernelabi.SkbData))
		a.Ldr(arm.AL, arm.R8, field(kernelabi.SkbLen))
		a.Ldr(arm.AL, arm.R0, field(kernelabi.SkbDataLen))
		a.Alu(arm.AL, arm.Sub, arm.R8, arm.R8, arm.R(arm.R0))
		a.Mov(arm.AL, arm.R1, arm.Imm(12))
		a.Alu(arm.AL, arm.Sub, arm.R0, arm.R8, arm.Imm(2))
		a.Compare(arm.AL, arm.Cmp, arm.R0, arm.R(arm.R1))
		a.Branch(arm.LT, slow)
		a.Alu(arm.AL, arm.Add, arm.R0, arm.R1, arm.R(arm.R7))
		a.Ldrb(arm.AL, arm.R1, arm.At(arm.R0, 0))
		a.Ldrb(arm.AL, arm.R2, arm.At(arm.R0, 1))
		a.Alu(arm.AL, arm.Orr, arm.R0, arm.R2, arm.Shifted(arm.R1, arm.LSL, 8))
		a.Branch(arm.AL, done)
		a.Bind(slow)
		a.Mov(arm.AL, arm.R0, arm.R(arm.R6))
		a.Const(arm.AL, arm.R3, uint32(p.Symbols["jit_get_skb_h"]))
		a.Blx(arm.AL, arm.R3)
		a.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
		a.Mov(arm.NE, arm.R0, arm.Imm(0))
		a.Bind(done)
		a.Pop(saved | arm.Regs(arm.PC))
	})
}

func BenchmarkARM(b *testing.B) {
	const packets = 1000
	linear := postingPackets(packets)
	split := make([]kernelabi.Input, packets)
	for i, in := range linear {
		split[i] = in.(*kernelabi.Skb).Split(8)
	}
	for _, name := range armProfiles {
		p := profile(b, name)
		for _, test := range []struct {
			name   string
			image  []byte
			inputs []kernelabi.Input
		}{
			{"return", armReturning(1), linear},
			{"fast load", armFilter(p), linear},
			{"slow load", armFilter(p), split},
		} {
			b.Run(name+"/"+test.name, func(b *testing.B) {
				m := newMachine(b, p)
				if err := m.Load(&kernelabi.Image{Code: test.image, Base: p.Base}); err != nil {
					b.Fatal(err)
				}
				var results []Result
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if results, err = m.Run(test.inputs, results); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*packets), "ns/packet")
			})
		}
		b.Run(name+"/fresh program", func(b *testing.B) {
			m := newMachine(b, p)
			var results []Result
			for b.Loop() {
				if err := m.Load(&kernelabi.Image{Code: armFilter(p), Base: p.Base}); err != nil {
					b.Fatal(err)
				}
				var err error
				if results, err = m.Run(linear[:1], results); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
