package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

func extProtocol(c *Compiler, _ bpf.Instruction) {
	c.MovZX(x86.AX, x86.W16, c.skb(jit.Protocol))
	c.Xchg(x86.W8, x86.R(x86.AH), x86.AX) // from network order
}

func extPktType(c *Compiler, _ bpf.Instruction) {
	c.MovZX(x86.AX, x86.W8, c.skb(jit.PktType))
	c.AluImm8(x86.And, x86.W32, a, 7)
}

// extIfindex leaves without a device. What it returns then is rax, which the
// test has just found to be 0.
func extIfindex(c *Compiler, _ bpf.Instruction) {
	const tail = 6 // bytes behind the jump
	c.Load(x86.W64, x86.AX, c.skb(jit.Dev))
	c.Test(x86.W64, a, x86.AX)
	c.jcc(x86.CondE, c.cleanup-(c.end()-tail))
	c.Load(x86.W32, x86.AX, x86.At32(x86.AX, c.offset(jit.Ifindex)))
}

func extMark(c *Compiler, _ bpf.Instruction)   { c.Load(x86.W32, x86.AX, c.skb(jit.Mark)) }
func extRxhash(c *Compiler, _ bpf.Instruction) { c.Load(x86.W32, x86.AX, c.skb(jit.Rxhash)) }
func extQueue(c *Compiler, _ bpf.Instruction)  { c.MovZX(x86.AX, x86.W16, c.skb(jit.Queue)) }

// extCPU reads a per-CPU variable, or knows that there is one processor.
func extCPU(c *Compiler, _ bpf.Instruction) {
	if !c.Profile.Features.SMP {
		c.clearA()
		return
	}
	c.Load(x86.W32, x86.AX, x86.GS(uint32(c.address(symCPUNumber))))
}

func extVlanTCI(c *Compiler, _ bpf.Instruction) {
	c.MovZX(x86.AX, x86.W16, c.skb(jit.VlanTCI))
	c.AluImm8(x86.And, x86.W8, x86.R(x86.AH), ^0x10) // without the tag-present bit, 0x1000
}

func extVlanPresent(c *Compiler, _ bpf.Instruction) {
	c.MovZX(x86.AX, x86.W16, c.skb(jit.VlanTCI))
	c.ShiftImm(x86.Shr, x86.W32, a, 12)
	c.AluImm8(x86.And, x86.W32, a, 1)
}
