package jitarm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
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
	tests := []struct {
		desc    string
		prog    bpf.Program
		kind    bpf.Kind
		profile *kernelabi.Profile
		refused bool
		want    string
	}{
		{"a program of no instructions", nil, bpf.Socket, bare, false, "0 instructions"},
		{"a program that is too long", make(bpf.Program, 4097), bpf.Socket, bare, false, "4097 instructions"},
		{"a program whose end can be passed", bpf.Program{{Code: bpf.LdLen}}, bpf.Socket, bare, false,
			"instruction 0: the last instruction does not return"},
		{"a jump out of the program", bpf.Program{{Code: bpf.Ja, K: 1}, ret}, bpf.Socket, bare, false,
			"instruction 0: jumps out"},
		{"a jump that wraps", bpf.Program{{Code: bpf.Ja, K: 0xffffffff}, ret}, bpf.Socket, bare, false,
			"instruction 0: jumps out"},
		{"a conditional jump out of the program", bpf.Program{{Code: bpf.JeqK, JF: 1}, ret}, bpf.Socket, bare, false,
			"instruction 0: jumps out"},
		{"a cell that does not exist", bpf.Program{{Code: bpf.St, K: 16}, ret}, bpf.Socket, bare, false, "M[16]"},
		{"a load behind the data of a system call", bpf.Program{{Code: bpf.LdWAbs, K: 64}, ret}, bpf.Seccomp, bare, false,
			"instruction 0: loads at 64"},
		{"a field that the layout lacks", bpf.Program{ext(bpf.ExtMark), ret}, bpf.Socket, bare, false,
			"instruction 0: the layout has no sk_buff.mark: add it with --layout sk_buff.mark=OFFSET"},
		{"a symbol that the profile lacks", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bpf.Socket, bare, false,
			"instruction 0: profile bare has no symbol jit_get_skb_h: add it with --symbol"},
		{"a helper beyond 32 bits", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bpf.Socket,
			bare.WithSymbols(map[string]uint64{"jit_get_skb_h": 1 << 32}), false, "jit_get_skb_h at 0x100000000"},
		{"a field at an offset that no load has", bpf.Program{{Code: bpf.LdLen}, ret}, bpf.Socket,
			bare.WithLayout(map[string]int{"len": 4096}), false, "sk_buff.len at offset 4096"},
		{"a kernel stack of no size", bpf.Program{ext(bpf.ExtCPU), ret}, bpf.Socket, bare, false,
			"instruction 0: profile bare has kernel stacks of 0 bytes"},
		{"another architecture", bpf.Program{ret}, bpf.Socket,
			&kernelabi.Profile{Name: "x86", Arch: kernelabi.X86_64}, false, "profile x86 is for x86_64"},
		{"an ancillary load without a rule", bpf.Program{ext(bpf.ExtNlattr), ret}, bpf.Socket, bare, true,
			"instruction 0: no rule for nla"},
		{"an unknown opcode", bpf.Program{{Code: 0xff}, ret}, bpf.Socket, bare, true, "instruction 0: no rule for opcode 0xff"},
		{"an opcode above a byte", bpf.Program{{Code: 0x1234}, ret}, bpf.Socket, bare, true, "no rule for opcode 0x1234"},
		{"the opcode that kernels rewrite seccomp's load to", bpf.Program{{Code: 0x21}, ret}, bpf.Seccomp, bare, true,
			"no rule for opcode 0x21"},
		{"a refusal behind a missing field: the kernel's answer comes first", bpf.Program{
			ext(bpf.ExtMark), ext(bpf.ExtRandom), ret}, bpf.Socket, bare, true, "instruction 1: no rule for rand"},
		{"a shift by more than 31", bpf.Program{{Code: bpf.LshK, K: 32}, ret}, bpf.Socket, bare, true,
			"instruction 0: shift by more than 31"},
		{"a constant more than 4 KiB in front of its literal", far, bpf.Socket, &v5, true, "instruction 0: the literal pool"},
	}
	e := mustEmitter(t, "linux-4.5-arm")
	for _, test := range tests {
		image, err := e.Compile(test.prog, test.kind, test.profile)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v; want error %q", test.desc, image, err, test.want)
		}
		var refusal *kernelabi.Refusal
		if errors.As(err, &refusal) != test.refused {
			t.Errorf("%s: %v is a refusal: %v, want %v", test.desc, err, !test.refused, test.refused)
		}
	}
	if _, err := mustEmitter(t, "linux-3.12-arm").Compile(bpf.Program{{Code: bpf.RetK}}, bpf.Seccomp, bare); err == nil ||
		!strings.Contains(err.Error(), ReasonNoSeccomp) {
		t.Errorf("a seccomp filter on 3.12 gave error %v", err)
	}
}

