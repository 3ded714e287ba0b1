package jitx86

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// profileFor returns the built-in profile that an emitter's code runs on.
func profileFor(t testing.TB, e *Emitter) *kernelabi.Profile {
	name := e.Name + "-x86_64"
	if e.Fault != nil {
		name = e.Fault.Base + "-x86_64"
	}
	p, err := kernelabi.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// outcome is how an emitter's code ends on a packet.
type outcome struct {
	Value   uint32
	Fault   bool // a crash, a breakpoint, an endless loop, an image never written
	Refused string
}

func run(t testing.TB, e *Emitter, prog bpf.Program, skb *kernelabi.Skb) (outcome, error) {
	image, err := e.Compile(prog, bpf.Socket, profileFor(t, e))
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		return outcome{Refused: refusal.Reason}, err
	case err != nil:
		t.Fatal(err)
	}
	value, err := newMachine(image, skb).run()
	return outcome{Value: value, Fault: err != nil}, err
}

// TestMutantRecords runs the programs that show historic faults. An emitter
// with the fault has to fail as the kernel did, and the correct ones not.
func TestMutantRecords(t *testing.T) {
	shown := map[string]int{}
	for _, r := range readRecords[kernelabi.MutantRecord](t, "testdata/mutants.jsonl") {
		for _, name := range []string{"linux-3.10", "inline"} {
			e, _ := ByName(name)
			if got, err := run(t, e, r.Program, r.Input); got != (outcome{Value: r.Want}) {
				t.Errorf("%s: %s gave %+v (%v), want %#x", r.Name, name, got, err, r.Want)
			}
		}
		measured, ok := r.Measured["linux-3.0.1"]["x86_64"]
		if !ok {
			continue
		}
		for _, name := range []string{"linux-3.0", r.Mutant} {
			if name == r.Mutant && measured.Outcome == "fatal-error" {
				continue // takes the passes of linux-3.0 as well, see TestFaults
			}
			e, err := ByName(name)
			if err != nil {
				t.Errorf("%s: %v", r.Name, err)
				continue
			}
			got, err := run(t, e, r.Program, r.Input)
			if problem := differs(got, measured, r.Want); problem != "" {
				t.Errorf("%s: %s gave %+v (%v), %s", r.Name, name, got, err, problem)
			}
			shown[name]++
		}
	}
	for _, e := range emitters {
		switch {
		case e.Fault == nil, e.Name == "x86-jcc-skip6", e.Name == "x86-msh-neg-ret0-end": // see TestFaults
		case shown[e.Name] == 0:
			t.Errorf("no record shows %s", e.Name)
		}
	}
}

// differs says in what an outcome is not what was measured. What a crash does
// depends on the memory around the code and packet: here it may be another
// wrong value.
func differs(got outcome, measured kernelabi.Measured, want uint32) string {
	switch measured.Outcome {
	case "value":
		if value := uint32(*measured.Value); got != (outcome{Value: value}) {
			return fmt.Sprintf("want value %#x", value)
		}
	case "fatal-error":
		if got.Refused != ReasonFatal {
			return "want a refusal: " + ReasonFatal
		}
	case "crash":
		if got.Refused != "" || got == (outcome{Value: want}) {
			return "want a crash"
		}
	case "int3", "endless-loop":
		if !got.Fault {
			return "want a fault"
		}
	default:
		return "cannot judge outcome " + measured.Outcome
	}
	return ""
}

