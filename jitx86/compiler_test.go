package jitx86

import (
	"fmt"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestErrors(t *testing.T) {
	ret := bpf.Instruction{Code: bpf.RetA}
	bare := &kernelabi.Profile{
		Name: "bare", Arch: kernelabi.X86_64, Base: 0xffffffffa0000000,
		Layout: kernelabi.Layout{}.With(map[string]int{"len": 0x60, "data_len": 0x64, "data": 0xb8}),
	}
	jittest.TestErrors(t, mustEmitter(t, "linux-3.10").NewCompiler(), bare, []jittest.ErrorCase{
		{"a symbol that the profile lacks", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bpf.Socket, bare, false,
			"instruction 0: profile bare has no symbol sk_load_half_positive_offset: add it with --symbol"},
		{"a helper too far away for a call", bpf.Program{{Code: bpf.LdHAbs, K: 12}, ret}, bpf.Socket,
			(&kernelabi.Profile{Name: "far", Arch: kernelabi.X86_64, Layout: bare.Layout, Symbols: map[string]uint64{}}).
				WithSymbols(map[string]uint64{"sk_load_half_positive_offset": 0xffffffff00000000}).WithBase(0x1000), false,
			"more than 2 GiB"},
		{"a field at an offset that no displacement has", bpf.Program{{Code: bpf.LdLen}, ret}, bpf.Socket,
			bare.WithLayout(map[string]int{"len": -1}), false, "sk_buff.len at offset -1"},
		{"another architecture", bpf.Program{ret}, bpf.Socket,
			&kernelabi.Profile{Name: "arm", Arch: kernelabi.ARMv7}, false, "profile arm is for armv7"},
		{"an ancillary load that the ARM JIT has a rule for", bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtHatype.K()}, ret},
			bpf.Socket, bare, true, "instruction 0: no rule for hatype"},
		{"a seccomp filter", bpf.Program{{Code: bpf.LdWAbs, K: 4}, ret}, bpf.Seccomp, bare, true, ReasonNoSeccomp},
	})
}

func TestByName(t *testing.T) {
	jittest.TestByName(t, Emitters(), ByName, func(e *Emitter) string {
		if e.Fault == nil {
			return ""
		}
		return e.Fault.Base
	})
}

// A profile for a uniprocessor kernel knows the processor's number.
func TestUniprocessor(t *testing.T) {
	e := mustEmitter(t, "linux-3.10")
	prog := bpf.Program{{Code: bpf.LdWAbs, K: bpf.ExtCPU.K()}, {Code: bpf.RetA}}
	image, err := e.Compile(prog, bpf.Socket, &kernelabi.Profile{Name: "up", Arch: kernelabi.X86_64})
	if err != nil || string(image.Code) != "\x31\xc0\xc3" {
		t.Errorf("got %x, %v; want xor eax, eax; ret", image.Code, err)
	}
}

// posting is the program of the mail of 2011 that proposed the JIT.
func posting(t testing.TB) kernelabi.JITRecord {
	return jittest.Record(t, goldens, "pub_posting2011_147", kernelabi.X86_64)
}

// TestPCMap checks the map on the posting's program against its listing.
func TestPCMap(t *testing.T) {
	r := posting(t)
	image, err := mustEmitter(t, "linux-3.0").Compile(r.Program, bpf.Socket, recordProfile(t, r))
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
}

func TestCompilerDoesNotAllocate(t *testing.T) {
	records := jittest.Records[kernelabi.JITRecord](t, goldens)
	for _, e := range Emitters() {
		jittest.TestAllocations(t, e.Name, e.NewCompiler(), records, profileFor(t, e), 50)
	}
}

// BenchmarkCompile compiles the posting's program and one of 1000 instructions.
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"linux-3.0", "linux-3.10", "inline"} {
		e := mustEmitter(b, name)
		for _, prog := range []bpf.Program{posting(b).Program, jittest.LongProgram()} {
			b.Run(fmt.Sprintf("%s/%d", name, len(prog)), func(b *testing.B) {
				jittest.Benchmark(b, e.NewCompiler(), prog, profileFor(b, e))
			})
		}
	}
}
