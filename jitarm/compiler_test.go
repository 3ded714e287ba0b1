package jitarm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestErrors(t *testing.T) {
	ret := bpf.Instruction{Code: bpf.RetA}
	bare := &kernelabi.Profile{
		Name: "bare", Arch: kernelabi.ARMv7, Base: 0xbf000000, Symbols: map[string]uint64{},
		Layout: kernelabi.Layout{}.With(map[string]int{"len": 92, "data_len": 96, "data": 172}),
	}
	v5 := *bare
	v5.Arch = kernelabi.ARMv5
	far := bpf.Program{}
	for range 1030 {
		far = append(far, bpf.Instruction{Code: bpf.LdImm, K: 0x12345678})
	}
	far = append(far, ret)
	ext := func(e bpf.Extension) bpf.Instruction { return bpf.Instruction{Code: bpf.LdWAbs, K: e.K()} }
	jittest.TestErrors(t, mustEmitter(t, "linux-4.5-arm").NewCompiler(), bare, []jittest.ErrorCase{
		{"a symbol that the profile lacks", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bpf.Socket, bare, false,
			"instruction 0: profile bare has no symbol jit_get_skb_h: add it with --symbol"},
		{"a helper beyond 32 bits", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bpf.Socket,
			bare.WithSymbols(map[string]uint64{"jit_get_skb_h": 1 << 32}), false, "jit_get_skb_h at 0x100000000: want an address up to 0xffffffff"},
		{"a field at an offset that no load has", bpf.Program{{Code: bpf.LdLen}, ret}, bpf.Socket,
			bare.WithLayout(map[string]int{"len": 4096}), false, "sk_buff.len at offset 4096"},
		{"a kernel stack of no size", bpf.Program{ext(bpf.ExtCPU), ret}, bpf.Socket, bare, false,
			"instruction 0: profile bare has kernel stacks of 0 bytes"},
		{"another architecture", bpf.Program{ret}, bpf.Socket,
			&kernelabi.Profile{Name: "x86", Arch: kernelabi.X86_64}, false, "profile x86 is for x86_64"},
		{"the opcode that kernels rewrite seccomp's load to", bpf.Program{{Code: 0x21}, ret}, bpf.Seccomp, bare, true,
			"no rule for opcode 0x21"},
		{"a shift by more than 31", bpf.Program{{Code: bpf.LshK, K: 32}, ret}, bpf.Socket, bare, true,
			"instruction 0: shift by more than 31"},
		{"a constant more than 4 KiB in front of its literal", far, bpf.Socket, &v5, true, "instruction 0: the literal pool"},
	})
	if _, err := mustEmitter(t, "linux-3.12-arm").Compile(bpf.Program{{Code: bpf.RetK}}, bpf.Seccomp, bare); err == nil ||
		!strings.Contains(err.Error(), ReasonNoSeccomp) {
		t.Errorf("a seccomp filter on 3.12 gave error %v", err)
	}
}

func TestByName(t *testing.T) {
	jittest.TestByName(t, Emitters(), ByName, func(e *Emitter) string {
		if e.Fault == nil {
			return ""
		}
		return e.Fault.Base
	})
}

// words are little-endian words as bytes.
func words(values ...uint32) (code []byte) {
	for _, v := range values {
		code = binary.LittleEndian.AppendUint32(code, v)
	}
	return code
}

// TestWorkedExample has the words and the map of one load.
func TestWorkedExample(t *testing.T) {
	e := mustEmitter(t, "linux-4.5-arm")
	p := profilesFor(e)[2]
	image, err := e.Compile(bpf.Program{{Code: bpf.LdBAbs, K: 12}, {Code: bpf.RetA}}, bpf.Socket, p)
	if err != nil {
		t.Fatal(err)
	}
	want := words(
		0xe92d41d0, 0xe1a06000, 0xe59670ac, 0xe596805c, 0xe5960060, 0xe0488000,
		0xe3a0100c, 0xe1580001, 0x83510000, 0x80810007, 0x85d04000, 0x8a000007,
		0xe3003100, 0xe34c3070, 0xe1a00006, 0xe12fff33,
		0xe3510000, 0x13a00000, 0x1a000001, 0xe1a04000,
		0xe1a00004, 0xe8bd81d0,
	)
	if !bytes.Equal(image.Code, want) {
		t.Errorf("got  %x\nwant %x", image.Code, want)
	}
	if m := image.PCMap; m[0] != 24 || m[1] != 80 || m[2] != 84 ||
		image.PCAt(23) != -1 || image.PCAt(24) != 0 || image.PCAt(80) != 1 || image.PCAt(84) != -1 {
		t.Errorf("map %v", m)
	}
}

