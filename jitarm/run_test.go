package jitarm

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

// variants are the processors and kernel options that all emitters are tried
// with.
var variants = []struct {
	name     string
	arch     kernelabi.Arch
	features kernelabi.Features
}{
	{"armv5", kernelabi.ARMv5, kernelabi.Features{}},
	{"armv5-fp", kernelabi.ARMv5, kernelabi.Features{FramePointer: true}},
	{"armv7", kernelabi.ARMv7, kernelabi.Features{}},
	{"armv7-fp", kernelabi.ARMv7, kernelabi.Features{FramePointer: true}},
	{"armv7-idiv", kernelabi.ARMv7, kernelabi.Features{Idiva: true}},
}

// profilesFor returns the profiles that an emitter's code runs on: the helpers
// and layouts of its kernel, on every processor.
func profilesFor(e *Emitter) (profiles []*kernelabi.Profile) {
	base := e.Name
	if e.Fault != nil {
		base = e.Fault.Base
	}
	kernel, layout := kernels["linux-4.5"], kernelabi.ARM44Full
	symbols := map[string]uint64{
		"jit_get_skb_b": 0xc0700100, "jit_get_skb_h": 0xc0700200, "jit_get_skb_w": 0xc0700300, "jit_udiv": 0xc0700400,
	}
	switch base {
	case "linux-3.12-arm", "seccomp-2013-arm":
		kernel, layout = kernels["linux-3.12"], kernelabi.ARM312Full
		symbols["seccomp_bpf_load"] = 0xc0700700
	default:
		symbols["jit_mod"], symbols["skb_get_poff"] = 0xc0700500, 0xc0700600
	}
	for _, v := range variants {
		p := kernel
		p.Name, p.Arch, p.Features = base+"-"+v.name, v.arch, v.features
		p.Features.ThreadSize = stackSize
		p.Layout, p.Symbols, p.Base = layout, symbols, 0xbf000000
		profiles = append(profiles, &p)
	}
	return profiles
}

// outcome is how an emitter's code ends on a packet.
type outcome struct {
	Value   uint32
	Fault   bool // a crash, an endless loop
	Refused string
}

func run(t testing.TB, e *Emitter, p *kernelabi.Profile, prog bpf.Program, skb *kernelabi.Skb) (outcome, error) {
	image, err := e.Compile(prog, bpf.Socket, p)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		return outcome{Refused: refusal.Reason}, err
	case err != nil:
		t.Fatal(err)
	}
	m := newMachine(image, skb)
	// Be as patient as the emulator that faults were measured with: the rest of
	// the last word of the linear part can be read.
	m.lax = true
	m.mem[0].bytes = append(m.mem[0].bytes[:skb.Headlen:skb.Headlen], make([]byte, -skb.Headlen&3)...)
	value, err := m.run()
	return outcome{Value: value, Fault: err != nil}, err
}

// TestMutantRecords runs the programs that show historic faults, and those that
// show slips. The kernels' emitters have to end as it was measured, the one
// without faults as it should be.
func TestMutantRecords(t *testing.T) {
	measuredAs := map[string]string{"linux-3.12-arm": "linux-3.12.9", "linux-4.5-arm": "linux-4.5"}
	runs := map[string]int{}
	for _, r := range readRecords[kernelabi.MutantRecord](t, "testdata/mutants.jsonl") {
		for _, e := range emitters {
			for _, p := range profilesFor(e) {
				measured, ok := r.Measured[measuredAs[e.Name]][string(p.Arch)]
				switch {
				case e.Name == "kjit-arm":
					want := kernelabi.HexUint(r.Want)
					measured, ok = kernelabi.Measured{Outcome: "value", Value: &want}, true
				case e.Name == r.Mutant:
					measured, ok = r.Measured[lastFaulty[e.Name]][string(p.Arch)]
				}
				if !ok || p.Features.Idiva && e.Fault != nil || helperHides(e, r) {
					continue
				}
				got, err := run(t, e, p, r.Program, r.Input)
				if problem := differs(got, measured, r.Want); problem != "" {
					t.Errorf("%s: %s on %s gave %+v (%v), %s", r.Name, e.Name, p.Name, got, err, problem)
				}
				if (got != outcome{Value: r.Want}) || e.Fault == nil {
					runs[e.Name]++
				}
			}
		}
	}
	t.Logf("runs: %v", runs)
	for _, e := range emitters {
		switch e.Name {
		case "seccomp-2013-arm", "arm-ind-x-unmarked", "arm-rsh0": // see TestFaults
		default:
			if runs[e.Name] == 0 {
				t.Errorf("no record shows %s", e.Name)
			}
		}
	}
}

