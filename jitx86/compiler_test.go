package jitx86

import (
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
		Name: "bare", Arch: kernelabi.X86_64, Base: 0xffffffffa0000000,
		Layout: kernelabi.Layout{}.With(map[string]int{"len": 0x60, "data_len": 0x64, "data": 0xb8}),
	}
	tests := []struct {
		desc    string
		prog    bpf.Program
		profile *kernelabi.Profile
		refused bool
		want    string
	}{
		{"a program of no instructions", nil, bare, false, "0 instructions"},
		{"a program that is too long", make(bpf.Program, 4097), bare, false, "4097 instructions"},
		{"a program whose end can be passed", bpf.Program{{Code: bpf.LdLen}}, bare, false,
			"instruction 0: the last instruction does not return"},
		{"a jump out of the program", bpf.Program{{Code: bpf.Ja, K: 1}, ret}, bare, false,
			"instruction 0: jumps out"},
		{"a jump that wraps", bpf.Program{{Code: bpf.Ja, K: 0xffffffff}, ret}, bare, false,
			"instruction 0: jumps out"},
		{"a conditional jump out of the program", bpf.Program{{Code: bpf.JeqK, JF: 1}, ret}, bare, false,
			"instruction 0: jumps out"},
		{"a cell that does not exist", bpf.Program{{Code: bpf.St, K: 16}, ret}, bare, false, "M[16]"},
		{"a field that the layout lacks", bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtMark.K()}, ret}, bare, false,
			"instruction 0: the layout has no sk_buff.mark: add it with --layout sk_buff.mark=OFFSET"},
		{"a symbol that the profile lacks", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bare, false,
			"instruction 0: profile bare has no symbol sk_load_half_positive_offset: add it with --symbol"},
		{"a helper too far away for a call", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret},
			(&kernelabi.Profile{Name: "far", Arch: kernelabi.X86_64, Layout: bare.Layout, Symbols: map[string]uint64{}}).
				WithSymbols(map[string]uint64{"sk_load_half_positive_offset": 0xffffffff00000000}).WithBase(0x1000), false,
			"more than 2 GiB"},
		{"a field at an offset that no displacement has", bpf.Program{{Code: bpf.LdLen}, ret},
			bare.WithLayout(map[string]int{"len": -1}), false, "sk_buff.len at offset -1"},
		{"another architecture", bpf.Program{ret},
			&kernelabi.Profile{Name: "arm", Arch: kernelabi.ARMv7}, false, "profile arm is for armv7"},
		{"an ancillary load without a rule", bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtNlattr.K()}, ret}, bare, true,
			"instruction 0: no rule for nla"},
		{"an unknown opcode", bpf.Program{{Code: 0xff}, ret}, bare, true, "instruction 0: no rule for opcode 0xff"},
		{"an opcode above a byte", bpf.Program{{Code: 0x1234}, ret}, bare, true, "no rule for opcode 0x1234"},
		{"a refusal behind a missing field: the kernel's answer comes first", bpf.Program{
			{Code: bpf.LdWAbs, K: bpf.ExtMark.K()}, {Code: bpf.LdWAbs, K: bpf.ExtHatype.K()}, ret}, bare, true,
			"instruction 1: no rule for hatype"},
	}
	e, err := ByName("linux-3.10")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		image, err := e.Compile(test.prog, bpf.Socket, test.profile)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v; want error %q", test.desc, image, err, test.want)
		}
		var refusal *kernelabi.Refusal
		if errors.As(err, &refusal) != test.refused {
			t.Errorf("%s: %v is a refusal: %v, want %v", test.desc, err, !test.refused, test.refused)
		}
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
	if _, err := ByName("linux-2.6"); err == nil || !strings.Contains(err.Error(), "linux-3.10") {
		t.Errorf("an unknown emitter gave %v, want an error that lists those there are", err)
	}
}

