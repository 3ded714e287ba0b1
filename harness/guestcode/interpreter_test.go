package guestcode

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// guest is the interpreter on one profile's kernel.
type guest struct {
	*emulator.Machine
	results []emulator.Result
}

func newGuest(t *testing.T, profile string) *guest {
	t.Helper()
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := emulator.New(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &guest{Machine: m}
}

func (g *guest) run(t *testing.T, prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input) ([]emulator.Result, error) {
	t.Helper()
	img, err := Interpreter{}.Compile(prog, kind, g.Profile())
	if err != nil {
		return nil, err
	}
	if err := g.Load(img); err != nil {
		t.Fatal(err)
	}
	g.results, err = g.Run(inputs, g.results)
	if err != nil {
		t.Fatal(err)
	}
	return g.results, nil
}

var profiles = []string{
	"linux-3.0-x86_64", "linux-3.10-x86_64", "inline-x86_64",
	"linux-4.5-armv5", "linux-4.5-armv7", "kjit-armv5", "kjit-armv7-idiv",
}

func corpusInputs(t *testing.T) map[bpf.Kind][]kernelabi.Input {
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var skbs []kernelabi.Input
	for _, p := range packets {
		skbs = append(skbs, p.Skb, p.Skb.Split(13, 1, 7, 30), p.Skb.Split(0))
	}
	var calls []kernelabi.Input
	for nr := range uint32(400) {
		d := seccompdata.Data{Nr: nr, Arch: seccompdata.ArchX86_64, IP: 0x7f00_1234_5678, Args: [6]uint64{uint64(nr), 1 << 33, 2, 3, 0xffffffff, 1 << 63}}
		calls = append(calls, &kernelabi.Syscall{Data: d})
	}
	return map[bpf.Kind][]kernelabi.Input{bpf.Socket: skbs, bpf.Seccomp: calls}
}

// On the programs and packets of the corpus the guest returns what the
// reference does.
func TestAgreesWithReference(t *testing.T) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	all := corpusInputs(t)
	for _, name := range profiles {
		t.Run(name, func(t *testing.T) {
			g := newGuest(t, name)
			ran := 0
			for _, p := range programs {
				m, err := bpf.Compile(p.Program, p.Kind, g.Profile().Rules)
				if err != nil {
					continue
				}
				inputs := all[p.Kind]
				results, err := g.run(t, p.Program, p.Kind, inputs)
				var refusal *kernelabi.Refusal
				if errors.As(err, &refusal) {
					continue
				} else if err != nil {
					if !strings.Contains(err.Error(), "layout has no") {
						t.Errorf("%s: %v", p.Name, err)
					}
					continue
				}
				for i, res := range results {
					want := m.Run(inputs[i].Under(g.Profile().Semantics))
					if res.Fault != nil || res.Broken != 0 || res.Value != want.Value {
						t.Errorf("%s, input %d: %d (fault %v, broken %v), the reference returns %d", p.Name, i, res.Value, res.Fault, res.Broken, want.Value)
						break
					}
					ran++
				}
			}
			if ran < 5000 {
				t.Errorf("only %d runs were compared", ran)
			}
		})
	}
}

// linear is a filter of n comparisons none of which matches.
func linear(n int) bpf.Program {
	prog := bpf.Program{{Code: bpf.LdWAbs}}
	for i := range n {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, JT: uint8(n - 1 - i), K: 0x1000 + uint32(i)})
	}
	return append(prog, bpf.Instruction{Code: bpf.RetK}, bpf.Instruction{Code: bpf.RetK, K: 1})
}

// A comparison that does not match costs 10 to 15 instructions, as it does in
// the interpreter of a real kernel (12 measured on Linux 6.1 x86_64).
func TestCostOfComparison(t *testing.T) {
	call := []kernelabi.Input{&kernelabi.Syscall{Data: seccompdata.Data{Nr: 1}}}
	for _, name := range profiles {
		g := newGuest(t, name)
		var cost [2]uint64
		for i, n := range []int{20, 120} {
			results, err := g.run(t, linear(n), bpf.Seccomp, call)
			if err != nil {
				t.Fatal(err)
			}
			cost[i] = results[0].Insns
		}
		per := float64(cost[1]-cost[0]) / 100
		t.Logf("%s: %.2f instructions a comparison", name, per)
		if per < 10 || per > 15 {
			t.Errorf("%s: a comparison costs %.2f instructions, want 10 to 15", name, per)
		}
	}
}

// The committed code is what the generator makes, with the same compilers.
func TestGenerated(t *testing.T) {
	for _, tool := range []string{"gcc", "arm-linux-gnueabi-gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here (apt-get install gcc gcc-arm-linux-gnueabi)", tool)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("../../ci/guestcode/build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	read := func(dir, name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if have, want := read(dir, "compilers.txt"), read("code", "compilers.txt"); !bytes.Equal(have, want) {
		t.Skipf("other compilers than those that made the committed code:\n%shere:\n%s", want, have)
	}
	files, err := filepath.Glob("code/*.bin")
	if err != nil || len(files) != 9 {
		t.Fatalf("committed are %q, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if !bytes.Equal(read(dir, name), read("code", name)) {
			t.Errorf("%s differs from what is committed: go generate ./harness/guestcode", name)
		}
	}
}
