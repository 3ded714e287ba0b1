package jitx86

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit/jittest"
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

func run(t testing.TB, e *Emitter, prog bpf.Program, skb *kernelabi.Skb) (jittest.Outcome, error) {
	return jittest.Run(t, e, prog, profileFor(t, e), func(image *kernelabi.Image) (uint32, error) {
		return newMachine(image, skb).run()
	})
}

// TestMutantRecords runs the programs that show historic faults. An emitter
// with the fault has to fail as the kernel did, and the correct ones not.
func TestMutantRecords(t *testing.T) {
	shown := map[string]int{}
	for _, r := range jittest.Records[kernelabi.MutantRecord](t, "testdata/mutants.jsonl") {
		for _, name := range []string{"linux-3.10", "inline"} {
			e := mustEmitter(t, name)
			if got, err := run(t, e, r.Program, r.Input); got != (jittest.Outcome{Value: r.Want}) {
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
			if problem := got.Differs(measured, r.Want); problem != "" {
				t.Errorf("%s: %s gave %+v (%v), %s", r.Name, name, got, err, problem)
			}
			shown[name]++
		}
	}
	for _, e := range Emitters() {
		switch {
		case e.Fault == nil, e.Fault.Trap(), e.Name == "x86-jcc-skip6", e.Name == "x86-msh-neg-ret0-end": // see TestFaults
		case shown[e.Name] == 0:
			t.Errorf("no record shows %s", e.Name)
		}
	}
}

// TestFaults has programs for faults that no record shows on top of the other
// rules of linux-3.10.
func TestFaults(t *testing.T) {
	far := bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.JeqK, JT: 1, JF: 60, K: 7}}
	for range 60 {
		far = append(far, bpf.Instruction{Code: bpf.AddK, K: 1000})
	}
	far = append(far, bpf.Instruction{Code: bpf.RetA}, bpf.Instruction{Code: bpf.RetK, K: 1})
	good := mustEmitter(t, "linux-3.10")
	for _, test := range []struct {
		mutant, desc string
		prog         bpf.Program
		want         uint32
		got          jittest.Outcome
	}{
		{"x86-jcc-skip6", "the jf target is reached through code that is empty", bpf.Program{
			{Code: bpf.LdImm, K: 7},
			{Code: bpf.JeqK, JT: 2, JF: 1, K: 7},
			{Code: bpf.AddK, K: 0}, // no code
			{Code: bpf.Neg},
			{Code: bpf.RetA}, // jumped to 2 bytes too far
		}, 7, jittest.Outcome{Fault: true}},
		{"x86-jcc-skip6", "the jf target is more than 127 bytes away, and jt leads into the middle of an addition",
			far, 7 + 59*1000, jittest.Outcome{Fault: true}},
		{"x86-msh-neg-ret0-end", "the RET #0 ends where the load starts", bpf.Program{
			{Code: bpf.LdImm, K: 7},
			{Code: bpf.JeqK, JF: 1, K: 8},
			{Code: bpf.RetK, K: 0},
			{Code: bpf.LdxMsh, K: 0x80000000},
			{Code: bpf.RetK, K: 5},
		}, 0, jittest.Outcome{Fault: true}},
		{"x86-msh-neg-ret0-end", "the RET #0 is followed by another return", bpf.Program{
			{Code: bpf.LdLen},
			{Code: bpf.LdxMsh, K: 0x80000000},
			{Code: bpf.JeqK, JF: 1, K: 8},
			{Code: bpf.RetK, K: 0},
			{Code: bpf.RetK, K: 5},
		}, 0, jittest.Outcome{Value: 5}},
	} {
		mutant := mustEmitter(t, test.mutant)
		skb := &kernelabi.Skb{Packet: []byte{}}
		if ref := jittest.Reference(t, test.prog, skb, profileFor(t, good)); ref.Value != test.want {
			t.Errorf("%s: the reference gives %d, want %d", test.desc, ref.Value, test.want)
		}
		if got, err := run(t, good, test.prog, skb); got != (jittest.Outcome{Value: test.want}) {
			t.Errorf("%s: linux-3.10 gave %+v (%v), want %d", test.desc, got, err, test.want)
		}
		if got, err := run(t, mutant, test.prog, skb); got != test.got {
			t.Errorf("%s: %s gave %+v (%v), want %+v", test.desc, test.mutant, got, err, test.got)
		}
	}
}

// randomExts are the ancillary loads of random programs, which all correct
// emitters have.
var randomExts = []bpf.Extension{
	bpf.ExtProtocol, bpf.ExtPktType, bpf.ExtIfindex, bpf.ExtMark, bpf.ExtQueue, bpf.ExtRxhash,
	bpf.ExtCPU, bpf.ExtXorX, bpf.ExtVlanTCI, bpf.ExtVlanPr,
}

// TestRandomPrograms runs random programs on random packets.
func TestRandomPrograms(t *testing.T) { jittest.RandomPrograms(t, 3000, 4, randomExts, checkProgram) }

// FuzzCompile is TestRandomPrograms on what the fuzzer finds.
func FuzzCompile(f *testing.F) { jittest.Fuzz(f, goldens, checkProgram) }

// checkProgram compiles any program with every emitter, which may end in an
// error but in no panic. It runs one that the checker takes: the correct
// emitters have to agree with the reference interpreter. It reports whether it
// did.
func checkProgram(t testing.TB, prog bpf.Program, skb *kernelabi.Skb) bool {
	valid := bpf.Check(prog, bpf.Socket, bpf.RulesLinux3_10) == nil
	var want jittest.Outcome
	if valid {
		want.Value = jittest.Reference(t, prog, skb, profileFor(t, mustEmitter(t, "linux-3.10"))).Value
	}
	for _, e := range Emitters() {
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
		if diff := cmp.Diff(want, jittest.Outcome{Value: value, Fault: err != nil}); diff != "" {
			t.Fatalf("%s: %v\nprogram %v\npacket %+v\n(-reference +compiled)\n%s", e.Name, err, prog, skb, diff)
		}
	}
	return valid
}

// TestInlineSavesInstructions: the inlined loads have to pay. The program is
// that of the posting of 2011, on a packet that it accepts.
func TestInlineSavesInstructions(t *testing.T) {
	prog := posting(t).Program
	packet := make([]byte, 64)
	packet[12] = 0x08                         // IPv4
	copy(packet[26:], []byte{192, 168, 2, 7}) // from 192.168.2.7
	skb := &kernelabi.Skb{Packet: packet, Headlen: len(packet)}
	executed := map[string]int{}
	for _, name := range []string{"linux-3.10", "inline"} {
		e := mustEmitter(t, name)
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
	e := mustEmitter(t, "inline")
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
