package jitx86

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/x86"
)

var loadTraps = []trap{
	{"ind-64-bit", "X + k is not cut to 32 bits", allInd,
		replaced(map[uint16]rule{bpf.LdWInd: loadInd64(word), bpf.LdHInd: loadInd64(half), bpf.LdBInd: loadInd64(byte1)})},
	{"ind-imm8-unsigned", "X + k with k from 80 to ff (hex) adds a negative number", allInd,
		replaced(map[uint16]rule{bpf.LdWInd: loadIndUnsigned(word), bpf.LdHInd: loadIndUnsigned(half), bpf.LdBInd: loadIndUnsigned(byte1)})},
	{"ind-positive", "indirect loads call the helper that does not test the sign", allInd,
		replaced(map[uint16]rule{bpf.LdWInd: loadIndPositive(word), bpf.LdHInd: loadIndPositive(half), bpf.LdBInd: loadIndPositive(byte1)})},
	{"abs-positive", "loads from negative offsets call the helper for positive ones", []string{"ld-abs", "ldh-abs", "ldb-abs", "ldx-msh"},
		replaced(map[uint16]rule{
			bpf.LdWAbs: loadAbsPositive(word), bpf.LdHAbs: loadAbsPositive(half), bpf.LdBAbs: loadAbsPositive(byte1),
			bpf.LdxMsh: func(c *Compiler, in bpf.Instruction) { c.need(seenX); loadAbsPositive(msh)(c, in) },
		})},
	{"half-by-word", "a halfword is loaded as the upper half of a word, which may not be there", []string{"ldh-abs"},
		replaced(map[uint16]rule{bpf.LdHAbs: loadHalfByWord})},
	{"msh-loses-a", "LDX MSH is made of a byte load, and A is lost", []string{"ldx-msh"},
		replaced(map[uint16]rule{bpf.LdxMsh: mshByByte})},
	{"msh-unmarked", "LDX MSH as the only use of X does not restore rbx", []string{"ldx-msh"},
		replaced(map[uint16]rule{bpf.LdxMsh: func(c *Compiler, in bpf.Instruction) { c.need(seenData); c.loadAt(msh, in.K, 0) }})},
	{"scratch-overlap", "M[0] lies where the load helpers keep a word", allMem, replaced(memRules(func(k uint32) x86.RM { return x86.At8(x86.BP, int8(-12-4*int(k))) }, seenMem))},
	{"cells-8", "M[k] and M[k+8] are one cell", allMem, replaced(memRules(func(k uint32) x86.RM { return cell(k & 7) }, seenMem))},
	{"cells-bytes", "cells are a byte apart and overlap", allMem, replaced(memRules(func(k uint32) x86.RM { return x86.At8(x86.BP, int8(-16-int(k))) }, seenMem))},
	{"mem-frameless", "a program that needs nothing but M[] gets no frame", allMem, replaced(memRules(cell, 0))},
	{"stx-stores-a", "STX stores A", []string{"stx"},
		replaced(map[uint16]rule{bpf.Stx: func(c *Compiler, in bpf.Instruction) {
			c.need(seenMem | seenX)
			c.Mov(x86.W32, cell(in.K), x86.AX)
		}})},
	{"len-headlen", "LD LEN is the length of the linear part", []string{"ld-len"},
		replaced(map[uint16]rule{bpf.LdLen: func(c *Compiler, _ bpf.Instruction) {
			c.need(seenData)
			c.Mov(x86.W32, a, x86.R9)
		}})},
	{"protocol-order", "the protocol is in network order", []string{"proto"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtProtocol: func(c *Compiler, _ bpf.Instruction) { c.MovZX(x86.AX, x86.W16, c.skb(jit.Protocol)) }})},
	{"protocol-upper-bits", "the protocol leaves the upper half of A", []string{"proto"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtProtocol: func(c *Compiler, _ bpf.Instruction) {
			c.Load(x86.W16, x86.AX, c.skb(jit.Protocol))
			c.Xchg(x86.W8, x86.R(x86.AH), x86.AX)
		}})},
	{"pkttype-mask", "the packet type has 2 bits", []string{"type"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtPktType: func(c *Compiler, _ bpf.Instruction) {
			c.MovZX(x86.AX, x86.W8, c.skb(jit.PktType))
			c.AluImm8(x86.And, x86.W32, a, 3)
		}})},
	{"queue-32", "the queue number has the field behind it as its upper half", []string{"queue"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtQueue: func(c *Compiler, _ bpf.Instruction) { c.Load(x86.W32, x86.AX, c.skb(jit.Queue)) }})},
	{"vlan-tag-present", "the VLAN tag keeps the bit that says it is present", []string{"vlan_tci"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtVlanTCI: func(c *Compiler, _ bpf.Instruction) { c.MovZX(x86.AX, x86.W16, c.skb(jit.VlanTCI)) }})},
	{"vlan-present-bits", "the presence of a VLAN tag comes with the tag's upper bits", []string{"vlan_pr"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtVlanPr: func(c *Compiler, _ bpf.Instruction) {
			c.MovZX(x86.AX, x86.W16, c.skb(jit.VlanTCI))
			c.ShiftImm(x86.Shr, x86.W32, a, 12)
		}})},
	{"ifindex-no-device", "the interface's number is read without a device", []string{"ifidx"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtIfindex: func(c *Compiler, _ bpf.Instruction) {
			c.Load(x86.W64, x86.AX, c.skb(jit.Dev))
			c.Load(x86.W32, x86.AX, x86.At32(x86.AX, c.offset(jit.Ifindex)))
		}})},
	{"ifindex-goes-on", "the interface's number is 0 without a device, and the program goes on", []string{"ifidx"},
		replacedExts(map[bpf.Extension]rule{bpf.ExtIfindex: func(c *Compiler, _ bpf.Instruction) {
			const tail = 6
			c.Load(x86.W64, x86.AX, c.skb(jit.Dev))
			c.Test(x86.W64, a, x86.AX)
			c.JccShort(x86.CondE, tail)
			c.Load(x86.W32, x86.AX, x86.At32(x86.AX, c.offset(jit.Ifindex)))
		}})},
}

// loadInd64 adds X and k as 64-bit numbers, with k sign-extended.
func loadInd64(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		c.Lea(x86.W64, x86.SI, x86.At(x86.BX, int32(in.K)))
		c.call(s.plain(), 0)
	}
}

func loadIndUnsigned(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		if in.K <= 0xff {
			c.Lea(x86.W32, x86.SI, x86.At8(x86.BX, int8(in.K)))
		} else {
			c.Lea(x86.W32, x86.SI, x86.At32(x86.BX, int32(in.K)))
		}
		c.call(s.plain(), 0)
	}
}

func loadIndPositive(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData | seenX)
		c.offsetFromX(in.K)
		c.call(s.positive(), 0)
	}
}

func loadAbsPositive(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.need(seenData)
		c.MovImm32(x86.SI, in.K)
		c.call(s.positive(), 0)
	}
}

// loadHalfByWord is right unless the packet ends within the word.
func loadHalfByWord(c *Compiler, in bpf.Instruction) {
	c.need(seenData)
	c.loadAt(word, in.K, 3)
	c.ShiftImm(x86.Shr, x86.W32, a, 16)
}

func mshByByte(c *Compiler, in bpf.Instruction) {
	c.need(seenData | seenX)
	const tail = 2 + 3 + 3
	c.loadAt(byte1, in.K, tail)
	c.Mov(x86.W32, x, x86.AX)
	c.AluImm8(x86.And, x86.W32, x, 15)
	c.ShiftImm(x86.Shl, x86.W32, x, 2)
}