func TestByName(t *testing.T) {
	for _, e := range Emitters() {
		if got, err := ByName(e.Name); got != e || err != nil {
			t.Errorf("ByName(%q) = %v, %v", e.Name, got, err)
		}
		if e.Fault != nil {
			if _, err := ByName(e.Fault.Base); err != nil {
				t.Errorf("%s is made of an emitter that does not exist: %v", e.Name, err)
			}
		}
	}
	if _, err := ByName("linux-2.6"); err == nil || !strings.Contains(err.Error(), "linux-4.5-arm") {
		t.Errorf("an unknown emitter gave %v, want an error that lists those there are", err)
	}
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
		found := false
		for _, r := range readRecords[kernelabi.JITRecord](t, goldens) {
			if r.Name == "sec_slow" && r.Arch == variants[v].arch {
				found = true
				if got := size(called, r.Program); got != 772 {
					t.Errorf("%s: sec_slow is %d bytes with calls, want 772", variants[v].name, got)
				}
			}
		}
		if !found {
			t.Errorf("no record of sec_slow for %s", variants[v].name)
		}
	}
	p := profilesFor(called)[2]
	image, err := called.Compile(bpf.Program{{Code: bpf.LdWAbs, K: 4}, {Code: bpf.RetA}}, bpf.Seccomp, p)
	want := words(0xe92d4010, 0xe3a04000, 0xe3003700, 0xe34c3070, 0xe3a00004, 0xe12fff33, 0xe1a04000, 0xe1a00004, 0xe8bd8010)
	if err != nil || !bytes.Equal(image.Code, want) {
		t.Errorf("got %x, %v\nwant %x", image.Code, err, want)
	}
}

// TestV5Instructions decodes all code that any emitter makes for ARMv5 of the
// recorded programs and of random ones: nothing in it may be newer than
// ARMv5TE. What is behind the epilogue is the literal pool.
func TestV5Instructions(t *testing.T) {
	programs := map[bpf.Kind][]bpf.Program{}
	for _, r := range readRecords[kernelabi.JITRecord](t, goldens) {
		programs[r.Kind] = append(programs[r.Kind], r.Program)
	}
	for rng, n := seeded(t), rounds(2000); n > 0; n-- {
		for _, kind := range []bpf.Kind{bpf.Socket, bpf.Seccomp} {
			programs[kind] = append(programs[kind], randomProgram(rng, kind))
		}
	}
	found := map[string]int{}
	for _, e := range emitters {
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
			if got, err := run(t, e, p, prog, skb); got != (outcome{Value: want}) {
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

// TestLongPrograms: kjit-arm needs no literal pool and so refuses no length.
func TestLongPrograms(t *testing.T) {
	prog := bpf.Program{}
	for i := range uint32(bpf.MaxInsns - 1) {
		prog = append(prog, bpf.Instruction{Code: bpf.XorK, K: 0x9e3779b9 * i})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.RetA})
	skb := &kernelabi.Skb{Packet: []byte{}}
	e := mustEmitter(t, "kjit-arm")
	for _, p := range profilesFor(e) {
		want := outcome{Value: reference(t, prog, skb, p).Value}
		if got, err := run(t, e, p, prog, skb); got != want {
			t.Errorf("%s: %+v (%v), want %+v", p.Name, got, err, want)
		}
	}
}

func TestInPlace(t *testing.T) {
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
	records := readRecords[kernelabi.JITRecord](t, goldens)
	for _, e := range Emitters() {
		c := e.NewCompiler()
		for _, p := range profilesFor(e) {
			var compiled []kernelabi.JITRecord // refusals do allocate
			for _, r := range records {
				if _, err := c.Compile(r.Program, r.Kind, p); err == nil {
					compiled = append(compiled, r)
				}
			}
			if len(compiled) < 50 {
				t.Errorf("%s on %s compiled %d programs only", e.Name, p.Name, len(compiled))
			}
			allocs := testing.AllocsPerRun(5, func() {
				for _, r := range compiled {
					if _, err := c.Compile(r.Program, r.Kind, p); err != nil {
						t.Fatal(err)
					}
				}
			})
			if allocs != 0 {
				t.Errorf("%s on %s: %v allocations for %d programs, want 0", e.Name, p.Name, allocs, len(compiled))
			}
		}
	}
}

// BenchmarkCompile reports the time per BPF instruction, both passes together,
// for a program of 1000 instructions.
func BenchmarkCompile(b *testing.B) {
	var long bpf.Program
	for len(long) < 999 {
		long = append(long,
			bpf.Instruction{Code: bpf.LdHAbs, K: 12}, bpf.Instruction{Code: bpf.JeqK, JF: 3, K: 0x800},
			bpf.Instruction{Code: bpf.LdxMsh, K: 14}, bpf.Instruction{Code: bpf.LdWInd, K: 16},
			bpf.Instruction{Code: bpf.AndK, K: 0xffffff00}, bpf.Instruction{Code: bpf.AddX},
			bpf.Instruction{Code: bpf.St, K: 3}, bpf.Instruction{Code: bpf.JgtX, JT: 1}, bpf.Instruction{Code: bpf.Txa})
	}
	long = append(long, bpf.Instruction{Code: bpf.RetA})
	for _, name := range []string{"linux-3.12-arm", "linux-4.5-arm", "kjit-arm"} {
		e := mustEmitter(b, name)
		for _, p := range profilesFor(e) {
			b.Run(p.Name, func(b *testing.B) {
				c := e.NewCompiler()
				if _, err := c.Compile(long, bpf.Socket, p); err != nil {
					b.Skip(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Compile(long, bpf.Socket, p); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(long)), "ns/insn")
			})
		}
	}
}