// TestSeccomp2013 compares the two forms of seccomp loads: what is known of the
// one of 2013 is that a load is a call of seccomp_bpf_load, and the sizes that
// follow from the reconstruction.
func TestSeccomp2013(t *testing.T) {
	fast := bpf.Program{
		{Code: bpf.LdWAbs, K: 4}, {Code: bpf.JeqK, JF: 1, K: 0x28}, {Code: bpf.LdWAbs}, {Code: bpf.JeqK, JF: 1, K: 4},
		{Code: bpf.RetK, K: 1}, {Code: bpf.RetK, K: 2}, {Code: bpf.RetA},
	}
	merged, called := mustEmitter(t, "linux-4.5-arm"), mustEmitter(t, "seccomp-2013-arm")
	for _, v := range []int{0, 2} { // armv5, armv7
		size := func(e *Emitter, prog bpf.Program) int {
			image, err := e.Compile(prog, bpf.Seccomp, profilesFor(e)[v])
			if err != nil {
				t.Fatal(err)
			}
			return len(image.Code)
		}
		if before, after := size(merged, fast), size(called, fast); after != before+24 {
			t.Errorf("%s: a filter of two loads is %d bytes with calls, %d without: want 24 more", variants[v].name, after, before)
		}
		slow := jittest.Record(t, goldens, "sec_slow", variants[v].arch)
		if got := size(called, slow.Program); got != 772 {
			t.Errorf("%s: sec_slow is %d bytes with calls, want 772", variants[v].name, got)
		}
	}
	p := profilesFor(called)[2]
	image, err := called.Compile(bpf.Program{{Code: bpf.LdWAbs, K: 4}, {Code: bpf.RetA}}, bpf.Seccomp, p)
	want := words(0xe92d4010, 0xe3a04000, 0xe3003700, 0xe34c3070, 0xe3a00004, 0xe12fff33, 0xe1a04000, 0xe1a00004, 0xe8bd8010)
	if err != nil || !bytes.Equal(image.Code, want) {
		t.Errorf("got %x, %v\nwant %x", image.Code, err, want)
	}
}

// TestV5Instructions decodes all code that any emitter that is no trap makes for ARMv5 of the
// recorded programs and of random ones: nothing in it may be newer than
// ARMv5TE. What is behind the epilogue is the literal pool.
func TestV5Instructions(t *testing.T) {
	programs := map[bpf.Kind][]bpf.Program{}
	for _, r := range jittest.Records[kernelabi.JITRecord](t, goldens) {
		programs[r.Kind] = append(programs[r.Kind], r.Program)
	}
	for rng, n := jittest.Seeded(t), jittest.Rounds(2000); n > 0; n-- {
		for _, kind := range []bpf.Kind{bpf.Socket, bpf.Seccomp} {
			programs[kind] = append(programs[kind], jittest.RandomProgram(rng, kind, randomExts))
		}
	}
	found := map[string]int{}
	for _, e := range Emitters() {
		if e.Fault != nil && e.Fault.Trap() {
			continue
		}
		c := e.NewCompiler()
		for _, p := range profilesFor(e) {
			if p.Arch != kernelabi.ARMv5 {
				continue
			}
			for kind, all := range programs {
				for _, prog := range all {
					image, err := c.Compile(prog, kind, p)
					if err != nil {
						continue
					}
					if problem := checkV5(image.Code[:len(image.Code)-4*c.literals], found); problem != "" {
						t.Fatalf("%s: %s\nprogram %v", e.Name, problem, prog)
					}
				}
			}
		}
	}
	t.Logf("%v", found)
	for name := range inARMv5 {
		if found[name] == 0 && name != "POP" && name != "PUSH" { // decoded as LDM and STMDB where it is one register
			t.Errorf("%s was in no image: the list has more than emitters use", name)
		}
	}
}

// checkV5 says which instruction of some code ARMv5TE does not have, and counts
// the others.
func checkV5(code []byte, found map[string]int) string {
	for off := 0; off < len(code); off += 4 {
		in, err := decode(code[off:])
		if err != nil {
			return fmt.Sprintf("offset %#x: %v", off, err)
		}
		name := mnemonic(in)
		if !inARMv5[name] {
			return fmt.Sprintf("offset %#x: %v is newer than ARMv5TE", off, in)
		}
		found[name]++
	}
	return ""
}

