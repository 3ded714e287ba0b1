package emulator

import "github.com/kjit-project/kjit/internal/arm"

// nlattr assembles bpf_skb_get_nlattr and bpf_skb_get_nlattr_nest, which are
// u64 f(u64 skb, u64 offset, u64 type): see guestAsm.nlattr. The packet may be at
// any address: attributes are read byte by byte.
func (a *armGuest) nlattr() {
	const (
		al                  = arm.AL
		at, remaining, data = arm.R4, arm.R5, arm.R6
		want, length, other = arm.R7, arm.R3, arm.R1
		header              = 4
		typeBits            = 14
	)
	saved := arm.Regs(at, remaining, data, want)
	const frame = 4 * 5 // what is pushed in front of the third argument
	search, none, found, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	half := func(rd, base arm.Reg, off int32) {
		a.Ldrb(al, rd, arm.At(base, off))
		a.Ldrb(al, arm.IP, arm.At(base, off+1))
		a.Alu(al, arm.Orr, rd, rd, arm.Shifted(arm.IP, arm.LSL, 8))
	}
	for _, nested := range []bool{false, true} {
		if nested {
			a.begin("bpf_skb_get_nlattr_nest")
		} else {
			a.begin("bpf_skb_get_nlattr")
		}
		a.Push(saved | arm.Regs(arm.LR))
		a.Ldr(al, want, arm.At(arm.SP, frame))
		a.Ldr(al, data, arm.At(arm.R0, hdrData))
		a.Ldr(al, other, arm.At(arm.R0, hdrTail))
		a.Alu(al, arm.Sub, other, other, arm.R(data))
		a.Ldr(al, remaining, arm.At(arm.R0, hdrLen))
		a.Compare(al, arm.Cmp, other, arm.R(remaining))
		a.Branch(arm.NE, none)
		a.Compare(al, arm.Cmp, arm.R2, arm.R(remaining)) // offsets are unsigned
		a.Branch(arm.HI, none)
		a.Alu(al, arm.Sub, remaining, remaining, arm.R(arm.R2))
		a.Compare(al, arm.Cmp, remaining, arm.Imm(header))
		a.Branch(arm.LT, none)
		a.Alu(al, arm.Add, at, data, arm.R(arm.R2))
		if !nested {
			a.Branch(al, search)
			continue
		}
		half(length, at, 0)
		a.Compare(al, arm.Cmp, length, arm.R(remaining))
		a.Branch(arm.GT, none)
		a.Alu(al, arm.Sub, remaining, length, arm.Imm(header))
		a.Alu(al, arm.Add, at, at, arm.Imm(header))
	}
	a.Bind(search)
	a.Compare(al, arm.Cmp, remaining, arm.Imm(header))
	a.Branch(arm.LT, none)
	half(length, at, 0)
	a.Compare(al, arm.Cmp, length, arm.Imm(header))
	a.Branch(arm.LT, none)
	a.Compare(al, arm.Cmp, length, arm.R(remaining))
	a.Branch(arm.GT, none)
	half(other, at, 2)
	a.Mov(al, other, arm.Shifted(other, arm.LSL, 32-typeBits))
	a.Mov(al, other, arm.Shifted(other, arm.LSR, 32-typeBits))
	a.Compare(al, arm.Cmp, other, arm.R(want))
	a.Branch(arm.EQ, found)
	a.Alu(al, arm.Add, length, length, arm.Imm(header-1))
	a.Alu(al, arm.Bic, length, length, arm.Imm(header-1))
	a.Alu(al, arm.Add, at, at, arm.R(length))
	a.Alu(al, arm.Sub, remaining, remaining, arm.R(length))
	a.Branch(al, search)

	a.Bind(none)
	a.Mov(al, arm.R0, arm.Imm(0))
	a.Branch(al, out)
	a.Bind(found)
	a.Alu(al, arm.Sub, arm.R0, at, arm.R(data))
	a.Bind(out)
	a.Mov(al, arm.R1, arm.Imm(0))
	a.poison(arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(saved | arm.Regs(arm.PC))
}
