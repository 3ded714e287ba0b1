package jitarm

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/jit/jittest"
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

// run executes a program. It is as patient as the emulator that faults were
// measured with: the rest of the last word of the linear part can be read.
func run(t testing.TB, e *Emitter, p *kernelabi.Profile, prog bpf.Program, skb *kernelabi.Skb) (jittest.Outcome, error) {
	return jittest.Run(t, e, prog, p, func(image *kernelabi.Image) (uint32, error) {
		m := newMachine(image, skb)
		m.lax = true
		m.mem[0].bytes = append(m.mem[0].bytes[:skb.Headlen:skb.Headlen], make([]byte, -skb.Headlen&3)...)
		return m.run()
	})
}

// TestMutantRecords runs the programs that show historic faults, and those that
// show slips. The kernels' emitters have to end as it was measured, the one
// without faults as it should be.
func TestMutantRecords(t *testing.T) {
	measuredAs := map[string]string{"linux-3.12-arm": "linux-3.12.9", "linux-4.5-arm": "linux-4.5"}
	runs := map[string]int{}
	for _, r := range jittest.Records[kernelabi.MutantRecord](t, "testdata/mutants.jsonl") {
		for _, e := range Emitters() {
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
				if problem := got.Differs(measured, r.Want); problem != "" {
					t.Errorf("%s: %s on %s gave %+v (%v), %s", r.Name, e.Name, p.Name, got, err, problem)
				}
				if (got != jittest.Outcome{Value: r.Want}) || e.Fault == nil {
					runs[e.Name]++
				}
			}
		}
	}
	t.Logf("runs: %v", runs)
	for _, e := range Emitters() {
		switch e.Name {
		case "seccomp-2013-arm", "arm-ind-x-unmarked", "arm-rsh0": // see TestFaults
		case "arm-no-xor-vlan": // the checker of the kernel that was measured refuses its program
		default:
			if runs[e.Name] == 0 && !(e.Fault != nil && e.Fault.Trap()) {
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
	"arm-x-one-path":          "linux-4.5",
	"arm-shift-x-32":          "linux-4.5",
}

// helperHides: a byte from a negative offset was the fault of the helper, which
// is the right one here.
func helperHides(e *Emitter, r kernelabi.MutantRecord) bool {
	return e.Name == "arm-negative-offset" && r.Name == "ind_negative_net"
}

// TestFaults has programs for faults that no record shows.
func TestFaults(t *testing.T) {
	skb := &kernelabi.Skb{Packet: []byte{1, 2, 3, 4, 5, 6, 7, 8}, Headlen: 8, NetworkHeader: 4}
	for _, test := range []struct {
		mutant, desc string
		prog         bpf.Program
		want         uint32
		got          jittest.Outcome
	}{
		{"arm-rsh0", "a shift by 0 shifts everything out", bpf.Program{
			{Code: bpf.LdImm, K: 7}, {Code: bpf.RshK}, {Code: bpf.RetA},
		}, 7, jittest.Outcome{Value: 0}},
		{"arm-ind-x-unmarked", "X is what the caller had in r5, and the offset is nowhere", bpf.Program{
			{Code: bpf.LdBInd, K: 2}, {Code: bpf.RetA},
		}, 3, jittest.Outcome{Value: 0}},
		{"arm-negative-offset", "a halfword of the network header is read 1 MiB in front of the packet", bpf.Program{
			{Code: bpf.LdxImm, K: bpf.NetOff}, {Code: bpf.LdHInd, K: 2}, {Code: bpf.RetA},
		}, 0x0708, jittest.Outcome{Fault: true}},
	} {
		mutant := mustEmitter(t, test.mutant)
		for _, p := range profilesFor(mutant) {
			if ref := jittest.Reference(t, test.prog, skb, p); ref.Value != test.want {
				t.Errorf("%s: the reference gives %d, want %d", test.desc, ref.Value, test.want)
			}
			if got, err := run(t, mustEmitter(t, mutant.Fault.Base), p, test.prog, skb); got != (jittest.Outcome{Value: test.want}) {
				t.Errorf("%s: %s gave %+v (%v), want %d", test.desc, p.Name, got, err, test.want)
			}
			if got, err := run(t, mutant, p, test.prog, skb); got != test.got {
				t.Errorf("%s: %s on %s gave %+v (%v), want %+v", test.desc, test.mutant, p.Name, got, err, test.got)
			}
		}
	}
}

// seccompData is a system call as a program reads it.
type seccompData [jit.SeccompDataSize]byte

func (d *seccompData) Len() uint32    { return jit.SeccompDataSize }
func (d *seccompData) Linear() []byte { return nil }
func (d *seccompData) Load(off uint32, size int) (uint32, bool) {
	return binary.LittleEndian.Uint32(d[off:]), true
}
func (d *seccompData) Extension(bpf.Extension, uint32, uint32) (uint32, bool) { return 0, false }

// randomExts are the ancillary loads of random programs, which kjit-arm has.
var randomExts = []bpf.Extension{
	bpf.ExtProtocol, bpf.ExtPktType, bpf.ExtIfindex, bpf.ExtMark, bpf.ExtQueue, bpf.ExtRxhash,
	bpf.ExtCPU, bpf.ExtXorX, bpf.ExtVlanTCI, bpf.ExtVlanPr, bpf.ExtHatype, bpf.ExtPayOffset,
}

// TestRandomPrograms runs random programs on random packets.
func TestRandomPrograms(t *testing.T) { jittest.RandomPrograms(t, 800, 3, randomExts, checkProgram) }

// FuzzCompile is TestRandomPrograms on what the fuzzer finds.
func FuzzCompile(f *testing.F) { jittest.Fuzz(f, goldens, checkProgram) }

// checkProgram compiles any program with every emitter, which may end in an
// error but in no panic. It runs one that the checker takes: kjit-arm has to
// agree with the reference interpreter always, linux-4.5-arm when the caller's
// r5 happens to be 0 and no count is above 31. It reports whether the checker
// did take it.
func checkProgram(t testing.TB, prog bpf.Program, skb *kernelabi.Skb) bool {
	valid := bpf.Check(prog, bpf.Socket, kernels["linux-4.5"].Rules) == nil
	for _, e := range Emitters() {
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
			want := jittest.Reference(t, prog, skb, p)
			if e.Name != "kjit-arm" {
				if m.x = 0; want.ShiftPC >= 0 {
					continue
				}
			}
			value, err := m.run()
			if diff := cmp.Diff(jittest.Outcome{Value: want.Value}, jittest.Outcome{Value: value, Fault: err != nil}); diff != "" {
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
	rng, rounds, runs := jittest.Seeded(t), jittest.Rounds(2000), 0
	for range rounds {
		prog := jittest.RandomProgram(rng, bpf.Seccomp, nil)
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
				m := newSeccompMachine(image, (*[jit.SeccompDataSize]byte)(&input))
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