// TestFaults has programs for faults that no record shows on top of the other
// rules of linux-3.10.
func TestFaults(t *testing.T) {
	far := bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.JeqK, JT: 1, JF: 60, K: 7}}
	for range 60 {
		far = append(far, bpf.Instruction{Code: bpf.AddK, K: 1000})
	}
	far = append(far, bpf.Instruction{Code: bpf.RetA}, bpf.Instruction{Code: bpf.RetK, K: 1})
	good, _ := ByName("linux-3.10")
	for _, test := range []struct {
		mutant, desc string
		prog         bpf.Program
		want         uint32
		got          outcome
	}{
		{"x86-jcc-skip6", "the jf target is reached through code that is empty", bpf.Program{
			{Code: bpf.LdImm, K: 7},
			{Code: bpf.JeqK, JT: 2, JF: 1, K: 7},
			{Code: bpf.AddK, K: 0}, // no code
			{Code: bpf.Neg},
			{Code: bpf.RetA}, // jumped to 2 bytes too far
		}, 7, outcome{Fault: true}},
		{"x86-jcc-skip6", "the jf target is more than 127 bytes away, and jt leads into the middle of an addition",
			far, 7 + 59*1000, outcome{Fault: true}},
		{"x86-msh-neg-ret0-end", "the RET #0 ends where the load starts", bpf.Program{
			{Code: bpf.LdImm, K: 7},
			{Code: bpf.JeqK, JF: 1, K: 8},
			{Code: bpf.RetK, K: 0},
			{Code: bpf.LdxMsh, K: 0x80000000},
			{Code: bpf.RetK, K: 5},
		}, 0, outcome{Fault: true}},
		{"x86-msh-neg-ret0-end", "the RET #0 is followed by another return", bpf.Program{
			{Code: bpf.LdLen},
			{Code: bpf.LdxMsh, K: 0x80000000},
			{Code: bpf.JeqK, JF: 1, K: 8},
			{Code: bpf.RetK, K: 0},
			{Code: bpf.RetK, K: 5},
		}, 0, outcome{Value: 5}},
	} {
		mutant, err := ByName(test.mutant)
		if err != nil {
			t.Fatal(err)
		}
		skb := &kernelabi.Skb{Packet: []byte{}}
		if ref := reference(t, test.prog, skb); ref.Value != test.want {
			t.Errorf("%s: the reference gives %d, want %d", test.desc, ref.Value, test.want)
		}
		if got, err := run(t, good, test.prog, skb); got != (outcome{Value: test.want}) {
			t.Errorf("%s: linux-3.10 gave %+v (%v), want %d", test.desc, got, err, test.want)
		}
		if got, err := run(t, mutant, test.prog, skb); got != test.got {
			t.Errorf("%s: %s gave %+v (%v), want %+v", test.desc, test.mutant, got, err, test.got)
		}
	}
}

// reference is what the interpreter says.
func reference(t testing.TB, prog bpf.Program, skb *kernelabi.Skb) bpf.Result {
	machine, err := bpf.Compile(prog, bpf.Socket, bpf.RulesLinux3_10)
	if err != nil {
		t.Fatal(err)
	}
	return machine.Run(skb.Under(kernelabi.Semantics{VlanPresentInTCI: true}))
}

