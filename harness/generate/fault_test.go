package generate

import (
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// languageFault is a fault that a JIT could have in one instruction, told by
// what the JIT compiles in its place.
type languageFault struct {
	desc string
	does func(ins *bpf.Instruction)
}

func ofK(code uint16, lo, hi uint32, wrong func(k uint32) uint32) func(*bpf.Instruction) {
	return func(ins *bpf.Instruction) {
		if ins.Code == code && ins.K >= lo && ins.K <= hi {
			ins.K = wrong(ins.K)
		}
	}
}

func becomes(from, to uint16) func(*bpf.Instruction) {
	return func(ins *bpf.Instruction) {
		if _, ext := ins.Extension(); ins.Code == from && !ext {
			ins.Code = to
		}
	}
}

func extBecomes(from, to bpf.Extension) func(*bpf.Instruction) {
	return func(ins *bpf.Instruction) {
		if ext, ok := ins.Extension(); ok && ext == from {
			ins.K = to.K()
		}
	}
}

func extIs(from bpf.Extension, k uint32) func(*bpf.Instruction) {
	return func(ins *bpf.Instruction) {
		if ext, ok := ins.Extension(); ok && ext == from {
			*ins = bpf.Instruction{Code: bpf.LdImm, K: k}
		}
	}
}

func minus256(k uint32) uint32 { return k - 0x100 }
func low8(k uint32) uint32     { return k & 0xff }
func low12(k uint32) uint32    { return k & 0xfff }
func low16(k uint32) uint32    { return k & 0xffff }
func onesHigh(k uint32) uint32 { return k | 0xffff0000 }
func plus1(k uint32) uint32    { return k + 1 }
func to(k uint32) func(uint32) uint32 {
	return func(uint32) uint32 { return k }
}

const maxK = ^uint32(0)

var languageFaults = []languageFault{
	{"add takes 0x80 to 0xff for negative", ofK(bpf.AddK, 0x80, 0xff, minus256)},
	{"sub takes 0x80 for negative", ofK(bpf.SubK, 0x80, 0x80, minus256)},
	{"or takes 0x80 to 0xff for negative", ofK(bpf.OrK, 0x80, 0xff, minus256)},
	{"mul takes 0x80 to 0xff for negative", ofK(bpf.MulK, 0x80, 0xff, minus256)},
	{"xor does not extend the sign of a byte", ofK(bpf.XorK, 0xffffff80, maxK, low8)},
	{"and does not extend the sign of a half", ofK(bpf.AndK, 0xffff8000, 0xffffff7f, low16)},
	{"and extends the sign of a half", ofK(bpf.AndK, 0x8000, 0xffff, onesHigh)},
	{"and with 0xffffff00 exactly is lost", ofK(bpf.AndK, 0xffffff00, 0xffffff00, to(maxK))},
	{"and with 0 is lost", ofK(bpf.AndK, 0, 0, to(maxK))},
	{"add of 0x10000 is lost", ofK(bpf.AddK, 0x10000, 0x10000, to(0))},
	{"add loses the high half", ofK(bpf.AddK, 0x10000, maxK, low16)},
	{"ld imm loses the high half", ofK(bpf.LdImm, 0x10000, maxK, low16)},
	{"ldx imm of 0xff0 is rotated wrongly", ofK(bpf.LdxImm, 0xff0, 0xff0, to(0xff000))},
	{"mul by 0 is lost", ofK(bpf.MulK, 0, 0, to(1))},
	{"mul by 1 is by 0", ofK(bpf.MulK, 1, 1, to(0))},
	{"div by 1 is by 2", ofK(bpf.DivK, 1, 1, to(2))},
	{"div by 2^32-1 is by 2^31-1", ofK(bpf.DivK, maxK, maxK, to(maxK>>1))},
	{"div by 2^31 is by 2^30", ofK(bpf.DivK, 1<<31, 1<<31, to(1<<30))},
	{"mod by 1 is by 2", ofK(bpf.ModK, 1, 1, to(2))},
	{"mod by 2^31 is by 2^31-1", ofK(bpf.ModK, 1<<31, 1<<31, to(1<<31-1))},
	{"lsh by 31 is by 30", ofK(bpf.LshK, 31, 31, to(30))},
	{"rsh by 31 is by 30", ofK(bpf.RshK, 31, 31, to(30))},
	{"lsh by 0 is by 1", ofK(bpf.LshK, 0, 0, to(1))},
	{"rsh by 0 is by 1", ofK(bpf.RshK, 0, 0, to(1))},
	{"lsh by 1 is by 2", ofK(bpf.LshK, 1, 1, to(2))},
	{"lsh X is rsh X", becomes(bpf.LshX, bpf.RshX)},
	{"neg is nothing", func(ins *bpf.Instruction) {
		if ins.Code == bpf.Neg {
			*ins = bpf.Instruction{Code: bpf.AddK}
		}
	}},
	{"tax is nothing", func(ins *bpf.Instruction) {
		if ins.Code == bpf.Tax {
			*ins = bpf.Instruction{Code: bpf.AddK}
		}
	}},
	{"txa is nothing", func(ins *bpf.Instruction) {
		if ins.Code == bpf.Txa {
			*ins = bpf.Instruction{Code: bpf.AddK}
		}
	}},
	{"or X is xor X", becomes(bpf.OrX, bpf.XorX)},
	{"and X is or X", becomes(bpf.AndX, bpf.OrX)},
	{"mod X is div X", becomes(bpf.ModX, bpf.DivX)},
	{"mul X is add X", becomes(bpf.MulX, bpf.AddX)},

	{"jgt K is jge K", becomes(bpf.JgtK, bpf.JgeK)},
	{"jge K is jgt K", becomes(bpf.JgeK, bpf.JgtK)},
	{"jgt X is jge X", becomes(bpf.JgtX, bpf.JgeX)},
	{"jge X is jgt X", becomes(bpf.JgeX, bpf.JgtX)},
	{"jeq X is jge X", becomes(bpf.JeqX, bpf.JgeX)},
	{"jset X is jeq X", becomes(bpf.JsetX, bpf.JeqX)},
	{"jeq takes 0x80 to 0xff for negative", ofK(bpf.JeqK, 0x80, 0xff, minus256)},
	{"jgt takes 0x80 for negative", ofK(bpf.JgtK, 0x80, 0x80, minus256)},
	{"jge does not extend the sign of a byte", ofK(bpf.JgeK, 0xffffff80, maxK, low8)},
	{"jset tests the low byte only", ofK(bpf.JsetK, 0x100, 0xffff, low8)},
	{"jset of 0x8000 is lost", ofK(bpf.JsetK, 0x8000, 0x8000, to(0))},
	{"jset extends the sign of a byte", ofK(bpf.JsetK, 0x80, 0xff, minus256)},
	{"jset of 2^31 is lost", ofK(bpf.JsetK, 1<<31, 1<<31, to(0))},
	{"jeq of 0 is of 1", ofK(bpf.JeqK, 0, 0, plus1)},
	{"jgt of 2^32-1 is of 0", ofK(bpf.JgtK, maxK, maxK, to(0))},
	{"jge of 0 is of 1", ofK(bpf.JgeK, 0, 0, plus1)},
	{"a jump with jt and jf goes to jt always", func(ins *bpf.Instruction) {
		if bpf.IsCondJump(ins.Code) && ins.JT != 0 && ins.JF != 0 {
			ins.JF = ins.JT
		}
	}},
	{"jf above 100 is one less", func(ins *bpf.Instruction) {
		if bpf.IsCondJump(ins.Code) && ins.JF > 100 {
			ins.JF--
		}
	}},
	{"jt of 255 is 254", func(ins *bpf.Instruction) {
		if bpf.IsCondJump(ins.Code) && ins.JT == 255 {
			ins.JT--
		}
	}},
	{"ja of more than 255 is one less", ofK(bpf.Ja, 256, 4096, func(k uint32) uint32 { return k - 1 })},

	{"M[15] is M[14]", func(ins *bpf.Instruction) {
		switch ins.Code {
		case bpf.St, bpf.Stx, bpf.LdMem, bpf.LdxMem:
			ins.K = min(ins.K, 14)
		}
	}},
	{"stx goes to the wrong cell", ofK(bpf.Stx, 0, 14, plus1)},
	{"ldx M[8] is M[0]", ofK(bpf.LdxMem, 8, 15, func(k uint32) uint32 { return k - 8 })},
	{"ld len is 64", becomes(bpf.LdLen, bpf.LdImm)},
	{"ldx len is 0", becomes(bpf.LdxLen, bpf.LdxImm)},
	{"the offset of ldh ind is 1 more", ofK(bpf.LdHInd, 0, maxK, plus1)},
	{"the offset of ldb ind is cut to 8 bits", ofK(bpf.LdBInd, 0x100, maxK, low8)},
	{"the offset of ld ind is cut to 31 bits", ofK(bpf.LdWInd, 1<<31, maxK, func(k uint32) uint32 { return k &^ (1 << 31) })},
	{"the offset of ld abs is cut to 8 bits", ofK(bpf.LdWAbs, 0x100, 0xfff, low8)},
	{"the offset of ldb abs is cut to 7 bits", ofK(bpf.LdBAbs, 0x80, 0xff, func(k uint32) uint32 { return k & 0x7f })},
	{"the offset of ldxb is 1 more", ofK(bpf.LdxMsh, 0, maxK, plus1)},
	{"the link-layer base is the network base", func(ins *bpf.Instruction) {
		if ins.Code == bpf.LdHAbs && ins.K >= bpf.LLOff && ins.K < bpf.NetOff {
			ins.K += 0x100000
		}
	}},
	{"ldh abs from the network header is ldb", func(ins *bpf.Instruction) {
		if ins.Code == bpf.LdHAbs && ins.K >= bpf.NetOff && ins.K < bpf.ADOff {
			ins.Code = bpf.LdBAbs
		}
	}},
	{"protocol is pkttype", extBecomes(bpf.ExtProtocol, bpf.ExtPktType)},
	{"pkttype is 0", extIs(bpf.ExtPktType, 0)},
	{"ifindex is 1", extIs(bpf.ExtIfindex, 1)},
	{"mark is rxhash", extBecomes(bpf.ExtMark, bpf.ExtRxhash)},
	{"queue is 0", extIs(bpf.ExtQueue, 0)},
	{"rxhash is mark", extBecomes(bpf.ExtRxhash, bpf.ExtMark)},
	{"cpu is 0", extIs(bpf.ExtCPU, 0)},
	{"hatype is 1", extIs(bpf.ExtHatype, 1)},
	{"xor_x is nothing", func(ins *bpf.Instruction) {
		if ext, ok := ins.Extension(); ok && ext == bpf.ExtXorX {
			*ins = bpf.Instruction{Code: bpf.AddK}
		}
	}},
	{"vlan_tci is vlan_pr", extBecomes(bpf.ExtVlanTCI, bpf.ExtVlanPr)},
	{"vlan_pr is 1", extIs(bpf.ExtVlanPr, 1)},
	{"ret K loses the high half", ofK(bpf.RetK, 0x10000, maxK, low16)},
	{"ret 0 is ret 1", ofK(bpf.RetK, 0, 0, plus1)},
	{"ret K of more than 12 bits is cut", ofK(bpf.RetK, 0x1000, 0xffff, low12)},
}

// TestFaultsShow puts faults into programs: each has to change what some
// program of the first returns for some input.
func TestFaultsShow(t *testing.T) {
	cfg := Default()
	g := New(seed(t, 30), cfg)
	const programs = 50000 // 20 seconds of a campaign
	shown := make([]int, len(languageFaults))
	left := len(languageFaults)
	for n := 1; n <= programs && left > 0; n++ {
		c := g.Next()
		if c.Kind != bpf.Socket {
			continue
		}
		right, err := bpf.Compile(c.Program, c.Kind, cfg.Rules[0])
		if err != nil {
			t.Fatal(err)
		}
		inputs := c.Inputs()
		for i := range languageFaults {
			if shown[i] == 0 && shows(&languageFaults[i], c, right, inputs, cfg) {
				shown[i] = n
				left--
			}
		}
	}
	latest := 0
	for i, f := range languageFaults {
		if latest = max(latest, shown[i]); shown[i] == 0 {
			t.Errorf("%d programs do not show that %s", programs, f.desc)
		} else if shown[i] > 5000 {
			t.Logf("%s: program %d", f.desc, shown[i])
		}
	}
	t.Logf("%d of %d faults are shown within %d programs", len(languageFaults)-left, len(languageFaults), latest)
}

func shows(f *languageFault, c *Case, right *bpf.Machine, inputs []kernelabi.Input, cfg Config) bool {
	prog := append(bpf.Program(nil), c.Program...)
	changed := false
	for pc := range prog {
		before := prog[pc]
		f.does(&prog[pc])
		changed = changed || before != prog[pc]
	}
	if !changed {
		return false
	}
	wrong, err := bpf.Compile(prog, c.Kind, bpf.RulesLinux3_10)
	if err != nil {
		return false
	}
	for _, in := range inputs {
		in := in.Under(cfg.Semantics)
		want := right.Run(in)
		if got := wrong.Run(in); want.ShiftPC < 0 && got.Value != want.Value {
			return true
		}
	}
	return false
}
