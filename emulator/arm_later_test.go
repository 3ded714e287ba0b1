package emulator

import (
	"strconv"
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// laterProfiles are one profile for each emulated ARM processor, and one whose
// negative offsets reach page fragments.
func laterProfiles(t *testing.T) []*kernelabi.Profile {
	symbols := map[string]uint64{
		"bpf_skb_load_helper_8_no_cache": 0xc0801000, "bpf_skb_load_helper_16_no_cache": 0xc0801100,
		"bpf_skb_load_helper_32_no_cache": 0xc0801200, "bpf_get_raw_cpu_id": 0xc0801300, "bpf_skb_get_pay_offset": 0xc0801400,
		"bpf_user_rnd_u32": 0xc0801700, "jit_udiv32": 0xc0801500, "jit_mod32": 0xc0801600,
	}
	var out []*kernelabi.Profile
	for _, name := range []string{"linux-6.1-armv5", "linux-6.1-armv6", "linux-6.1-armv7"} {
		out = append(out, profile(t, name).WithSymbols(symbols))
	}
	reaching := *out[0]
	reaching.Name += ", reaching fragments"
	reaching.Semantics.NegativeOffsetsReachFrags = true
	return append(out, &reaching)
}

// laterCall is a filter that calls a load helper for the offset skb->mark and
// returns the value, or the error with the top bit of its upper half cleared.
func laterCall(p *kernelabi.Profile, helper string, cached bool) []byte {
	const al, stack = arm.AL, 24
	return armAsm(func(a *arm.Asm) {
		a.Push(arm.Regs(arm.R4, arm.LR))
		a.Alu(al, arm.Sub, arm.SP, arm.SP, arm.Imm(stack))
		a.Ldr(al, arm.R4, armField(p, kernelabi.SkbMark))
		if cached {
			a.Ldr(al, arm.R2, armField(p, kernelabi.SkbData))
			a.Ldr(al, arm.R3, armField(p, kernelabi.SkbLen))
			a.Ldr(al, arm.R1, armField(p, kernelabi.SkbDataLen))
			a.Alu(al, arm.Sub, arm.R3, arm.R3, arm.R(arm.R1))
			a.Str(al, arm.R3, arm.At(arm.SP, 0))
			a.Str(al, arm.R4, arm.At(arm.SP, 8))
		} else {
			a.Mov(al, arm.R2, arm.R(arm.R4))
		}
		a.Const(al, arm.IP, uint32(p.Symbols[helper]))
		a.Blx(al, arm.IP)
		a.Alu(al, arm.Eor, arm.R0, arm.R0, arm.Shifted(arm.R1, arm.LSL, 31))
		a.Alu(al, arm.Add, arm.SP, arm.SP, arm.Imm(stack))
		a.Pop(arm.Regs(arm.R4, arm.PC))
	})
}

func TestARMLaterLoadHelpers(t *testing.T) {
	r := seeded(t)
	for _, p := range laterProfiles(t) {
		m := newMachine(t, p)
		for _, size := range []int{1, 2, 4} {
			for _, suffix := range []string{"", "_no_cache"} {
				helper := "bpf_skb_load_helper_" + strconv.Itoa(8*size) + suffix
				var inputs []kernelabi.Input
				for range 1500 {
					inputs = append(inputs, randomSkb(r))
				}
				found := 0
				for i, got := range run(t, m, laterCall(p, helper, suffix == ""), inputs...) {
					s := inputs[i].(*kernelabi.Skb)
					want, ok := (&kernelabi.SkbView{Skb: s, Semantics: p.Semantics}).Load(s.Mark, size)
					if ok {
						found++
					} else {
						want = 0x7ffffff2
					}
					if got.Value != want || got.Fault != nil || got.Broken != 0 {
						t.Fatalf("%s: %s: %d bytes at %d: %+v (%v), want %#x; %+v", p.Name, helper, size, int32(s.Mark), got, got.Fault, want, s)
					}
				}
				if found < 100 {
					t.Errorf("%s: only %d loads succeed: the test is blind", helper, found)
				}
			}
		}
	}
}

func TestARMLaterFunctions(t *testing.T) {
	s := kernelabi.NewSkb(make([]byte, 60))
	copy(s.Packet[12:], "\x08\x00\x45") // IPv4, no options, no protocol known: the payload is behind the header
	s.Protocol, s.CPU, s.Mark, s.Rxhash, s.Random = 0x0800, 3, 1000, 7, 0x12345678
	for _, p := range laterProfiles(t) {
		m := newMachine(t, p)
		for symbol, want := range map[string]uint32{
			"bpf_get_raw_cpu_id": 3, "bpf_skb_get_pay_offset": s.PayOffset(), "jit_udiv32": 142, "jit_mod32": 6, "bpf_user_rnd_u32": 0x12345678,
		} {
			image := armAsm(func(a *arm.Asm) {
				a.Push(arm.Regs(arm.R4, arm.LR))
				if symbol[:3] == "jit" {
					a.Ldr(arm.AL, arm.R1, armField(p, kernelabi.SkbRxhash))
					a.Ldr(arm.AL, arm.R0, armField(p, kernelabi.SkbMark))
				}
				a.Const(arm.AL, arm.IP, uint32(p.Symbols[symbol]))
				a.Blx(arm.AL, arm.IP)
				a.Pop(arm.Regs(arm.R4, arm.PC))
			})
			if got := run(t, m, image, s)[0]; got.Value != want || got.Fault != nil || got.Broken != 0 {
				t.Errorf("%s: %s: %+v (%v), want %d", p.Name, symbol, got, got.Fault, want)
			}
		}
	}
	if s.PayOffset() == 0 {
		t.Error("the test is blind to payload offsets of 0")
	}
}