// TestRandomPrograms runs random programs on random packets.
func TestRandomPrograms(t *testing.T) {
	seed := uint64(1)
	if s := os.Getenv("KJIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	valid := 0
	for range rounds {
		prog := randomProgram(rng)
		for range 4 {
			if checkProgram(t, prog, randomSkb(rng)) {
				valid++
			}
		}
	}
	t.Logf("%d runs", valid)
	if valid < rounds {
		t.Errorf("of %d programs so few were valid that only %d runs were made", rounds, valid)
	}
}

// FuzzCompile is TestRandomPrograms on what the fuzzer finds.
func FuzzCompile(f *testing.F) {
	for _, r := range readRecords[kernelabi.JITRecord](f, goldens) {
		f.Add(programBytes(r.Program), []byte("a packet of 22 bytes.."), uint8(20))
	}
	f.Fuzz(func(t *testing.T, code, packet []byte, headlen uint8) {
		skb := &kernelabi.Skb{Packet: packet, Headlen: min(int(headlen), len(packet)), NetworkHeader: 14}
		checkProgram(t, bytesProgram(code), skb)
	})
}

// checkProgram compiles any program with every emitter, which may end in an
// error but in no panic. It runs one that the checker takes: the correct
// emitters have to agree with the reference interpreter. It reports whether it
// did.
func checkProgram(t testing.TB, prog bpf.Program, skb *kernelabi.Skb) bool {
	valid := bpf.Check(prog, bpf.Socket, bpf.RulesLinux3_10) == nil
	var want outcome
	if valid {
		want.Value = reference(t, prog, skb).Value
	}
	for _, e := range emitters {
		image, err := e.Compile(prog, bpf.Socket, profileFor(t, e))
		var refusal *kernelabi.Refusal
		if err != nil {
			if valid && !errors.As(err, &refusal) {
				t.Fatalf("%s: a valid program gave %v\nprogram %v", e.Name, err, prog)
			}
			continue
		}
		if !image.Unfilled {
			if problem := checkMap(image); problem != "" {
				t.Fatalf("%s: %s\nprogram %v", e.Name, problem, prog)
			}
		}
		if !valid || e.Fault != nil || e.Name == "linux-3.0" {
			continue
		}
		value, err := newMachine(image, skb).run()
		if diff := cmp.Diff(want, outcome{Value: value, Fault: err != nil}); diff != "" {
			t.Fatalf("%s: %v\nprogram %v\npacket %+v\n(-reference +compiled)\n%s", e.Name, err, prog, skb, diff)
		}
	}
	return valid
}

// programBytes and bytesProgram are the layout of struct sock_filter.
func programBytes(prog bpf.Program) []byte {
	var code []byte
	for _, in := range prog {
		code = binary.LittleEndian.AppendUint16(code, in.Code)
		code = append(code, in.JT, in.JF)
		code = binary.LittleEndian.AppendUint32(code, in.K)
	}
	return code
}

func bytesProgram(code []byte) bpf.Program {
	var prog bpf.Program
	for ; len(code) >= 8; code = code[8:] {
		prog = append(prog, bpf.Instruction{
			Code: binary.LittleEndian.Uint16(code), JT: code[2], JF: code[3],
			K: binary.LittleEndian.Uint32(code[4:]),
		})
	}
	return prog
}

// constants are the k where encodings and bounds change.
var constants = []uint32{
	0, 1, 2, 3, 4, 7, 14, 23, 31, 32, 60, 63, 64, 65, 0x7f, 0x80, 0xff, 0x100, 0x8000, 0xff00, 0xffff, 0x10000,
	0x7ffffffb, 0x7ffffffc, 0x7ffffffd, 0x7ffffffe, 0x7fffffff, 0x80000000, 0xffdfffff,
	bpf.LLOff, bpf.LLOff + 1, bpf.LLOff + 14, bpf.LLOff + 60, bpf.NetOff - 1, bpf.NetOff, bpf.NetOff + 9, bpf.NetOff + 48,
	0xffffff00, 0xffffff7f, 0xffffff80, 0xffffffff,
}

var randomCodes = []uint16{
	bpf.LdImm, bpf.LdLen, bpf.LdxImm, bpf.LdxImm, bpf.LdxLen, bpf.LdxMsh,
	bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdWInd, bpf.LdHInd, bpf.LdBInd,
	bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdWInd, bpf.LdHInd, bpf.LdBInd,
	bpf.AddK, bpf.AddX, bpf.SubK, bpf.SubX, bpf.MulK, bpf.MulX, bpf.DivK, bpf.DivX, bpf.ModK, bpf.ModX,
	bpf.OrK, bpf.OrX, bpf.AndK, bpf.AndX, bpf.XorK, bpf.XorX, bpf.LshK, bpf.LshX, bpf.RshK, bpf.RshX, bpf.Neg,
	bpf.JeqK, bpf.JeqX, bpf.JgtK, bpf.JgtX, bpf.JgeK, bpf.JgeX, bpf.JsetK, bpf.JsetX, bpf.Ja,
	bpf.RetK, bpf.RetA, bpf.Tax, bpf.Txa, bpf.St, bpf.Stx, bpf.LdMem, bpf.LdxMem,
}

var randomExts = []bpf.Extension{
	bpf.ExtProtocol, bpf.ExtPktType, bpf.ExtIfindex, bpf.ExtMark, bpf.ExtQueue, bpf.ExtRxhash,
	bpf.ExtCPU, bpf.ExtXorX, bpf.ExtVlanTCI, bpf.ExtVlanPr,
}

func randomProgram(rng *rand.Rand) bpf.Program {
	body := 1 + rng.IntN(14)
	prog := bpf.Program{{Code: bpf.St, K: 1}, {Code: bpf.Stx, K: 2}}[:rng.IntN(2)*2]
	for i := range body {
		left := body - i + 1 // instructions behind this one, with the two returns at the end
		in := bpf.Instruction{Code: randomCodes[rng.IntN(len(randomCodes))]}
		in.K = constants[rng.IntN(len(constants))]
		switch {
		case rng.IntN(12) == 0:
			in = bpf.Instruction{Code: bpf.LdWAbs, K: randomExts[rng.IntN(len(randomExts))].K()}
		case bpf.IsCondJump(in.Code):
			in.JT, in.JF = uint8(rng.IntN(left)), uint8(rng.IntN(left))
		case in.Code == bpf.Ja:
			in.K = uint32(rng.IntN(left))
		case in.Code == bpf.St, in.Code == bpf.Stx, in.Code == bpf.LdMem, in.Code == bpf.LdxMem:
			in.K = uint32(1 + rng.IntN(2))
		case bpf.IsRet(in.Code) && rng.IntN(4) > 0, (in.Code == bpf.DivK || in.Code == bpf.ModK) && in.K == 0:
			in = bpf.Instruction{Code: bpf.Tax}
		}
		prog = append(prog, in)
	}
	return append(prog, bpf.Instruction{Code: bpf.RetA}, bpf.Instruction{Code: bpf.RetK, K: uint32(rng.IntN(2))})
}

func randomSkb(rng *rand.Rand) *kernelabi.Skb {
	packet := make([]byte, rng.IntN(80))
	for i := range packet {
		packet[i] = byte(rng.Uint32())
	}
	skb := &kernelabi.Skb{
		Packet: packet, Headlen: len(packet), NetworkHeader: rng.IntN(16),
		Protocol: uint16(rng.Uint32()), PktType: uint8(rng.IntN(8)), Mark: rng.Uint32(), Rxhash: rng.Uint32(),
		Queue: uint16(rng.Uint32()), VlanTCI: uint16(rng.Uint32()), VlanPresent: rng.IntN(2) == 0,
		NoDevice: rng.IntN(4) == 0, Ifindex: rng.Uint32(), CPU: rng.Uint32(),
	}
	if rng.IntN(2) == 0 {
		skb.Headlen = rng.IntN(len(packet) + 1)
		skb.Frags = []int{len(packet) - skb.Headlen}
	}
	return skb
}

// TestInlineSavesInstructions: the inlined loads have to pay. The program is
// that of the posting of 2011, on a packet that it accepts.
func TestInlineSavesInstructions(t *testing.T) {
	var prog bpf.Program
	for _, r := range readRecords[kernelabi.JITRecord](t, goldens) {
		if r.Name == "pub_posting2011_147" {
			prog = r.Program
		}
	}
	packet := make([]byte, 64)
	packet[12] = 0x08                         // IPv4
	copy(packet[26:], []byte{192, 168, 2, 7}) // from 192.168.2.7
	skb := &kernelabi.Skb{Packet: packet, Headlen: len(packet)}
	executed := map[string]int{}
	for _, name := range []string{"linux-3.10", "inline"} {
		e, _ := ByName(name)
		image, err := e.Compile(prog, bpf.Socket, profileFor(t, e))
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(image, skb)
		if value, err := m.run(); value != 0xffff || err != nil {
			t.Fatalf("%s: %#x, %v; want ffff", name, value, err)
		}
		executed[name] = m.executed
	}
	t.Logf("guest instructions: %v", executed)
	if before, after := executed["linux-3.10"], executed["inline"]; 4*after > 3*before {
		t.Errorf("inline executes %d instructions, linux-3.10 %d: want 25 %% fewer", after, before)
	}
}

// TestInlineCalls: loads up to the last byte of the linear part are made in
// place, those beyond by the helper.
func TestInlineCalls(t *testing.T) {
	skb := &kernelabi.Skb{Packet: make([]byte, 24), Headlen: 20, Frags: []int{4}}
	e, _ := ByName("inline")
	for _, test := range []struct {
		load  uint16
		bytes uint32
	}{
		{bpf.LdWAbs, 4}, {bpf.LdHAbs, 2}, {bpf.LdBAbs, 1}, {bpf.LdxMsh, 1},
		{bpf.LdWInd, 4}, {bpf.LdHInd, 2}, {bpf.LdBInd, 1},
	} {
		for beyond := range uint32(2) {
			prog := bpf.Program{
				{Code: bpf.LdxImm, K: 3},
				{Code: test.load, K: 20 - test.bytes + beyond},
				{Code: bpf.RetK, K: 1},
			}
			switch test.load {
			case bpf.LdWInd, bpf.LdHInd, bpf.LdBInd:
				prog[1].K -= 3
			}
			image, err := e.Compile(prog, bpf.Socket, profileFor(t, e))
			if err != nil {
				t.Fatal(err)
			}
			m := newMachine(image, skb)
			if value, err := m.run(); value != 1 || err != nil {
				t.Errorf("load %#x: %d, %v; want 1", test.load, value, err)
			}
			if m.calls != int(beyond) {
				t.Errorf("load %#x of %d bytes, %d beyond the linear part: %d helper calls", test.load, test.bytes, beyond, m.calls)
			}
		}
	}
}
