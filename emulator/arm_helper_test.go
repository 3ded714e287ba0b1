package emulator

import (
	"strings"
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// armHelperCall is a filter that calls jit_get_skb_* with r1 = skb->mark and
// returns the value marked, 0 when r1 says error, and 0xbad when a register was
// not preserved. A copy of the registers is on the stack.
func armHelperCall(p *kernelabi.Profile, helper string) []byte {
	const al = arm.AL
	kept := arm.Regs(arm.R4, arm.R5, arm.R6, arm.R7, arm.R8, arm.R9, arm.R10, arm.FP)
	return armAsm(func(a *arm.Asm) {
		bad, fail, out := a.NewLabel(), a.NewLabel(), a.NewLabel()
		a.Push(kept | arm.Regs(arm.LR))
		a.Mov(al, arm.R4, arm.R(arm.SP))
		a.Ldr(al, arm.R1, armField(p, kernelabi.SkbMark))
		a.Const(al, arm.R3, uint32(p.Symbols[helper]))
		a.Blx(al, arm.R3)
		a.Compare(al, arm.Cmp, arm.R4, arm.R(arm.SP))
		a.Branch(arm.NE, bad)
		for i, r := range []arm.Reg{arm.R5, arm.R6, arm.R7, arm.R8, arm.R9, arm.R10, arm.FP} {
			a.Ldr(al, arm.R3, arm.At(arm.SP, int32(4*(i+1))))
			a.Compare(al, arm.Cmp, r, arm.R(arm.R3))
			a.Branch(arm.NE, bad)
		}
		a.Compare(al, arm.Cmp, arm.R1, arm.Imm(0))
		a.Branch(arm.NE, fail)
		a.Const(al, arm.R2, mark)
		a.Alu(al, arm.Eor, arm.R0, arm.R0, arm.R(arm.R2))
		a.Bind(out)
		a.Pop(kept | arm.Regs(arm.PC))
		a.Bind(fail)
		a.Mov(al, arm.R0, arm.Imm(0))
		a.Branch(al, out)
		a.Bind(bad)
		a.Const(al, arm.R0, 0xbad)
		a.Branch(al, out)
	})
}

func TestARMLoadHelpers(t *testing.T) {
	r := seeded(t)
	for _, name := range append([]string{"linux-3.12-armv5", "linux-3.12-armv7"}, armProfiles...) {
		p := profile(t, name)
		m := newMachine(t, p)
		negatives := p.LoadHelpers != kernelabi.LoadHelpers312
		for symbol, size := range map[string]int{"jit_get_skb_b": 1, "jit_get_skb_h": 2, "jit_get_skb_w": 4} {
			t.Run(name+"/"+symbol, func(t *testing.T) {
				var inputs []kernelabi.Input
				var want []uint32
				for range 2000 {
					s := randomSkb(r)
					if int32(s.Mark) < 0 && !negatives {
						// What lies in front of the packet is its headroom first.
						s.Mark = uint32(-r.IntN(s.Headroom + 1))
					}
					w := wantLoad(s, s.Mark, size)
					if to := make([]byte, size); int32(s.Mark) < 0 && !negatives {
						if w = 0; s.CopyBits(int32(s.Mark), to) {
							for _, b := range to {
								w = w<<8 | uint32(b)
							}
							w ^= mark
						}
					}
					inputs, want = append(inputs, s), append(want, w)
				}
				loads := 0
				for i, got := range run(t, m, armHelperCall(p, symbol), inputs...) {
					if got.Fault != nil || got.Broken != 0 || got.Value != want[i] || got.Inexact {
						t.Fatalf("offset %#x of %+v: %+v (%v), want %#x", inputs[i].(*kernelabi.Skb).Mark, inputs[i], got, got.Fault, want[i])
					}
					if want[i] != 0 {
						loads++
					}
				}
				if loads < 100 {
					t.Errorf("only %d of %d loads succeed: the test is blind", loads, len(want))
				}
			})
		}
	}
}

// TestARMOldHelperReadsInFront: the helpers of 3.12 take a negative offset as
// it is, and what lies 1 MiB in front of the packet is not mapped here.
func TestARMOldHelperReadsInFront(t *testing.T) {
	p := profile(t, "linux-3.12-armv5")
	m := newMachine(t, p)
	s := kernelabi.NewSkb(make([]byte, 54))
	for _, offset := range []int32{-0x100000, -0x100000 + 14, -0x200000} {
		s.Mark = uint32(offset)
		got := run(t, m, armHelperCall(p, "jit_get_skb_b"), s)[0]
		if f := got.Fault; f == nil || f.Kind != NotPresent || f.Access != Read || !strings.HasPrefix(f.Symbol, "skb_copy_bits") {
			t.Errorf("offset %#x: %+v (%v)", offset, got, f)
		}
	}
}

// armCallTwo calls a function with r0 = skb->mark, r1 = skb->rxhash.
func armCallTwo(p *kernelabi.Profile, helper string) []byte {
	return armAsm(func(a *arm.Asm) {
		a.Push(arm.Regs(arm.R4, arm.LR))
		a.Ldr(arm.AL, arm.R1, armField(p, kernelabi.SkbRxhash))
		a.Ldr(arm.AL, arm.R0, armField(p, kernelabi.SkbMark))
		a.Const(arm.AL, arm.R3, uint32(p.Symbols[helper]))
		a.Blx(arm.AL, arm.R3)
		a.Pop(arm.Regs(arm.R4, arm.PC))
	})
}

func TestARMDivision(t *testing.T) {
	r := seeded(t)
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		var inputs []kernelabi.Input
		edges := []uint32{0, 1, 2, 3, 7, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff}
		add := func(a, b uint32) {
			s := kernelabi.NewSkb(nil)
			s.Mark, s.Rxhash = a, b
			inputs = append(inputs, s)
		}
		for _, a := range edges {
			for _, b := range edges {
				add(a, b)
			}
		}
		for range 2000 {
			add(r.Uint32()>>r.IntN(32), r.Uint32()>>r.IntN(32))
		}
		for helper, f := range map[string]func(a, b uint32) uint32{
			"jit_udiv": func(a, b uint32) uint32 { return a / b },
			"jit_mod":  func(a, b uint32) uint32 { return a % b },
		} {
			for i, got := range run(t, m, armCallTwo(p, helper), inputs...) {
				s := inputs[i].(*kernelabi.Skb)
				want := uint32(0)
				if s.Rxhash != 0 {
					want = f(s.Mark, s.Rxhash)
				}
				if got.Value != want || got.Fault != nil || got.Broken != 0 {
					t.Fatalf("%s(%#x, %#x): %+v (%v), want %#x", helper, s.Mark, s.Rxhash, got, got.Fault, want)
				}
			}
		}
	})
}

