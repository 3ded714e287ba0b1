package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

// extTraps are faults of ancillary loads.
var extTraps = []trap{
	{"pkttype-mask", "the packet type has 2 bits", []string{"type"}, replacedExt(bpf.ExtPktType, func(c *Compiler, _ bpf.Instruction) {
		c.need(seenSkb)
		c.Ldrb(arm.AL, a, c.skb(jit.PktType))
		c.Alu(arm.AL, arm.And, a, a, arm.Imm(3))
	})},
	{"ifindex-no-device", "the interface's number is read without a device", []string{"ifidx"}, replacedExt(bpf.ExtIfindex, func(c *Compiler, _ bpf.Instruction) {
		c.need(seenSkb)
		c.Ldr(arm.AL, arm.R0, c.skb(jit.Dev))
		c.Ldr(arm.AL, a, arm.At(arm.R0, c.offset(jit.Ifindex)))
	})},
	{"hatype-cut", "the offset of the device's type is cut to 8 bits", []string{"hatype"}, replacedExt(bpf.ExtHatype, func(c *Compiler, _ bpf.Instruction) {
		c.device()
		c.Ldrh(arm.AL, a, arm.At(arm.R0, c.offset(jit.DevType)))
	})},
	{"queue-32", "the queue number has the field behind it as its upper half", []string{"queue"}, replacedExt(bpf.ExtQueue, extField(jit.Queue))},
	{"queue-vlan", "the queue number is the VLAN tag", []string{"queue"}, replacedExt(bpf.ExtQueue, extVlanTCI)},
	{"rxhash-mark", "the hash is the mark", []string{"rxhash"}, replacedExt(bpf.ExtRxhash, extField(jit.Mark))},
	{"vlan-tag-present", "the VLAN tag keeps the bit that says it is present", []string{"vlan_tci"}, replacedExt(bpf.ExtVlanTCI, func(c *Compiler, _ bpf.Instruction) {
		c.rules.loadHalf(c, a, jit.VlanTCI)
	})},
	{"vlan-present-bits", "the presence of a VLAN tag comes with the tag's upper bits", []string{"vlan_pr"}, replacedExt(bpf.ExtVlanPr, func(c *Compiler, _ bpf.Instruction) {
		c.rules.loadHalf(c, a, jit.VlanTCI)
		c.Mov(arm.AL, a, arm.Shifted(a, arm.LSR, 12))
	})},
	{"protocol-order", "the protocol is in network order", []string{"proto"}, replacedExt(bpf.ExtProtocol, func(c *Compiler, _ bpf.Instruction) {
		c.rules.loadHalf(c, a, jit.Protocol)
	})},
	{"payload-unmarked", "the payload's offset is found for what the caller had in r6", []string{"poff"}, replacedExt(bpf.ExtPayOffset, func(c *Compiler, _ bpf.Instruction) {
		c.Mov(arm.AL, arm.R0, arm.R(skb))
		c.call(symPayOffset)
		c.Mov(arm.AL, a, arm.R(arm.R0))
	})},
	{"cpu-mask", "the processor number is read near sp, of which one bit is cleared and not all below it", []string{"cpu"}, replacedExt(bpf.ExtCPU, func(c *Compiler, _ bpf.Instruction) {
		c.Alu(arm.AL, arm.Bic, arm.R0, arm.SP, c.operand(uint32(c.Profile.Features.ThreadSize)))
		c.Ldr(arm.AL, a, arm.At(arm.R0, c.offset(jit.CPU)))
	})},
}
