package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

func kjitEmitter() *Emitter {
	return &Emitter{
		Name:    "kjit-arm",
		Summary: "linux-4.5-arm without its faults, and shorter loads; no kernel shipped it",
		rules:   kjit(),
	}
}

// kjit is linux45 with what differs from the reference put right: X is cleared
// where some way through the program needs it, shifts take their count mod 32, no
// program is refused for a shift, a negative MSH offset or a far literal, 16-bit
// fields may be anywhere, and the stack is aligned at calls. Loads compare no more
// than they have to. Where linux45 is right, no code of kjit's is longer, and none
// executes more instructions.
func kjit() table {
	t := linux45()
	t.Replace(map[uint16]rule{
		bpf.LshK: lshKMod32, bpf.LshX: shiftXMod32(arm.LSL),
		bpf.RshK: rshKMod32, bpf.RshX: shiftXMod32(arm.LSR),
		bpf.LdWAbs: loadAt(word), bpf.LdHAbs: loadAt(half), bpf.LdBAbs: loadAt(byte1),
		bpf.LdBInd: loadInd(byte1, inLinearIfPositive),
		bpf.LdxMsh: loadMsh,
	})
	t.cpus[v5].constant, t.cpus[v5].poolless = fromPoolOrInPlace, true
	t.loadHalf = halfAnywhere
	t.frame = frame{readX: readXByFlow, words: upToHighest, align: true}
	t.flow = true
	return t
}

func lshKMod32(c *Compiler, in bpf.Instruction) { c.shiftK(arm.LSL, in.K%32) }

func rshKMod32(c *Compiler, in bpf.Instruction) {
	in.K %= 32
	rshK(c, in)
}

// shiftXMod32 cuts the count before the processor sees it, or beforehand if it is
// known.
func shiftXMod32(by arm.Shift) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		if k, ok := c.constantX(); ok {
			if k %= 32; k != 0 {
				c.shiftK(by, k)
			}
			return
		}
		c.readX()
		c.Alu(arm.AL, arm.And, arm.R0, x, arm.Imm(31))
		c.Mov(arm.AL, a, arm.ShiftedBy(a, by, arm.R0))
	}
}

// loadAt knows the sign of the offset beforehand: a negative one is the
// helper's, whatever the packet.
func loadAt(s size) rule {
	return func(c *Compiler, in bpf.Instruction) {
		c.mov(arm.R1, in.K)
		if int32(in.K) < 0 {
			c.loadByHelper(s)
			return
		}
		c.load(s, inLinearIfPositive)
	}
}

// halfAnywhere loads a 16-bit field by a register where the offset does not fit
// into the instruction.
func halfAnywhere(c *Compiler, rd arm.Reg, f jit.Field) {
	const most = 0xff
	off := c.offset(f)
	if off <= most {
		halfCut(c, rd, f)
		return
	}
	c.need(seenSkb)
	c.mov(arm.R3, uint32(off))
	c.Ldrh(arm.AL, rd, arm.Indexed(skb, arm.R3))
}