// lastFaulty is, by fault, a kernel that was measured with it.
var lastFaulty = map[string]string{
	"arm-scratch-byte-offset": "linux-3.6",
	"arm-v5-swap16-left":      "linux-3.6",
	"arm-msh-negative":        "linux-3.6",
	"arm-divk-reciprocal":     "linux-3.6",
	"arm-div-arg-order":       "edited-4.1.18",
	"arm-pool-overflow":       "edited-4.1.18",
	"arm-hs-wrap":             "linux-4.1.18",
	"arm-negative-offset":     "linux-4.1.18",
	"arm-vlan-mask":           "linux-4.1.18",
	"arm-xorx-first":          "linux-4.1.18",
}

// helperHides: a byte from a negative offset was the fault of the helper, which
// is the right one here.
func helperHides(e *Emitter, r kernelabi.MutantRecord) bool {
	return e.Name == "arm-negative-offset" && r.Name == "ind_negative_net"
}

// differs says in what an outcome is not what was measured. What a crash does
// depends on the memory around the packet: here it may be another wrong value.
func differs(got outcome, measured kernelabi.Measured, want uint32) string {
	switch measured.Outcome {
	case "value":
		if value := uint32(*measured.Value); got != (outcome{Value: value}) {
			return fmt.Sprintf("want value %#x", value)
		}
	case "crash":
		if got.Refused != "" || got == (outcome{Value: want}) {
			return "want a crash"
		}
	case "nojit":
		if got.Refused == "" {
			return "want a refusal"
		}
	default:
		return "cannot judge outcome " + measured.Outcome
	}
	return ""
}

// TestFaults has programs for faults that no record shows.
func TestFaults(t *testing.T) {
	skb := &kernelabi.Skb{Packet: []byte{1, 2, 3, 4, 5, 6, 7, 8}, Headlen: 8, NetworkHeader: 4}
	for _, test := range []struct {
		mutant, desc string
		prog         bpf.Program
		want         uint32
		got          outcome
	}{
		{"arm-rsh0", "a shift by 0 shifts everything out", bpf.Program{
			{Code: bpf.LdImm, K: 7}, {Code: bpf.RshK}, {Code: bpf.RetA},
		}, 7, outcome{Value: 0}},
		{"arm-ind-x-unmarked", "X is what the caller had in r5, and the offset is nowhere", bpf.Program{
			{Code: bpf.LdBInd, K: 2}, {Code: bpf.RetA},
		}, 3, outcome{Value: 0}},
		{"arm-negative-offset", "a halfword of the network header is read 1 MiB in front of the packet", bpf.Program{
			{Code: bpf.LdxImm, K: bpf.NetOff}, {Code: bpf.LdHInd, K: 2}, {Code: bpf.RetA},
		}, 0x0708, outcome{Fault: true}},
	} {
		mutant := mustEmitter(t, test.mutant)
		for _, p := range profilesFor(mutant) {
			if ref := reference(t, test.prog, skb, p); ref.Value != test.want {
				t.Errorf("%s: the reference gives %d, want %d", test.desc, ref.Value, test.want)
			}
			if got, err := run(t, mustEmitter(t, mutant.Fault.Base), p, test.prog, skb); got != (outcome{Value: test.want}) {
				t.Errorf("%s: %s gave %+v (%v), want %d", test.desc, p.Name, got, err, test.want)
			}
			if got, err := run(t, mutant, p, test.prog, skb); got != test.got {
				t.Errorf("%s: %s on %s gave %+v (%v), want %+v", test.desc, test.mutant, p.Name, got, err, test.got)
			}
		}
	}
}

