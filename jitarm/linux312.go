package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

func linux312Emitter() *Emitter {
	return &Emitter{
		Name:    "linux-3.12-arm",
		Summary: "Linux 3.12, the ARM JIT with the faults it had then",
		rules:   linux312(),
	}
}

// linux312 is the table of Linux 3.12.9, arch/arm/net/bpf_jit_32.c.
func linux312() table {
	t := linux45()
	t.Replace(map[uint16]rule{
		bpf.ModK: nil, bpf.ModX: nil,
		bpf.DivK:   divKByReciprocal,
		bpf.RshK:   rshKAlways,
		bpf.LdWAbs: unlessNegative(loadAbs(word, inLinearUnsigned)), bpf.LdWInd: loadIndUnmarked(word, inLinearUnsigned),
		bpf.LdHAbs: unlessNegative(loadAbs(half, inLinearUnsigned)), bpf.LdHInd: loadIndUnmarked(half, inLinearUnsigned),
		bpf.LdBAbs: unlessNegative(loadAbs(byte1, inLinearUnsigned)), bpf.LdBInd: loadIndUnmarked(byte1, inLinearUnsigned),
	})
	t.ReplaceExts(map[bpf.Extension]rule{
		bpf.ExtPktType: nil, bpf.ExtHatype: nil, bpf.ExtPayOffset: nil,
		bpf.ExtVlanTCI: extVlanMasked(0xfff),
		bpf.ExtVlanPr:  extVlanMasked(vlanTagPresent),
	})
	t.Seccomp = nil
	t.cpus[v5].constant = fromPoolUnchecked
	for _, m := range []model{v5, v7} {
		t.cpus[m].div = callDivide(symUdiv, dividendFirst)
	}
	return t
}

// loadIndUnmarked does not note that it reads X: r5 is neither saved nor
// cleared if nothing else uses it.
func loadIndUnmarked(s size, inside rangeCheck) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.offsetFromX(in.K)
		c.load(s, inside)
	}
}

// rshKAlways shifts by 32 when it should shift by 0.
func rshKAlways(c *Compiler, in bpf.Instruction) { c.shiftK(arm.LSR, in.K) }

// extVlanMasked returns bits of vlan_tci in their place.
func extVlanMasked(mask uint32) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		c.rules.loadHalf(c, a, jit.VlanTCI)
		c.Alu(arm.AL, arm.And, a, a, c.operand(mask))
	}
}

// fromPoolUnchecked lets a distance that does not fit run into the destination
// register of the load.
func fromPoolUnchecked(c *Compiler, rd arm.Reg, v uint32) {
	disp := c.literal(v)
	c.Ldr(arm.AL, rd, arm.At(arm.PC, 0))
	last := len(c.Buf) - 4
	c.SetWord(last, c.WordAt(last)|uint32(disp))
}
