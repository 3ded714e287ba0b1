package emulator

import (
	"fmt"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// The kernel's C functions that code compiled from converted programs calls
// (Linux 4.19 and later, net/core/filter.c). All arguments have 64 bits: the
// first two are in r1:r0 and r3:r2, the others on the stack; the result is in
// r1:r0.

// later assembles them. cpu is the address of the processor number.
func (a *armGuest) later(semantics kernelabi.Semantics, cpu uint32) {
	for bytes := uint32(1); bytes <= 4; bytes *= 2 {
		a.loadHelper(bytes, semantics.NegativeOffsetsReachFrags)
	}
	a.divide("jit_udiv32", arm.R2)
	a.divide("jit_mod32", arm.R0)
	a.nlattr()

	a.begin("bpf_get_raw_cpu_id")
	a.Push(arm.Regs(arm.LR))
	a.Const(arm.AL, arm.R0, cpu)
	a.Ldr(arm.AL, arm.R0, arm.At(arm.R0, 0))
	a.endLater()

	a.begin(laterRandomSymbol)
	a.Push(arm.Regs(arm.LR))
	a.Ldr(arm.AL, arm.R0, arm.At(arm.R0, hdrFrags))
	a.Ldr(arm.AL, arm.R0, arm.At(arm.R0, fragRandom))
	a.endLater()

	a.begin(laterPayOffsetSymbol)
	a.Push(arm.Regs(arm.LR))
	a.CallLabel(arm.AL, a.label(payOffsetSymbol))
	a.endLater()
}

// endLater returns r0 as 64 bits.
func (a *armGuest) endLater() {
	a.Mov(arm.AL, arm.R1, arm.Imm(0))
	a.poison(arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(arm.Regs(arm.PC))
}

// loadHelper is bpf_skb_load_helper_N(skb, data, headlen, offset): the value in
// host order or -EFAULT. As in the kernel it trusts what its caller says of the
// linear part. reachFrags: negative offsets may lead to page fragments (Linux
// 6.16 on).
func (a *armGuest) loadHelper(bytes uint32, reachFrags bool) {
	const frame, scratch = 8, 4
	const headlen, offset = frame, frame + 8
	slow, negative, value, fail, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	name := fmt.Sprintf("bpf_skb_load_helper_%d", 8*bytes)

	// For programs that do not keep data and headlen: (skb, offset).
	a.begin(name + "_no_cache")
	a.Str(arm.AL, arm.LR, arm.Pre(arm.SP, -frame))
	a.Mov(arm.AL, arm.IP, arm.R(arm.R2))
	a.Compare(arm.AL, arm.Cmp, arm.IP, arm.Imm(0))
	a.Branch(arm.GE, slow)
	a.Branch(arm.AL, negative)

	a.begin(name)
	a.Str(arm.AL, arm.LR, arm.Pre(arm.SP, -frame))
	a.Ldr(arm.AL, arm.IP, arm.At(arm.SP, offset))
	a.Compare(arm.AL, arm.Cmp, arm.IP, arm.Imm(0))
	a.Branch(arm.LT, negative)
	a.Ldr(arm.AL, arm.R3, arm.At(arm.SP, headlen))
	a.Alu(arm.AL, arm.Sub, arm.R3, arm.R3, arm.R(arm.IP))
	a.Compare(arm.AL, arm.Cmp, arm.R3, arm.Imm(bytes))
	a.Branch(arm.LT, slow)
	a.Alu(arm.AL, arm.Add, arm.R0, arm.R2, arm.R(arm.IP))
	a.Branch(arm.AL, value)

	a.Bind(slow)
	a.Mov(arm.AL, arm.R1, arm.R(arm.IP))
	a.Alu(arm.AL, arm.Add, arm.R2, arm.SP, arm.Imm(scratch))
	a.Mov(arm.AL, arm.R3, arm.Imm(bytes))
	a.CallLabel(arm.AL, a.label("skb_copy_bits"))
	a.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
	a.Branch(arm.NE, fail)
	a.Alu(arm.AL, arm.Add, arm.R0, arm.SP, arm.Imm(scratch))

	a.Bind(value)
	a.loadValue(bytes)
	a.Mov(arm.AL, arm.R1, arm.Imm(0))
	a.Bind(out)
	a.poison(arm.R2, arm.R3, arm.IP, arm.LR)
	a.Ldr(arm.AL, arm.PC, arm.Post(arm.SP, frame))

	a.Bind(negative)
	if reachFrags {
		a.Compare(arm.AL, arm.Cmn, arm.IP, arm.Imm(0x100000))
		a.Ldr(arm.GE, arm.R1, arm.At(arm.R0, hdrNetwork))
		a.Alu(arm.GE, arm.Add, arm.IP, arm.IP, arm.Imm(0x100000))
		a.Ldr(arm.LT, arm.R1, arm.At(arm.R0, hdrMac))
		link := a.NewLabel()
		a.Branch(arm.GE, link)
		a.Compare(arm.AL, arm.Cmn, arm.IP, arm.Imm(0x200000))
		a.Branch(arm.LT, fail)
		a.Alu(arm.AL, arm.Add, arm.IP, arm.IP, arm.Imm(0x200000))
		a.Bind(link)
		a.Alu(arm.AL, arm.Add, arm.IP, arm.IP, arm.R(arm.R1))
		a.Ldr(arm.AL, arm.R1, arm.At(arm.R0, hdrData))
		a.Alu(arm.AL, arm.Sub, arm.IP, arm.IP, arm.R(arm.R1))
		a.Branch(arm.AL, slow)
	} else {
		a.Mov(arm.AL, arm.R1, arm.R(arm.IP))
		a.Mov(arm.AL, arm.R2, arm.Imm(bytes))
		a.CallLabel(arm.AL, a.label("bpf_internal_load_pointer_neg_helper"))
		a.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
		a.Branch(arm.NE, value)
	}
	a.Bind(fail)
	a.Mvn(arm.AL, arm.R0, arm.Imm(14-1))
	a.Mvn(arm.AL, arm.R1, arm.Imm(0))
	a.Branch(arm.AL, out)
}
