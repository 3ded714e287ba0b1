package campaign

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/kernelabi"
)

// fuzzJITs are what [FuzzJITs] holds to the interpreter: JITs without known
// faults.
var fuzzJITs = []string{"linux-3.10-x86_64", "inline-x86_64", "kjit-armv5", "kjit-armv7", "kjit-armv7-idiv"}

// bench is an engine with a generator that mends what a fuzzer makes up.
type bench struct {
	mu     sync.Mutex
	names  []string
	engine *engine.Engine
	gen    *generate.Generator
}

func newBench(t testing.TB, jits ...string) *bench {
	t.Helper()
	b := &bench{names: jits}
	cfg := engine.Config{Options: []emulator.Option{emulator.WithBudget(budget)}}
	var profiles []*kernelabi.Profile
	for _, name := range jits {
		p, err := harness.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		target, err := engine.ProfileTarget(p)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Targets = append(cfg.Targets, target)
		profiles = append(profiles, p)
	}
	gc, err := generate.For(profiles...)
	if err != nil {
		t.Fatal(err)
	}
	gc.Inputs = 16
	b.gen = generate.New(0, gc)
	if b.engine, err = engine.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.engine.Close() })
	return b
}

// decode makes a program and an input of any bytes. Those of a program are a
// byte for the kind and then struct sock_filter by struct sock_filter, little
// endian; those of a packet are headlen, which metadata there is, and the packet;
// those of a system call are struct seccomp_data.
func (b *bench) decode(code, data []byte) (*generate.Case, kernelabi.Input) {
	kind := bpf.Socket
	if len(code) > 0 && code[0]&1 != 0 {
		kind = bpf.Seccomp
	}
	var prog bpf.Program
	for at := 1; at+8 <= len(code) && len(prog) < bpf.MaxInsns; at += 8 {
		prog = append(prog, bpf.Instruction{
			Code: binary.LittleEndian.Uint16(code[at:]), JT: code[at+2], JF: code[at+3], K: binary.LittleEndian.Uint32(code[at+4:]),
		})
	}
	c := b.gen.Repair(prog, kind)
	if kind == bpf.Seccomp {
		call := new(kernelabi.Syscall)
		var raw [64]byte
		copy(raw[:], data)
		call.Nr, call.Arch = binary.LittleEndian.Uint32(raw[:]), binary.LittleEndian.Uint32(raw[4:])
		call.IP = binary.LittleEndian.Uint64(raw[8:])
		for i := range call.Args {
			call.Args[i] = binary.LittleEndian.Uint64(raw[16+8*i:])
		}
		return c, call
	}
	var head [2]byte
	skb := kernelabi.NewSkb(data[min(copy(head[:], data), len(data)):min(len(data), 2048)])
	if head[1]&1 != 0 {
		skb = skb.Split(int(head[0]), int(head[1]>>4))
	}
	skb.NoDevice = head[1]&2 != 0
	if head[1]&4 != 0 {
		skb.Mark, skb.Rxhash, skb.Queue, skb.VlanTCI, skb.VlanPresent, skb.CPU = 0xdead0001, 0x80000003, 0xfffe, 0xb123, true, 1
	}
	return c, skb
}

// check runs what the bytes say and returns how the JITs diverge, by name, and
// how many pairs were compared.
func (b *bench) check(t testing.TB, code, data []byte) (diverging []string, pairs int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, input := b.decode(code, data)
	inputs := append([]kernelabi.Input{input}, c.Inputs()...)
	report, err := b.engine.Check(c.Program, c.Kind, inputs)
	if err != nil {
		t.Fatalf("%v: %v", c.Program, err)
	}
	for _, d := range report.Divergences {
		if name := b.names[d.Target]; d.Verdict == harness.Diverge && !slices.Contains(diverging, name) {
			diverging = append(diverging, name)
			t.Log(story(t, name, c.Program, inputs[d.Input]))
		}
	}
	return diverging, report.Pairs
}

