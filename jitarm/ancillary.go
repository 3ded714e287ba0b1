package jitarm

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// extField loads a field of 32 bits in host order.
func extField(f jit.Field) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.need(seenSkb)
		c.Ldr(arm.AL, a, c.skb(f))
	}
}

// halfCut loads a 16-bit field of the skb as kernels do: the instruction has 8
// bits for the offset, and what does not fit is lost.
func halfCut(c *Compiler, rd arm.Reg, f jit.Field) {
	c.need(seenSkb)
	c.Ldrh(arm.AL, rd, c.skb(f))
}

func extProtocol(c *Compiler, _ bpf.Instruction) {
	c.rules.loadHalf(c, arm.R0, jit.Protocol)
	c.cpu.swap16(c)
}

func extPktType(c *Compiler, _ bpf.Instruction) {
	c.need(seenSkb)
	c.Ldrb(arm.AL, a, c.skb(jit.PktType))
	c.Alu(arm.AL, arm.And, a, a, arm.Imm(7))
}

// device puts skb->dev into r0; without a device the program ends with 0.
func (c *Compiler) device() {
	c.need(seenSkb)
	c.Ldr(arm.AL, arm.R0, c.skb(jit.Dev))
	c.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
	c.return0(arm.EQ)
}

func extIfindex(c *Compiler, _ bpf.Instruction) {
	c.device()
	c.Ldr(arm.AL, a, arm.At(arm.R0, c.offset(jit.Ifindex)))
}

// extHatype has its offset in a register, because it is too large for ldrh.
func extHatype(c *Compiler, _ bpf.Instruction) {
	c.device()
	c.mov(arm.R3, uint32(c.offset(jit.DevType)))
	c.Ldrh(arm.AL, a, arm.Indexed(arm.R0, arm.R3))
}

func extQueue(c *Compiler, _ bpf.Instruction) { c.rules.loadHalf(c, a, jit.Queue) }

// extCPU reads the processor number in struct thread_info, which is at the
// bottom of the kernel stack.
func extCPU(c *Compiler, _ bpf.Instruction) {
	size := c.Profile.Features.ThreadSize
	if size <= 0 || size&(size-1) != 0 {
		c.Fail(fmt.Errorf("profile %s has kernel stacks of %d bytes: want a power of 2 as thread_size", c.Profile.Name, size))
		return
	}
	c.Alu(arm.AL, arm.Bic, arm.R0, arm.SP, c.operand(uint32(size-1)))
	c.Ldr(arm.AL, a, arm.At(arm.R0, c.offset(jit.CPU)))
}

func extVlanTCI(c *Compiler, _ bpf.Instruction) {
	c.rules.loadHalf(c, a, jit.VlanTCI)
	c.Alu(arm.AL, arm.And, a, a, c.operand(^uint32(vlanTagPresent)))
}

func extVlanPresent(c *Compiler, _ bpf.Instruction) {
	c.rules.loadHalf(c, a, jit.VlanTCI)
	c.Mov(arm.AL, a, arm.Shifted(a, arm.LSR, 12))
	c.Alu(arm.AL, arm.And, a, a, arm.Imm(1))
}

// vlanTagPresent is the flag that kernels of the time keep in vlan_tci.
const vlanTagPresent = 0x1000

func extPayOffset(c *Compiler, _ bpf.Instruction) {
	c.need(seenSkb)
	c.Mov(arm.AL, arm.R0, arm.R(skb))
	c.call(symPayOffset)
	c.Mov(arm.AL, a, arm.R(arm.R0))
}
