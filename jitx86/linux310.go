package jitx86

import "github.com/kjit-project/kjit/bpf"

func linux310Emitter() *Emitter {
	return &Emitter{
		Name:    "linux-3.10",
		Summary: "Linux 3.10 to 3.15, the correct classic JIT",
		rules:   linux310(),
	}
}

// linux310 is the table of Linux 3.10.99, arch/x86/net/bpf_jit_comp.c; 3.14.1
// and 3.15.5 emit the same bytes.
func linux310() table {
	t := table{
		codes: [256]entry{
			bpf.AddK: {emit: addK}, bpf.AddX: {emit: addX},
			bpf.SubK: {emit: subK}, bpf.SubX: {emit: subX},
			bpf.MulK: {emit: mulK}, bpf.MulX: {emit: mulX},
			bpf.DivK: {emit: divK}, bpf.DivX: {emit: divX(ret0Start)},
			bpf.ModK: {emit: modK}, bpf.ModX: {emit: modX(ret0Start)},
			bpf.AndK: {emit: andK}, bpf.AndX: {emit: andX},
			bpf.OrK: {emit: orK}, bpf.OrX: {emit: orX},
			bpf.XorK: {emit: xorK}, bpf.XorX: {emit: xorX},
			bpf.LshK: {emit: lshK}, bpf.LshX: {emit: lshX},
			bpf.RshK: {emit: rshK}, bpf.RshX: {emit: rshX},
			bpf.Neg: {emit: neg},
			bpf.Tax: {emit: tax}, bpf.Txa: {emit: txa},

			bpf.LdImm: {emit: ldImm}, bpf.LdxImm: {emit: ldxImm},
			bpf.LdMem: {emit: ldMem}, bpf.LdxMem: {emit: ldxMem},
			bpf.St: {emit: st}, bpf.Stx: {emit: stx},
			bpf.LdLen: {emit: ldLen, setsA: true}, bpf.LdxLen: {emit: ldxLen},

			bpf.LdWAbs: {emit: loadAbs(word), setsA: true}, bpf.LdWInd: {emit: loadInd(word)},
			bpf.LdHAbs: {emit: loadAbs(half), setsA: true}, bpf.LdHInd: {emit: loadInd(half)},
			bpf.LdBAbs: {emit: loadAbs(byte1), setsA: true}, bpf.LdBInd: {emit: loadInd(byte1)},
			bpf.LdxMsh: {emit: loadMsh},

			bpf.Ja:   {emit: ja},
			bpf.RetK: {emit: retK, setsA: true}, bpf.RetA: {emit: retA},
		},
		exts: [bpf.NumExtensions]entry{
			bpf.ExtProtocol / 4: {emit: extProtocol, setsA: true},
			bpf.ExtPktType / 4:  {emit: extPktType, setsA: true},
			bpf.ExtIfindex / 4:  {emit: extIfindex, setsA: true},
			bpf.ExtMark / 4:     {emit: extMark, setsA: true},
			bpf.ExtQueue / 4:    {emit: extQueue, setsA: true},
			bpf.ExtRxhash / 4:   {emit: extRxhash, setsA: true},
			bpf.ExtCPU / 4:      {emit: extCPU, setsA: true},
			bpf.ExtXorX / 4:     {emit: xorX},
			bpf.ExtVlanTCI / 4:  {emit: extVlanTCI, setsA: true},
			bpf.ExtVlanPr / 4:   {emit: extVlanPresent, setsA: true},
		},
		passes: passes{firstFrame: seenData | seenX | seenMem, extraPass: true},
	}
	t.replaceJumps(exactSkip)
	return t
}