// story is a divergence as the file that kjit replay runs again.
func story(t testing.TB, name string, prog bpf.Program, input kernelabi.Input) string {
	target, err := TargetByName(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := target.runner()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	j := judge.New(r, judge.Options{})
	defer j.Close()
	d, err := j.Judge(prog, input)
	if err != nil || d == nil {
		return fmt.Sprintf("%s: %v diverges, and not when it is run again (%v)", name, prog, err)
	}
	text, err := repro.New(d).Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzJITs fails when a JIT does something else than the interpreter. Its static
// corpus is testdata/jits.txt and the programs of package corpus.
func FuzzJITs(f *testing.F) {
	b := newBench(f, fuzzJITs...)
	for _, c := range staticCases(f) {
		f.Add(c.code, c.data)
	}
	programs, err := corpus.Programs()
	if err != nil {
		f.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		f.Fatal(err)
	}
	for i, p := range programs {
		f.Add(encodeProgram(p.Kind, p.Program), append([]byte{20, 0}, packets[i%len(packets)].Skb.Packet...))
	}
	f.Fuzz(func(t *testing.T, code, data []byte) {
		diverge, pairs := b.check(t, code, data)
		if len(diverge) > 0 {
			t.Errorf("%d JITs diverge: kjit replay shows where", len(diverge))
		}
		if pairs == 0 {
			t.Error("nothing was compared")
		}
	})
}

// TestStaticCases runs testdata/jits.txt: the JITs agree, and the mutant that a
// line names does not.
func TestStaticCases(t *testing.T) {
	clean := newBench(t, fuzzJITs...)
	for _, c := range staticCases(t) {
		if diverge, pairs := clean.check(t, c.code, c.data); len(diverge) > 0 || pairs == 0 {
			t.Errorf("line %d: %d pairs, %d JITs diverge", c.line, pairs, len(diverge))
		}
		if c.mutant == "-" {
			continue
		}
		if diverge, _ := newBench(t, c.mutant).check(t, c.code, c.data); len(diverge) != 1 {
			t.Errorf("line %d: %s does not diverge", c.line, c.mutant)
		}
	}
}

type staticCase struct {
	line       int
	mutant     string
	code, data []byte
}

// staticCases reads testdata/jits.txt: a mutant or "-", program and input in hex.
func staticCases(t testing.TB) (all []staticCase) {
	t.Helper()
	file, err := os.ReadFile("testdata/jits.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		cells := strings.Fields(line)
		if len(cells) == 0 {
			continue
		}
		c := staticCase{line: n, mutant: cells[0]}
		if len(cells) != 3 {
			t.Fatalf("testdata/jits.txt:%d: want a mutant, a program and an input", n)
		}
		for i, to := range []*[]byte{&c.code, &c.data} {
			if *to, err = hex.DecodeString(strings.ReplaceAll(cells[1+i], "_", "")); err != nil {
				t.Fatalf("testdata/jits.txt:%d: %v", n, err)
			}
		}
		all = append(all, c)
	}
	return all
}

// encodeProgram is the inverse of decode.
func encodeProgram(kind bpf.Kind, prog bpf.Program) []byte {
	code := []byte{byte(kind)}
	for _, ins := range prog {
		code = binary.LittleEndian.AppendUint16(code, ins.Code)
		code = append(code, ins.JT, ins.JF)
		code = binary.LittleEndian.AppendUint32(code, ins.K)
	}
	return code
}

// Programs that are accepted come through decode as they are, whatever else
// becomes one that is.
func TestDecode(t *testing.T) {
	b := newBench(t, fuzzJITs...)
	var profiles []*kernelabi.Profile
	for _, name := range fuzzJITs {
		p, err := kernelabi.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		profiles = append(profiles, p)
	}
	cfg, err := generate.For(profiles...)
	if err != nil {
		t.Fatal(err)
	}
	g := generate.New(seed(t, 1), cfg)
	same := 0
	for range 200 {
		c := g.Next()
		code := encodeProgram(c.Kind, c.Program)
		got, _ := b.decode(code, []byte{1, 2, 3, 4})
		if string(encodeProgram(got.Kind, got.Program)) == string(code) {
			same++
		}
		for i := range code[1:] {
			code[1+i] ^= byte(0x1d * i)
		}
		got, _ = b.decode(code, nil)
		for _, rules := range []bpf.Rules{bpf.RulesLinux3_10, bpf.RulesLinux4_5} {
			if err := bpf.Check(got.Program, got.Kind, rules); err != nil {
				t.Fatalf("%x becomes %v: %v", code, got.Program, err)
			}
		}
	}
	if same < 180 {
		t.Errorf("only %d of 200 programs come through as they are", same)
	}
}