// A profile for a uniprocessor kernel knows the processor's number.
func TestUniprocessor(t *testing.T) {
	e, _ := ByName("linux-3.10")
	prog := bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtCPU.K()}, {Code: bpf.RetA}}
	image, err := e.Compile(prog, bpf.Socket, &kernelabi.Profile{Name: "up", Arch: kernelabi.X86_64})
	if err != nil || string(image.Code) != "\x31\xc0\xc3" {
		t.Errorf("got %x, %v; want xor eax, eax; ret", image.Code, err)
	}
}

// TestPCMap checks the map on the posting's program against its listing.
func TestPCMap(t *testing.T) {
	for _, r := range readRecords[kernelabi.JITRecord](t, goldens) {
		if r.Name != "pub_posting2011_147" {
			continue
		}
		e, _ := ByName("linux-3.0")
		image, err := e.Compile(r.Program, bpf.Socket, recordProfile(r))
		if err != nil {
			t.Fatal(err)
		}
		// The prologue is 27 bytes, mov esi and call are 10, cmp with imm32 and
		// a short jump 7; the last return is xor, leave and ret, 4 bytes.
		m := image.PCMap
		if m[0] != 27 || m[1] != 37 || m[2] != 44 || m[17] != 143 || m[18] != 147 ||
			image.PCAt(26) != -1 || image.PCAt(27) != 0 || image.PCAt(146) != 17 || image.PCAt(147) != -1 {
			t.Errorf("map %v", m)
		}
		return
	}
	t.Fatal("no record of the posting")
}

func TestCompilerDoesNotAllocate(t *testing.T) {
	programs, insns := goodPrograms(t)
	if insns == 0 {
		t.Fatal("no programs")
	}
	for _, e := range Emitters() {
		c, p := e.NewCompiler(), profileFor(t, e)
		compile := func() {
			for _, prog := range programs {
				if _, err := c.Compile(prog, bpf.Socket, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		compile()
		if allocs := testing.AllocsPerRun(10, compile); allocs != 0 {
			t.Errorf("%s: %v allocations for %d programs, want 0", e.Name, allocs, len(programs))
		}
	}
}

// goodPrograms are the programs of the records in testdata that all emitters
// compile without a remark, with the number of their instructions.
func goodPrograms(t testing.TB) (programs []bpf.Program, insns int) {
	for _, r := range readRecords[kernelabi.JITRecord](t, goldens) {
		if r.Result == kernelabi.ResultOK && r.Note == "" && r.Kernel == "linux-3.0.1" {
			programs = append(programs, r.Program)
			insns += len(r.Program)
		}
	}
	return programs, insns
}

// BenchmarkCompile reports the time per BPF instruction, all passes together,
// for the posting's program and for one of 1000 instructions.
func BenchmarkCompile(b *testing.B) {
	var posting, long bpf.Program
	for _, r := range readRecords[kernelabi.JITRecord](b, goldens) {
		if r.Name == "pub_posting2011_147" {
			posting = r.Program
		}
	}
	for len(long) < 999 {
		long = append(long,
			bpf.Instruction{Code: bpf.LdHAbs, K: 12}, bpf.Instruction{Code: bpf.JeqK, JF: 3, K: 0x800},
			bpf.Instruction{Code: bpf.LdxMsh, K: 14}, bpf.Instruction{Code: bpf.LdWInd, K: 16},
			bpf.Instruction{Code: bpf.AndK, K: 0xffffff00}, bpf.Instruction{Code: bpf.AddX},
			bpf.Instruction{Code: bpf.St, K: 3}, bpf.Instruction{Code: bpf.JgtX, JT: 1}, bpf.Instruction{Code: bpf.Txa})
	}
	long = append(long, bpf.Instruction{Code: bpf.RetA})

	for _, name := range []string{"linux-3.0", "linux-3.10", "inline"} {
		e, err := ByName(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, prog := range []bpf.Program{posting, long} {
			b.Run(fmt.Sprintf("%s/%d", name, len(prog)), func(b *testing.B) {
				c, p := e.NewCompiler(), profileFor(b, e)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Compile(prog, bpf.Socket, p); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(prog)), "ns/insn")
			})
		}
	}
}