// TestFarFields: kernels lose the upper bits of the offset of a 16-bit field;
// kjit-arm does not.
func TestFarFields(t *testing.T) {
	skb := &kernelabi.Skb{Packet: []byte{}, Protocol: 0x86dd, Queue: 0x1234, VlanTCI: 0x2123}
	far := map[string]int{"protocol": 0x198, "queue_mapping": 0x1a0, "vlan_tci": 0x300}
	e := mustEmitter(t, "kjit-arm")
	for _, p := range profilesFor(e) {
		p = p.WithLayout(far)
		for ext, want := range map[bpf.Extension]uint32{
			bpf.ExtProtocol: 0x86dd, bpf.ExtQueue: 0x1234, bpf.ExtVlanTCI: 0x2123, bpf.ExtVlanPr: 0,
		} {
			prog := bpf.Program{{Code: bpf.LdWAbs, K: ext.K()}, {Code: bpf.RetA}}
			if got, err := run(t, e, p, prog, skb); got != (jittest.Outcome{Value: want}) {
				t.Errorf("%s on %s: %+v (%v), want %#x", ext, p.Name, got, err, want)
			}
		}
	}
	e = mustEmitter(t, "linux-4.5-arm")
	for _, p := range profilesFor(e) {
		near, err := e.Compile(bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtQueue.K()}, {Code: bpf.RetA}}, bpf.Socket,
			p.WithLayout(map[string]int{"queue_mapping": 0xa0}))
		if err != nil {
			t.Fatal(err)
		}
		cut, err := e.Compile(bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtQueue.K()}, {Code: bpf.RetA}}, bpf.Socket, p.WithLayout(far))
		if err != nil || !bytes.Equal(near.Code, cut.Code) {
			t.Errorf("%s: queue_mapping at 1a0 gives %x, %v; want the code for a0, %x", p.Name, cut.Code, err, near.Code)
		}
	}
}

// TestLongPrograms: kjit-arm does without a literal pool that would be too far, and
// so refuses no length.
func TestLongPrograms(t *testing.T) {
	prog := bpf.Program{}
	for i := range uint32(bpf.MaxInsns - 1) {
		prog = append(prog, bpf.Instruction{Code: bpf.XorK, K: 0x9e3779b9 * i})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.RetA})
	skb := &kernelabi.Skb{Packet: []byte{}}
	e := mustEmitter(t, "kjit-arm")
	for _, p := range profilesFor(e) {
		want := jittest.Outcome{Value: jittest.Reference(t, prog, skb, p).Value}
		if got, err := run(t, e, p, prog, skb); got != want {
			t.Errorf("%s: %+v (%v), want %+v", p.Name, got, err, want)
		}
	}
}

// TestConstants: those that no immediate holds, on ARMv5.
func TestConstants(t *testing.T) {
	for _, v := range []uint32{0x101, 0xffffefff, 0x12345678, 0xfedcba98, 0xffffffff, 0xc0700100, 0x80000001, 0x7fffffff, 0xff00ff00} {
		e := mustEmitter(t, "kjit-arm")
		p := profilesFor(e)[0]
		image, err := e.Compile(bpf.Program{{Code: bpf.RetK, K: v}}, bpf.Socket, p)
		if err != nil {
			t.Fatal(err)
		}
		if value, err := newMachine(image, &kernelabi.Skb{}).run(); value != v || err != nil || len(image.Code) > 4*4+4 {
			t.Errorf("%#x became %#x, %v, in %x", v, value, err, image.Code)
		}
	}
}

func TestCompilerDoesNotAllocate(t *testing.T) {
	records := jittest.Records[kernelabi.JITRecord](t, goldens)
	for _, e := range Emitters() {
		c := e.NewCompiler()
		for _, p := range profilesFor(e) {
			jittest.TestAllocations(t, e.Name, c, records, p, 50)
		}
	}
}

// BenchmarkCompile compiles a program of 1000 instructions.
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"linux-3.12-arm", "linux-4.5-arm", "kjit-arm"} {
		e := mustEmitter(b, name)
		for _, p := range profilesFor(e) {
			b.Run(p.Name, func(b *testing.B) {
				jittest.Benchmark(b, e.NewCompiler(), jittest.LongProgram(), p)
			})
		}
	}
}
