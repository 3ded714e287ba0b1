package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
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
	return table{
		codes: [256]entry{
			bpf.AddK: {emit: aluK(arm.Add)}, bpf.AddX: {emit: aluX(arm.Add)},
			bpf.SubK: {emit: aluK(arm.Sub)}, bpf.SubX: {emit: aluX(arm.Sub)},
			bpf.MulK: {emit: mulK}, bpf.MulX: {emit: mulX},
			bpf.DivK: {emit: divK}, bpf.DivX: {emit: divX},
			bpf.ModK: {emit: modK}, bpf.ModX: {emit: modX},
			bpf.AndK: {emit: aluK(arm.And)}, bpf.AndX: {emit: aluX(arm.And)},
			bpf.OrK: {emit: aluK(arm.Orr)}, bpf.OrX: {emit: aluX(arm.Orr)},
			bpf.XorK: {emit: aluK(arm.Eor)}, bpf.XorX: {emit: aluX(arm.Eor)},
			bpf.LshK: {emit: lshK}, bpf.LshX: {emit: shiftX(arm.LSL)},
			bpf.RshK: {emit: rshK}, bpf.RshX: {emit: shiftX(arm.LSR)},
			bpf.Neg: {emit: neg},
			bpf.Tax: {emit: tax}, bpf.Txa: {emit: txa},

			bpf.LdImm: {emit: ldImm}, bpf.LdxImm: {emit: ldxImm},
			bpf.LdMem: {emit: ldMem(cell)}, bpf.LdxMem: {emit: ldxMem(cell)},
			bpf.St: {emit: st(cell)}, bpf.Stx: {emit: stx(cell)},
			bpf.LdLen: {emit: ldLen, setsA: true}, bpf.LdxLen: {emit: ldxLen},

			bpf.LdWAbs: {emit: loadAbs(word, inLinear), setsA: true}, bpf.LdWInd: {emit: loadInd(word, inLinear)},
			bpf.LdHAbs: {emit: loadAbs(half, inLinear), setsA: true}, bpf.LdHInd: {emit: loadInd(half, inLinear)},
			bpf.LdBAbs: {emit: loadAbs(byte1, inLinear), setsA: true}, bpf.LdBInd: {emit: loadInd(byte1, inLinear)},
			bpf.LdxMsh: {emit: unlessNegative(loadMsh)},

			bpf.Ja:   {emit: ja},
			bpf.JeqK: {emit: condJump(cmpK, arm.EQ)}, bpf.JeqX: {emit: condJump(cmpX, arm.EQ)},
			bpf.JgtK: {emit: condJump(cmpK, arm.HI)}, bpf.JgtX: {emit: condJump(cmpX, arm.HI)},
			bpf.JgeK: {emit: condJump(cmpK, arm.HS)}, bpf.JgeX: {emit: condJump(cmpX, arm.HS)},
			bpf.JsetK: {emit: condJump(tstK, arm.NE)}, bpf.JsetX: {emit: condJump(tstX, arm.NE)},
			bpf.RetK: {emit: retK, setsA: true}, bpf.RetA: {emit: retA},
		},
		exts: [bpf.NumExtensions]entry{
			bpf.ExtProtocol / 4:  {emit: extProtocol, setsA: true},
			bpf.ExtPktType / 4:   {emit: extPktType, setsA: true},
			bpf.ExtIfindex / 4:   {emit: extIfindex, setsA: true},
			bpf.ExtMark / 4:      {emit: extField(fieldMark), setsA: true},
			bpf.ExtQueue / 4:     {emit: extQueue, setsA: true},
			bpf.ExtHatype / 4:    {emit: extHatype, setsA: true},
			bpf.ExtRxhash / 4:    {emit: extField(fieldRxhash), setsA: true},
			bpf.ExtCPU / 4:       {emit: extCPU, setsA: true},
			bpf.ExtXorX / 4:      {emit: aluX(arm.Eor)},
			bpf.ExtVlanTCI / 4:   {emit: extVlanTCI, setsA: true},
			bpf.ExtVlanPr / 4:    {emit: extVlanPresent, setsA: true},
			bpf.ExtPayOffset / 4: {emit: extPayOffset, setsA: true},
		},
		seccomp:  seccompRules(loadData),
		cpus:     cpus(),
		loadHalf: halfCut,
		frame:    frame{clearX: seenReadX},
	}
}
