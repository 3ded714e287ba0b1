package bpf_test

import (
	"encoding/binary"
	"testing"

	"github.com/kjit-project/kjit/bpf"
)

// instructions makes a program of bytes, 8 an instruction. A backward JA is
// one in 2^32 programs made so; a K of few bits makes them likelier.
func instructions(data []byte) bpf.Program {
	prog := make(bpf.Program, len(data)/8)
	for pc := range prog {
		b := data[8*pc:]
		prog[pc] = jmp(binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint32(b[4:]), b[2], b[3])
	}
	return prog
}

func image(prog bpf.Program) []byte {
	var data []byte
	for _, ins := range prog {
		data = binary.LittleEndian.AppendUint16(data, ins.Code)
		data = append(data, ins.JT, ins.JF)
		data = binary.LittleEndian.AppendUint32(data, ins.K)
	}
	return data
}

// checkAny holds for every program: nothing panics, Check and Compile agree,
// and what they accept ends after at most as many instructions as it has, with
// one result however it is run.
func checkAny(t *testing.T, data []byte, seccomp bool, release uint8, input []byte) {
	prog := instructions(data)
	kind := bpf.Socket
	if seccomp {
		kind = bpf.Seccomp
	}
	rules := []bpf.Rules{bpf.RulesLinux3_0, bpf.RulesLinux3_10, bpf.RulesCurrent}[release%3]
	g := bpf.Flow(prog)
	_, _, loops := g.Loop()
	if _, ok := g.LongestPath(); ok == loops {
		t.Fatalf("loop %v, but a longest path %v", loops, ok)
	}
	err := bpf.Check(prog, kind, rules)
	if _, again := bpf.Compile(prog, kind, rules); (err == nil) != (again == nil) {
		t.Fatalf("Check: %v, Compile: %v", err, again)
	}
	if err != nil {
		if check := err.(*bpf.CheckError); check.PC < -1 || check.PC >= max(len(prog), 1) || check.Reason == "" {
			t.Fatalf("the error names no place in the program: %+v", check)
		}
		return
	}
	for pc, b := range g.Blocks {
		if b.Leaves {
			t.Fatalf("block %d leaves a program that was accepted: %v", pc, prog)
		}
	}
	var in bpf.Input
	if seccomp {
		var call systemCall
		var words [8]uint64
		for n := range words {
			var word [8]byte
			copy(word[:], input[min(8*n, len(input)):])
			words[n] = binary.LittleEndian.Uint64(word[:])
		}
		call.Nr, call.Arch, call.IP = int64(uint32(words[0])), hexWord(words[0]>>32), hexWord(words[1])
		for _, word := range words[2:] {
			call.Args = append(call.Args, hexWord(word))
		}
		in = &call
	} else {
		headlen := len(input) / 2
		in = &packet{Packet: input, Headlen: &headlen}
	}
	if r := compareRuns(t, prog, kind, rules, in); r.Executed > len(prog) {
		t.Fatalf("%d instructions executed of %d", r.Executed, len(prog))
	}
}

func FuzzCheck(f *testing.F) {
	for n, r := range records[programRecord](f, "testdata/programs.jsonl") {
		if len(r.Program) > 40 {
			continue
		}
		input := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x08\x00\x45\x00")
		if r.Inputs != nil && r.Kind == bpf.Socket {
			input = r.Inputs[0].Input.(*packet).Packet
		}
		f.Add(image(r.Program), r.Kind == bpf.Seccomp, uint8(n), input)
	}
	f.Add([]byte{}, false, uint8(0), []byte{})
	f.Fuzz(checkAny)
}
