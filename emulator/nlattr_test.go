package emulator

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

var nlattrSymbols = map[string]func(s *kernelabi.Skb) (uint32, bool){
	"bpf_skb_get_nlattr":      func(s *kernelabi.Skb) (uint32, bool) { return s.FindNlattr(s.Mark, s.Rxhash) },
	"bpf_skb_get_nlattr_nest": func(s *kernelabi.Skb) (uint32, bool) { return s.FindNlattrNested(s.Mark, s.Rxhash) },
}

// attributes is a packet of netlink attributes, most of them in order, with the
// offset of one in mark and a type in rxhash.
func attributes(r *rand.Rand) *kernelabi.Skb {
	s := kernelabi.NewSkb(make([]byte, r.IntN(120)))
	at := r.IntN(8)
	s.Mark = uint32(at)
	for at+4 <= len(s.Packet) {
		length := 4 + r.IntN(12)
		step := (length + 3) &^ 3
		switch r.IntN(12) {
		case 0:
			length = r.IntN(4)
		case 1, 2, 3, 4: // it holds the next ones
			length, step = r.IntN(len(s.Packet)-at+2), 4
			s.Mark = uint32(at)
		case 5: // the last one
			step = max(step, len(s.Packet)-4-at)
		}
		binary.LittleEndian.PutUint16(s.Packet[at:], uint16(length))
		binary.LittleEndian.PutUint16(s.Packet[at+2:], uint16(r.IntN(6)|r.IntN(4)<<14))
		if r.IntN(6) == 0 {
			s.Mark = uint32(at)
		}
		at += step
	}
	s.Rxhash = uint32(r.IntN(6))
	switch r.IntN(20) {
	case 0:
		s.Mark = r.Uint32()
	case 1:
		s.Mark = uint32(len(s.Packet) - r.IntN(8))
	case 2:
		s.Rxhash |= 0xffff0000
	case 3:
		s = s.Split(r.IntN(len(s.Packet)+1), 3)
	}
	return s
}

func testNlattr(t *testing.T, r *rand.Rand, p *kernelabi.Profile, call func(p *kernelabi.Profile, symbol string) []byte) {
	m := newMachine(t, p)
	for symbol, reference := range nlattrSymbols {
		var inputs []kernelabi.Input
		for range 6000 {
			inputs = append(inputs, attributes(r))
		}
		found := 0
		for i, got := range run(t, m, call(p, symbol), inputs...) {
			s := inputs[i].(*kernelabi.Skb)
			want, _ := reference(s)
			if want != 0 {
				found++
			}
			if got.Value != want || got.Fault != nil || got.Broken != 0 {
				t.Fatalf("%s: %s(%d, %d): %+v (%v), want %d; %+v", p.Name, symbol, s.Mark, s.Rxhash, got, got.Fault, want, s)
			}
		}
		if found < 60 {
			t.Errorf("%s: only %d searches find something: the test is blind", symbol, found)
		}
	}
}

func TestNlattr(t *testing.T) {
	r := seeded(t)
	p := profile(t, "linux-6.18-x86_64").WithSymbols(map[string]uint64{
		"bpf_skb_get_nlattr": 0xffffffff81701500, "bpf_skb_get_nlattr_nest": 0xffffffff81701600,
	})
	testNlattr(t, r, p, func(p *kernelabi.Profile, symbol string) []byte {
		var a x86.Asm
		a.Load(x86.W32, x86.SI, skbField(p, kernelabi.SkbMark))
		a.Load(x86.W32, x86.DX, skbField(p, kernelabi.SkbRxhash))
		a.Push(x86.BX)
		a.Call(p.Symbols[symbol])
		a.Pop(x86.BX)
		a.Bare(x86.Ret)
		code, err := a.Bytes(p.Base)
		if err != nil {
			t.Fatal(err)
		}
		return code
	})
}

func TestARMNlattr(t *testing.T) {
	r := seeded(t)
	for _, name := range []string{"linux-6.1-armv5", "linux-6.1-armv6", "linux-6.1-armv7"} {
		p := profile(t, name).WithSymbols(map[string]uint64{"bpf_skb_get_nlattr": 0xc0801500, "bpf_skb_get_nlattr_nest": 0xc0801600})
		testNlattr(t, r, p, func(p *kernelabi.Profile, symbol string) []byte {
			return armAsm(func(a *arm.Asm) {
				const al = arm.AL
				a.Push(arm.Regs(arm.R4, arm.LR))
				a.Alu(al, arm.Sub, arm.SP, arm.SP, arm.Imm(8))
				a.Ldr(al, arm.R2, armField(p, kernelabi.SkbRxhash))
				a.Str(al, arm.R2, arm.At(arm.SP, 0))
				a.Ldr(al, arm.R2, armField(p, kernelabi.SkbMark))
				a.Const(al, arm.IP, uint32(p.Symbols[symbol]))
				a.Blx(al, arm.IP)
				a.Alu(al, arm.Orr, arm.R0, arm.R0, arm.Shifted(arm.R1, arm.LSL, 31))
				a.Alu(al, arm.Add, arm.SP, arm.SP, arm.Imm(8))
				a.Pop(arm.Regs(arm.R4, arm.PC))
			})
		})
	}
}