// TestARMCallerSaved: what a helper may destroy, it destroys.
func TestARMCallerSaved(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		for helper := range p.Symbols {
			for _, reg := range []arm.Reg{arm.R2, arm.R3, arm.IP, arm.LR} {
				image := armAsm(func(a *arm.Asm) {
					a.Push(arm.Regs(arm.R4, arm.LR))
					a.Mov(arm.AL, arm.R1, arm.Imm(1))
					a.Mov(arm.AL, arm.R2, arm.Imm(1))
					a.Mov(arm.AL, arm.IP, arm.Imm(1))
					a.Const(arm.AL, arm.R3, uint32(p.Symbols[helper]))
					a.Blx(arm.AL, arm.R3)
					a.Mov(arm.AL, arm.R0, arm.R(reg))
					a.Pop(arm.Regs(arm.R4, arm.PC))
				})
				got := run(t, m, image, kernelabi.NewSkb(make([]byte, 64)))[0]
				if got.Value != armPoison(reg) || got.Fault != nil {
					t.Errorf("%s leaves %#x in register %d (%v), want poison", helper, got.Value, reg, got.Fault)
				}
			}
		}
	})
}

func TestARMPayOffset(t *testing.T) {
	p := profile(t, "linux-4.5-armv5")
	m := newMachine(t, p)
	image := armAsm(func(a *arm.Asm) {
		a.Const(arm.AL, arm.R3, uint32(p.Symbols["skb_get_poff"]))
		a.Bx(arm.AL, arm.R3)
	})
	tcp := make([]byte, 80)
	tcp[12], tcp[13] = 8, 0
	tcp[14], tcp[23], tcp[46] = 0x46, 6, 0x70 // IPv4 with options, TCP with options
	s := kernelabi.NewSkb(tcp)
	inputs := []kernelabi.Input{s, kernelabi.NewSkb(nil), s.Split(20, 11), s}
	for i, got := range run(t, m, image, inputs...) {
		if want := inputs[i].(*kernelabi.Skb).PayOffset(); got.Value != want || got.Fault != nil || i != 1 && want == 0 {
			t.Errorf("input %d: %+v (%v), want %d", i, got, got.Fault, want)
		}
	}
}

// TestARMSeccompLoad: the routine of 2013 reads the driver's present input.
func TestARMSeccompLoad(t *testing.T) {
	p := profile(t, "seccomp-2013-armv5")
	m := newMachine(t, p)
	off, err := p.Layout.Offset(kernelabi.SkbMark)
	if err != nil {
		t.Fatal(err)
	}
	image := armAsm(func(a *arm.Asm) {
		a.Mov(arm.AL, arm.R0, arm.Imm(uint32(off)))
		a.Const(arm.AL, arm.R3, uint32(p.Symbols["seccomp_bpf_load"]))
		a.Bx(arm.AL, arm.R3)
	})
	var inputs []kernelabi.Input
	for i := range uint32(100) {
		s := kernelabi.NewSkb(nil)
		s.Mark = 0x1000 + i
		inputs = append(inputs, s)
	}
	for i, got := range run(t, m, image, inputs...) {
		if want := 0x1000 + uint32(i); got.Value != want || got.Fault != nil {
			t.Fatalf("input %d: %+v (%v), want %#x", i, got, got.Fault, want)
		}
	}
}
