package emulator

import (
	"fmt"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// The kernel's C functions that ARM code calls (Linux 3.4 to 4.13,
// arch/arm/net/bpf_jit_32.c), as guest machine code for ARMv5 and all later
// ones. They are written for this machine; what they keep of the kernel's is
// the calling convention. On purpose they leave nothing in r0 to r3, r12 and lr
// but what they return. They find packets through the private words in front
// of every sk_buff, see hdrSize, of which they read the low halves.

// armGuest assembles routines that refer to each other by name.
type armGuest struct {
	arm.Asm
	names map[string]arm.Label
}

func (a *armGuest) label(name string) arm.Label {
	l, ok := a.names[name]
	if !ok {
		l = a.NewLabel()
		a.names[name] = l
	}
	return l
}

func (a *armGuest) begin(name string) { a.Bind(a.label(name)) }

// armLoadHelpers says for each generation of the load helpers whether they know
// negative offsets.
var armLoadHelpers = map[string]bool{
	kernelabi.LoadHelpers312: false,
	kernelabi.LoadHelpers42:  true,
	"":                       true,
}

// assembleARMRoutines makes the routines of the profile's kernel for loading at
// base. cpu is the address of the processor number.
func assembleARMRoutines(base, control, cpu uint32, p *kernelabi.Profile) (*routines, error) {
	negative, ok := armLoadHelpers[p.LoadHelpers]
	if !ok {
		return nil, fmt.Errorf("load helpers %q are unknown", p.LoadHelpers)
	}
	a := &armGuest{names: map[string]arm.Label{}}
	for _, s := range []struct {
		name  string
		bytes uint32
	}{{"b", 1}, {"h", 2}, {"w", 4}} {
		a.getSkb("jit_get_skb_"+s.name, s.bytes, negative)
	}
	a.skbCopyBits()
	a.loadPointerNeg()
	a.divide("jit_udiv", arm.R2)
	a.divide("jit_mod", arm.R0)
	a.payOffset()
	a.seccompLoad(control)
	a.later(p.Semantics, cpu)
	code, err := a.Bytes(base)
	if err != nil {
		return nil, err
	}
	r := &routines{code: code, labels: map[string]uint64{}}
	for name, l := range a.names {
		if a.Offset(l) < 0 {
			return nil, fmt.Errorf("guest routine %s is not defined", name)
		}
		r.labels[name] = uint64(base) + uint64(a.Offset(l))
	}
	return r, nil
}

// poison leaves nothing useful in registers that a C function may destroy.
func (a *armGuest) poison(regs ...arm.Reg) {
	for _, r := range regs {
		a.Const(arm.AL, r, armPoison(r))
	}
}

// loadValue loads the big-endian number of some bytes that r0 points to into r0,
// a byte at a time: its address may be odd. It uses r1 and r2.
func (a *armGuest) loadValue(bytes uint32) {
	a.Ldrb(arm.AL, arm.R1, arm.At(arm.R0, 0))
	for i := uint32(1); i < bytes; i++ {
		a.Ldrb(arm.AL, arm.R2, arm.At(arm.R0, int32(i)))
		a.Alu(arm.AL, arm.Orr, arm.R1, arm.R2, arm.Shifted(arm.R1, arm.LSL, 8))
	}
	a.Mov(arm.AL, arm.R0, arm.R(arm.R1))
}

// getSkb is u64 jit_get_skb_*(skb r0, offset r1): r0 the value in host order and
// r1 0, or r1 -EFAULT. Helpers that know no negative offsets pass them on and
// read whatever is in front of the packet, as the kernel did.
func (a *armGuest) getSkb(name string, bytes uint32, negatives bool) {
	const frame, scratch = 8, 4
	negative, value, fail, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.begin(name)
	a.Str(arm.AL, arm.LR, arm.Pre(arm.SP, -frame))
	if negatives {
		a.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
		a.Branch(arm.LT, negative)
	}
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

	if negatives {
		a.Bind(negative)
		a.Mov(arm.AL, arm.R2, arm.Imm(bytes))
		a.CallLabel(arm.AL, a.label("bpf_internal_load_pointer_neg_helper"))
		a.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
		a.Branch(arm.NE, value)
	}
	a.Bind(fail)
	a.poison(arm.R0)
	a.Mvn(arm.AL, arm.R1, arm.Imm(14-1))
	a.Branch(arm.AL, out)
}

// skbCopyBits: r0 skb, r1 offset, r2 to, r3 bytes; r0 is 0, or -EFAULT when not
// all bytes are in the packet. It does not look at offsets in front of it.
func (a *armGuest) skbCopyBits() {
	const position, end, frag, limit = arm.R4, arm.R5, arm.R6, arm.IP
	saved := arm.Regs(position, end, frag)
	fail, done, copyByte, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	part, loop := a.NewLabel(), a.NewLabel()
	// findPart goes on to found once position is within a part: parts follow each
	// other, and the excess is carried over.
	findPart := func(found arm.Label) {
		again := a.Here()
		a.Compare(arm.AL, arm.Cmp, position, arm.R(end))
		a.Branch(arm.LO, found)
		a.Alu(arm.AL, arm.Sub, position, position, arm.R(end))
		a.Ldr(arm.AL, end, arm.At(frag, 0))
		a.Alu(arm.AL, arm.Add, position, position, arm.R(end))
		a.Ldr(arm.AL, limit, arm.At(frag, fragEntry/2))
		a.Alu(arm.AL, arm.Add, end, end, arm.R(limit))
		a.Alu(arm.AL, arm.Add, frag, frag, arm.Imm(fragEntry))
		a.Branch(arm.AL, again)
	}
	a.begin("skb_copy_bits")
	a.Push(saved | arm.Regs(arm.LR))
	a.Ldr(arm.AL, limit, arm.At(arm.R0, hdrLen))
	a.Alu(arm.AL, arm.Sub, limit, limit, arm.R(arm.R3))
	a.Compare(arm.AL, arm.Cmp, arm.R1, arm.R(limit))
	a.Branch(arm.GT, fail)
	a.Ldr(arm.AL, position, arm.At(arm.R0, hdrData))
	a.Alu(arm.AL, arm.Add, position, position, arm.R(arm.R1))
	a.Ldr(arm.AL, end, arm.At(arm.R0, hdrTail))
	a.Ldr(arm.AL, frag, arm.At(arm.R0, hdrFrags))

	a.Compare(arm.AL, arm.Cmp, arm.R3, arm.Imm(0))
	a.Branch(arm.EQ, done)

	// Nearly always it is 4, 2 or 1 bytes of one part.
	findPart(part)
	a.Bind(part)
	a.Alu(arm.AL, arm.Add, arm.IP, position, arm.R(arm.R3))
	a.Compare(arm.AL, arm.Cmp, arm.IP, arm.R(end))
	a.Branch(arm.HI, loop)
	a.Compare(arm.AL, arm.Cmp, arm.R3, arm.Imm(4))
	a.Branch(arm.HI, loop)
	for i := int32(0); i < 4; i++ {
		a.Ldrb(arm.AL, arm.IP, arm.At(position, i))
		a.Strb(arm.AL, arm.IP, arm.At(arm.R2, i))
		if i < 3 {
			a.Compare(arm.AL, arm.Cmp, arm.R3, arm.Imm(uint32(i)+1))
			a.Branch(arm.EQ, done)
		}
	}
	a.Branch(arm.AL, done)

	a.Bind(loop)
	a.AluS(arm.AL, arm.Sub, arm.R3, arm.R3, arm.Imm(1))
	a.Branch(arm.MI, done)
	findPart(copyByte)
	a.Bind(copyByte)
	a.Ldrb(arm.AL, arm.IP, arm.Post(position, 1))
	a.Strb(arm.AL, arm.IP, arm.Post(arm.R2, 1))
	a.Branch(arm.AL, loop)

	a.Bind(fail)
	a.Mvn(arm.AL, arm.R0, arm.Imm(14-1))
	a.Branch(arm.AL, out)
	a.Bind(done)
	a.Mov(arm.AL, arm.R0, arm.Imm(0))
	a.Bind(out)
	a.poison(arm.R1, arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(saved | arm.Regs(arm.PC))
}

// loadPointerNeg: r0 skb, r1 negative offset, r2 size; r0 is the address, or
// NULL when it is not in the linear part.
func (a *armGuest) loadPointerNeg() {
	const at = arm.IP
	link, check, fail, out := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.begin("bpf_internal_load_pointer_neg_helper")
	a.Push(arm.Regs(arm.LR))
	a.Compare(arm.AL, arm.Cmn, arm.R1, arm.Imm(0x100000))
	a.Branch(arm.LT, link)
	a.Ldr(arm.AL, at, arm.At(arm.R0, hdrNetwork))
	a.Alu(arm.AL, arm.Add, at, at, arm.R(arm.R1))
	a.Alu(arm.AL, arm.Add, at, at, arm.Imm(0x100000))
	a.Branch(arm.AL, check)
	a.Bind(link)
	a.Compare(arm.AL, arm.Cmn, arm.R1, arm.Imm(0x200000))
	a.Branch(arm.LT, fail)
	a.Ldr(arm.AL, at, arm.At(arm.R0, hdrMac))
	a.Alu(arm.AL, arm.Add, at, at, arm.R(arm.R1))
	a.Alu(arm.AL, arm.Add, at, at, arm.Imm(0x200000))
	a.Bind(check)
	a.Ldr(arm.AL, arm.R3, arm.At(arm.R0, hdrHead))
	a.Compare(arm.AL, arm.Cmp, at, arm.R(arm.R3))
	a.Branch(arm.LO, fail)
	a.Ldr(arm.AL, arm.R3, arm.At(arm.R0, hdrTail))
	a.Alu(arm.AL, arm.Add, arm.R2, arm.R2, arm.R(at))
	a.Compare(arm.AL, arm.Cmp, arm.R2, arm.R(arm.R3))
	a.Branch(arm.HI, fail)
	a.Mov(arm.AL, arm.R0, arm.R(at))
	a.Branch(arm.AL, out)
	a.Bind(fail)
	a.Mov(arm.AL, arm.R0, arm.Imm(0))
	a.Bind(out)
	a.poison(arm.R1, arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(arm.Regs(arm.PC))
}

// divide is u32 f(dividend r0, divisor r1) by shifting and subtracting; the
// quotient is in r2 then, the remainder in r0. Both are 0 for a divisor of 0, as
// the kernel's division returns after its complaint.
func (a *armGuest) divide(name string, result arm.Reg) {
	const quotient, count, bit = arm.R2, arm.R3, arm.IP
	zero, small, out := a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.begin(name)
	a.Push(arm.Regs(arm.LR))
	a.Mov(arm.AL, quotient, arm.Imm(0))
	a.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
	a.Branch(arm.EQ, zero)
	a.Compare(arm.AL, arm.Cmp, arm.R0, arm.R(arm.R1))
	a.Branch(arm.LO, small)
	a.Clz(arm.AL, count, arm.R1)
	a.Clz(arm.AL, bit, arm.R0)
	a.Alu(arm.AL, arm.Sub, count, count, arm.R(bit))
	a.Mov(arm.AL, bit, arm.Imm(1))
	a.Mov(arm.AL, bit, arm.ShiftedBy(bit, arm.LSL, count))
	a.Mov(arm.AL, arm.R1, arm.ShiftedBy(arm.R1, arm.LSL, count))
	loop := a.Here()
	a.Compare(arm.AL, arm.Cmp, arm.R0, arm.R(arm.R1))
	a.Alu(arm.HS, arm.Sub, arm.R0, arm.R0, arm.R(arm.R1))
	a.Alu(arm.HS, arm.Orr, quotient, quotient, arm.R(bit))
	a.Mov(arm.AL, arm.R1, arm.Shifted(arm.R1, arm.LSR, 1))
	a.Mov(arm.AL, bit, arm.Shifted(bit, arm.LSR, 1))
	a.Compare(arm.AL, arm.Cmp, bit, arm.Imm(0))
	a.Branch(arm.NE, loop)
	a.Branch(arm.AL, out)
	a.Bind(zero)
	a.Mov(arm.AL, arm.R0, arm.Imm(0))
	a.Bind(small)
	a.Bind(out)
	a.Mov(arm.AL, arm.R0, arm.R(result))
	a.poison(arm.R1, arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(arm.Regs(arm.PC))
}

// payOffset is u32 skb_get_poff(skb r0). The host has dissected the packet: the
// result is in the fragment table.
func (a *armGuest) payOffset() {
	a.begin(payOffsetSymbol)
	a.Push(arm.Regs(arm.LR))
	a.Ldr(arm.AL, arm.R0, arm.At(arm.R0, hdrFrags))
	a.Ldr(arm.AL, arm.R0, arm.At(arm.R0, fragPayOffset))
	a.poison(arm.R1, arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(arm.Regs(arm.PC))
}

// seccompLoad is u32 seccomp_bpf_load(offset r0) of the series of 2013, which
// was never merged: the word at that offset of the system call being checked,
// which is what the driver's present input is.
func (a *armGuest) seccompLoad(control uint32) {
	a.begin("seccomp_bpf_load")
	a.Push(arm.Regs(arm.LR))
	a.Const(arm.AL, arm.R1, control)
	a.Ldr(arm.AL, arm.R1, arm.At(arm.R1, ctlCursor))
	a.Ldr(arm.AL, arm.R1, arm.At(arm.R1, descSkb))
	a.Ldr(arm.AL, arm.R0, arm.Indexed(arm.R1, arm.R0))
	a.poison(arm.R1, arm.R2, arm.R3, arm.IP, arm.LR)
	a.Pop(arm.Regs(arm.PC))
}
