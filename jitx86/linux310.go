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
		passes: passes{firstFrame: seenData | seenX | seenMem, extraPass: true},
		frame:  kernelFrame,
	}
	t.Codes = [256]entry{
		bpf.AddK: {Emit: addK}, bpf.AddX: {Emit: addX},
		bpf.SubK: {Emit: subK}, bpf.SubX: {Emit: subX},
		bpf.MulK: {Emit: mulK}, bpf.MulX: {Emit: mulX},
		bpf.DivK: {Emit: divK}, bpf.DivX: {Emit: divX(ret0Start)},
		bpf.ModK: {Emit: modK}, bpf.ModX: {Emit: modX(ret0Start)},
		bpf.AndK: {Emit: andK}, bpf.AndX: {Emit: andX},
		bpf.OrK: {Emit: orK}, bpf.OrX: {Emit: orX},
		bpf.XorK: {Emit: xorK}, bpf.XorX: {Emit: xorX},
		bpf.LshK: {Emit: lshK}, bpf.LshX: {Emit: lshX},
		bpf.RshK: {Emit: rshK}, bpf.RshX: {Emit: rshX},
		bpf.Neg: {Emit: neg},
		bpf.Tax: {Emit: tax}, bpf.Txa: {Emit: txa},

		bpf.LdImm: {Emit: ldImm}, bpf.LdxImm: {Emit: ldxImm},
		bpf.LdLen: {Emit: ldLen, SetsA: true}, bpf.LdxLen: {Emit: ldxLen},

		bpf.LdWAbs: {Emit: loadAbs(word), SetsA: true}, bpf.LdWInd: {Emit: loadInd(word)},
		bpf.LdHAbs: {Emit: loadAbs(half), SetsA: true}, bpf.LdHInd: {Emit: loadInd(half)},
		bpf.LdBAbs: {Emit: loadAbs(byte1), SetsA: true}, bpf.LdBInd: {Emit: loadInd(byte1)},
		bpf.LdxMsh: {Emit: loadMsh},

		bpf.Ja:   {Emit: ja},
		bpf.RetK: {Emit: retK, SetsA: true}, bpf.RetA: {Emit: retA},
	}
	t.Exts = [bpf.NumExtensions]entry{
		bpf.ExtProtocol / 4: {Emit: extProtocol, SetsA: true},
		bpf.ExtPktType / 4:  {Emit: extPktType, SetsA: true},
		bpf.ExtIfindex / 4:  {Emit: extIfindex, SetsA: true},
		bpf.ExtMark / 4:     {Emit: extMark, SetsA: true},
		bpf.ExtQueue / 4:    {Emit: extQueue, SetsA: true},
		bpf.ExtRxhash / 4:   {Emit: extRxhash, SetsA: true},
		bpf.ExtCPU / 4:      {Emit: extCPU, SetsA: true},
		bpf.ExtXorX / 4:     {Emit: xorX},
		bpf.ExtVlanTCI / 4:  {Emit: extVlanTCI, SetsA: true},
		bpf.ExtVlanPr / 4:   {Emit: extVlanPresent, SetsA: true},
	}
	t.Replace(memRules(cell, seenMem))
	t.replaceJumps(exactSkip)
	return t
}
