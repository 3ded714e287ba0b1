package emulator

import "github.com/kjit-project/kjit/internal/x86"

// nlattr assembles bpf_skb_get_nlattr and bpf_skb_get_nlattr_nest (Linux 4.19
// and later, net/core/filter.c; the calls are the same since 3.15): rdi skb, esi
// the offset where the attributes, or the attribute that holds them, begin, edx
// the type looked for. rax is the offset of the attribute, or 0. As in the kernel
// the packet has to be linear.
func (a *guestAsm) nlattr() {
	const (
		at, remaining, data = x86.R8, x86.CX, x86.R9
		length, other       = x86.AX, x86.R10
		header              = 4
		typeMask            = 0x3fff
	)
	search, none, found, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	for _, nested := range []bool{false, true} {
		if nested {
			a.begin("bpf_skb_get_nlattr_nest")
		} else {
			a.begin("bpf_skb_get_nlattr")
		}
		a.Load(x86.W64, data, x86.At(x86.DI, hdrData))
		a.Load(x86.W64, other, x86.At(x86.DI, hdrTail))
		a.Alu(x86.Sub, x86.W64, x86.R(other), data)
		a.Load(x86.W64, remaining, x86.At(x86.DI, hdrLen))
		a.Alu(x86.Cmp, x86.W64, x86.R(other), remaining)
		a.Jcc(x86.CondNE, none)
		a.Mov(x86.W32, x86.R(x86.SI), x86.SI)
		a.Alu(x86.Sub, x86.W64, x86.R(remaining), x86.SI)
		a.AluImm8(x86.Cmp, x86.W64, x86.R(remaining), header)
		a.Jcc(x86.CondL, none)
		a.Lea(x86.W64, at, x86.Indexed(data, x86.SI, 1, 0))
		if !nested {
			a.Jmp(search)
			continue
		}
		a.MovZX(length, x86.W16, x86.At(at, 0))
		a.Alu(x86.Cmp, x86.W64, x86.R(length), remaining)
		a.Jcc(x86.CondG, none)
		a.Lea(x86.W64, remaining, x86.At(length, -header))
		a.AluImm8(x86.Add, x86.W64, x86.R(at), header)
	}
	a.Bind(search)
	a.AluImm8(x86.Cmp, x86.W64, x86.R(remaining), header)
	a.Jcc(x86.CondL, none)
	a.MovZX(length, x86.W16, x86.At(at, 0))
	a.AluImm8(x86.Cmp, x86.W64, x86.R(length), header)
	a.Jcc(x86.CondL, none)
	a.Alu(x86.Cmp, x86.W64, x86.R(length), remaining)
	a.Jcc(x86.CondG, none)
	a.MovZX(other, x86.W16, x86.At(at, 2))
	a.AluImm(x86.And, x86.W32, x86.R(other), typeMask)
	a.Alu(x86.Cmp, x86.W32, x86.R(other), x86.DX)
	a.Jcc(x86.CondE, found)
	a.AluImm8(x86.Add, x86.W64, x86.R(length), header-1)
	a.AluImm8(x86.And, x86.W64, x86.R(length), -header)
	a.Alu(x86.Add, x86.W64, x86.R(at), length)
	a.Alu(x86.Sub, x86.W64, x86.R(remaining), length)
	a.Jmp(search)

	a.Bind(none)
	a.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.AX)
	a.Jmp(out)
	a.Bind(found)
	a.Mov(x86.W64, x86.R(x86.AX), at)
	a.Alu(x86.Sub, x86.W64, x86.R(x86.AX), data)
	a.Bind(out)
	a.poison(x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11)
	a.Bare(x86.Ret)
}