// reference is what the interpreter says.
func reference(t testing.TB, prog bpf.Program, skb *kernelabi.Skb, p *kernelabi.Profile) bpf.Result {
	t.Helper()
	machine, err := bpf.Compile(prog, bpf.Socket, p.Rules)
	if err != nil {
		t.Fatal(err)
	}
	return machine.Run(skb.Under(p.Semantics))
}

// seccompData is a system call as a program reads it.
type seccompData [seccompDataSize]byte

func (d *seccompData) Len() uint32    { return seccompDataSize }
func (d *seccompData) Linear() []byte { return nil }
func (d *seccompData) Load(off uint32, size int) (uint32, bool) {
	return binary.LittleEndian.Uint32(d[off:]), true
}
func (d *seccompData) Extension(bpf.Extension, uint32, uint32) (uint32, bool) { return 0, false }

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(1)
	if s := os.Getenv("KJIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// TestRandomPrograms runs random programs on random packets.
func TestRandomPrograms(t *testing.T) {
	rng, rounds, valid := seeded(t), rounds(800), 0
	for range rounds {
		prog := randomProgram(rng, bpf.Socket)
		for range 3 {
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
		if rest := len(packet) - skb.Headlen; rest > 0 {
			skb.Frags = []int{rest}
		}
		checkProgram(t, bytesProgram(code), skb)
	})
}

// checkProgram compiles any program with every emitter, which may end in an
// error but in no panic. It runs one that the checker takes: kjit-arm has to
// agree with the reference interpreter always, linux-4.5-arm when the caller's
// r5 happens to be 0 and no count is above 31. It reports whether the checker
// did take it.
func checkProgram(t testing.TB, prog bpf.Program, skb *kernelabi.Skb) bool {
	valid := bpf.Check(prog, bpf.Socket, kernels["linux-4.5"].Rules) == nil
	for _, e := range emitters {
		for _, p := range profilesFor(e) {
			image, err := e.Compile(prog, bpf.Socket, p)
			var refusal *kernelabi.Refusal
			if err != nil {
				if refused := errors.As(err, &refusal); valid && (!refused || e.Name == "kjit-arm" && !unsupported(prog)) {
					t.Fatalf("%s: a valid program gave %v\nprogram %v", p.Name, err, prog)
				}
				continue
			}
			if problem := checkMap(image); problem != "" {
				t.Fatalf("%s: %s\nprogram %v", p.Name, problem, prog)
			}
			if !valid || e.Name != "kjit-arm" && e.Name != "linux-4.5-arm" {
				continue
			}
			m := newMachine(image, skb)
			want := reference(t, prog, skb, p)
			if e.Name != "kjit-arm" {
				if m.x = 0; want.ShiftPC >= 0 {
					continue
				}
			}
			value, err := m.run()
			if diff := cmp.Diff(outcome{Value: want.Value}, outcome{Value: value, Fault: err != nil}); diff != "" {
				t.Fatalf("%s: %v\nprogram %v\npacket %+v\n(-reference +compiled)\n%s", p.Name, err, prog, skb, diff)
			}
			if e.Name == "kjit-arm" && m.misaligned {
				t.Fatalf("%s: the stack is not aligned at a call\nprogram %v", p.Name, prog)
			}
		}
	}
	return valid
}

// unsupported: the ancillary loads that no ARM JIT had.
func unsupported(prog bpf.Program) bool {
	for _, in := range prog {
		switch ext, ok := in.Extension(); {
		case ok && (ext == bpf.ExtNlattr || ext == bpf.ExtNlattrN || ext == bpf.ExtRandom || ext == bpf.ExtVlanTPID):
			return true
		}
	}
	return false
}

// TestRandomFilters runs random seccomp filters on random system calls.
func TestRandomFilters(t *testing.T) {
	rng, rounds, runs := seeded(t), rounds(2000), 0
	for range rounds {
		prog := randomProgram(rng, bpf.Seccomp)
		var input seccompData
		for i := range input {
			input[i] = byte(rng.Uint32())
		}
		for _, name := range []string{"linux-4.5-arm", "kjit-arm", "seccomp-2013-arm"} {
			e := mustEmitter(t, name)
			for _, p := range profilesFor(e) {
				machine, err := bpf.Compile(prog, bpf.Seccomp, p.Rules)
				if err != nil {
					continue
				}
				image, err := e.Compile(prog, bpf.Seccomp, p)
				var refusal *kernelabi.Refusal
				if errors.As(err, &refusal) && name != "kjit-arm" {
					continue
				} else if err != nil {
					t.Fatalf("%s: %v\nprogram %v", p.Name, err, prog)
				}
				m := newSeccompMachine(image, (*[seccompDataSize]byte)(&input))
				want := machine.Run(&input)
				if name != "kjit-arm" {
					if m.x = 0; want.ShiftPC >= 0 || name == "seccomp-2013-arm" && faultyIn312(prog) {
						continue
					}
				}
				runs++
				value, err := m.run()
				if value != want.Value || err != nil {
					t.Fatalf("%s: %#x, %v; want %#x\nprogram %v\ndata %x", p.Name, value, err, want.Value, prog, input)
				}
			}
		}
	}
	t.Logf("%d runs", runs)
	if runs < rounds {
		t.Errorf("of %d filters so few were valid that only %d runs were made", rounds, runs)
	}
}

// faultyIn312: the instructions that the JIT of 3.12 gets wrong in filters.
func faultyIn312(prog bpf.Program) bool {
	for _, in := range prog {
		if in.Code == bpf.DivK || in.Code == bpf.RshK && in.K == 0 {
			return true
		}
	}
	return false
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
	0xffffff00, 0xffffff7f, 0xffffff80, 0xffffffff, 0x3fc, 0x102, 0x12345678, 0xf000000f, 0xffffefff, 0x01010101, 33,
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
	bpf.ExtCPU, bpf.ExtXorX, bpf.ExtVlanTCI, bpf.ExtVlanPr, bpf.ExtHatype, bpf.ExtPayOffset,
}

// randomProgram makes a program that the checker most likely takes.
func randomProgram(rng *rand.Rand, kind bpf.Kind) bpf.Program {
	body := 1 + rng.IntN(14)
	prog := bpf.Program{{Code: bpf.St, K: 1}, {Code: bpf.Stx, K: 2}}[:rng.IntN(2)*2]
	for i := range body {
		left := body - i + 1 // instructions behind this one, with the two returns at the end
		in := bpf.Instruction{Code: randomCodes[rng.IntN(len(randomCodes))]}
		if !(bpf.Rules{}).Accepts(in.Code, kind) {
			in.Code = bpf.LdWAbs
		}
		in.K = constants[rng.IntN(len(constants))]
		switch {
		case kind == bpf.Seccomp && in.Code == bpf.LdWAbs:
			in.K = uint32(4 * rng.IntN(seccompDataSize/4))
		case kind == bpf.Socket && rng.IntN(12) == 0:
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
		NoDevice: rng.IntN(4) == 0, Ifindex: rng.Uint32(), DevType: uint16(rng.Uint32()), CPU: rng.Uint32(),
	}
	if rng.IntN(2) == 0 {
		skb.Headlen = rng.IntN(len(packet) + 1)
		skb.Frags = []int{len(packet) - skb.Headlen}
	}
	return skb
}
