package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/jit"
)

func linux45Emitter() *Emitter {
	return &Emitter{
		Name:    "linux-4.5-arm",
		Summary: "Linux 4.5 to 4.13, the classic ARM JIT with all fixes it got",
		rules:   linux45(),
	}
}

// linux45 is the table of the 4.5 level, arch/arm/net/bpf_jit_32.c of the
// 4.4.130 stable tree. Two things it never got right: X may be what the caller
// had in r5 where a program writes it on one path only, and shifts by X do not
// take the count mod 32.
func linux45() table {
	t := table{
		cpus:     cpus(),
		loadHalf: halfCut,
		frame:    frame{readX: readXByText, words: upToHighest},
	}
	t.Codes = [256]entry{
		bpf.AddK: {Emit: aluK(arm.Add)}, bpf.AddX: {Emit: aluX(arm.Add)},
		bpf.SubK: {Emit: aluK(arm.Sub)}, bpf.SubX: {Emit: aluX(arm.Sub)},
		bpf.MulK: {Emit: mulK}, bpf.MulX: {Emit: mulX},
		bpf.DivK: {Emit: divK}, bpf.DivX: {Emit: divX},
		bpf.ModK: {Emit: modK}, bpf.ModX: {Emit: modX},
		bpf.AndK: {Emit: aluK(arm.And)}, bpf.AndX: {Emit: aluX(arm.And)},
		bpf.OrK: {Emit: aluK(arm.Orr)}, bpf.OrX: {Emit: aluX(arm.Orr)},
		bpf.XorK: {Emit: aluK(arm.Eor)}, bpf.XorX: {Emit: aluX(arm.Eor)},
		bpf.LshK: {Emit: lshK}, bpf.LshX: {Emit: shiftX(arm.LSL)},
		bpf.RshK: {Emit: rshK}, bpf.RshX: {Emit: shiftX(arm.LSR)},
		bpf.Neg: {Emit: neg},
		bpf.Tax: {Emit: tax}, bpf.Txa: {Emit: txa},

		bpf.LdImm: {Emit: ldImm}, bpf.LdxImm: {Emit: ldxImm},
		bpf.LdMem: {Emit: ldMem(cell)}, bpf.LdxMem: {Emit: ldxMem(cell)},
		bpf.St: {Emit: st(cell)}, bpf.Stx: {Emit: stx(cell)},
		bpf.LdLen: {Emit: ldLen, SetsA: true}, bpf.LdxLen: {Emit: ldxLen},

		bpf.LdWAbs: {Emit: loadAbs(word, inLinear), SetsA: true}, bpf.LdWInd: {Emit: loadInd(word, inLinear)},
		bpf.LdHAbs: {Emit: loadAbs(half, inLinear), SetsA: true}, bpf.LdHInd: {Emit: loadInd(half, inLinear)},
		bpf.LdBAbs: {Emit: loadAbs(byte1, inLinear), SetsA: true}, bpf.LdBInd: {Emit: loadInd(byte1, inLinear)},
		bpf.LdxMsh: {Emit: unlessNegative(loadMsh)},

		bpf.Ja:   {Emit: ja},
		bpf.RetK: {Emit: retK, SetsA: true}, bpf.RetA: {Emit: retA},
	}
	t.Seccomp = seccompRules(loadData)
	for code, j := range condJumps {
		t.Codes[code].Emit = condJump(j.compare, j.cond)
	}
	t.Exts = [bpf.NumExtensions]entry{
		bpf.ExtProtocol / 4:  {Emit: extProtocol, SetsA: true},
		bpf.ExtPktType / 4:   {Emit: extPktType, SetsA: true},
		bpf.ExtIfindex / 4:   {Emit: extIfindex, SetsA: true},
		bpf.ExtMark / 4:      {Emit: extField(jit.Mark), SetsA: true},
		bpf.ExtQueue / 4:     {Emit: extQueue, SetsA: true},
		bpf.ExtHatype / 4:    {Emit: extHatype, SetsA: true},
		bpf.ExtRxhash / 4:    {Emit: extField(jit.Rxhash), SetsA: true},
		bpf.ExtCPU / 4:       {Emit: extCPU, SetsA: true},
		bpf.ExtXorX / 4:      {Emit: aluX(arm.Eor)},
		bpf.ExtVlanTCI / 4:   {Emit: extVlanTCI, SetsA: true},
		bpf.ExtVlanPr / 4:    {Emit: extVlanPresent, SetsA: true},
		bpf.ExtPayOffset / 4: {Emit: extPayOffset, SetsA: true},
	}
	return t
}
