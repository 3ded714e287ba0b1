package seccomp

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness/guestcode"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

func newChain(t *testing.T, programs ...bpf.Program) seccompdata.Chain {
	t.Helper()
	var filters []*seccompdata.Filter
	for _, prog := range programs {
		f, err := seccompdata.NewFilter("", prog)
		if err != nil {
			t.Fatal(err)
		}
		filters = append(filters, f)
	}
	chain, err := seccompdata.NewChain(filters...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func count(t *testing.T, chain seccompdata.Chain, cache *seccompdata.Cache, k seccompdata.Kernel, targets []Target, calls []seccompdata.Data) *Costs {
	t.Helper()
	c, err := Count(context.Background(), chain, cache, k, targets, calls)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// linear allows the calls below n, one comparison after the other.
func linear(n uint32) bpf.Program {
	prog := bpf.Program{{Code: bpf.LdWAbs}}
	for nr := range n {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, K: nr, JT: uint8(n - nr)})
	}
	return append(prog, bpf.Instruction{Code: bpf.RetK}, bpf.Instruction{Code: bpf.RetK, K: uint32(seccompdata.Allow)})
}

func callsBelow(n uint32, arch uint32) (calls []seccompdata.Data) {
	for nr := range n {
		calls = append(calls, seccompdata.Data{Nr: nr, Arch: arch})
	}
	return calls
}

// One more comparison costs one instruction of BPF and exactly 2 of x86_64; the
// interpreter takes 10 to 15 for it.
func TestCostOfComparison(t *testing.T) {
	targets := append(Targets(false), Targets(true)...)
	limits := map[string][2]uint64{
		"inline-x86_64": {2, 2}, "kjit-armv5": {2, 4}, "kjit-armv7": {2, 4},
		"interpreter-x86_64": {10, 15}, "interpreter-armv5": {10, 15}, "interpreter-armv7": {10, 15},
	}
	c := count(t, newChain(t, linear(200)), nil, seccompdata.CurrentKernel, targets, callsBelow(200, seccompdata.ArchX86_64))
	for i := 1; i < len(c.Calls); i++ {
		now, before := c.Calls[i], c.Calls[i-1]
		if now.Decision.Executed != before.Decision.Executed+1 {
			t.Fatalf("call %d executes %d, the one before %d", i, now.Decision.Executed, before.Decision.Executed)
		}
		for n, target := range targets {
			if d, limit := now.Native[n]-before.Native[n], limits[target.String()]; d < limit[0] || d > limit[1] {
				t.Errorf("%s, call %d: %d more instructions, want %d to %d", target, i, d, limit[0], limit[1])
			}
		}
	}
}

// image compiles without any runner around it.
func image(t *testing.T, target Target, prog bpf.Program) *kernelabi.Image {
	t.Helper()
	var c guestcode.Compiler = guestcode.Interpreter{}
	var err error
	switch p := target.Profile; {
	case target.Interpreter:
	case p.Arch == kernelabi.X86_64:
		c, err = jitx86.ByName(p.Emitter)
	default:
		c, err = jitarm.ByName(p.Emitter)
	}
	if err != nil {
		t.Fatal(err)
	}
	img, err := c.Compile(prog, bpf.Seccomp, target.Profile)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// What a chain costs is the sum of what its filters execute, each run by hand.
func TestCostOfChain(t *testing.T) {
	programs := []bpf.Program{linear(40), denies(seccompdata.ArchX86_64, 39), linear(300 - 60)}
	calls := append(callsBelow(60, seccompdata.ArchX86_64), callsBelow(60, seccompdata.ArchARM)...)
	targets := append(Targets(false), Targets(true)...)
	c := count(t, newChain(t, programs...), nil, seccompdata.CurrentKernel, targets, calls)
	for n, target := range targets {
		m, err := emulator.New(target.Profile)
		if err != nil {
			t.Fatal(err)
		}
		want, bytes := make([]uint64, len(calls)), 0
		for _, prog := range programs {
			img := image(t, target, prog)
			bytes += len(img.Code)
			if err := m.Load(img); err != nil {
				t.Fatal(err)
			}
			for i := range calls {
				results, err := m.Run([]kernelabi.Input{&kernelabi.Syscall{Data: calls[i]}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				want[i] += results[0].Insns
			}
		}
		m.Close()
		var got []uint64
		for i := range c.Calls {
			got = append(got, c.Calls[i].Native[n])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", target, diff)
		}
		if c.Targets[n].Bytes != bytes || c.Targets[n].Declined != nil {
			t.Errorf("%s: %d bytes, declined %v; want %d bytes", target, c.Targets[n].Bytes, c.Targets[n].Declined, bytes)
		}
	}
}

// The mean is weighted; with the cache, calls that it has cost nothing.
func TestMean(t *testing.T) {
	// Executed: call 0 is allowed by the 2nd instruction and returns with a 3rd,
	// call 1 by one more; call 2 is denied, and not cached, and call 7 is too.
	chain := newChain(t, linear(2))
	k := seccompdata.Kernel{Major: 6, Minor: 7}
	calls := []seccompdata.Data{
		{Nr: 0, Arch: seccompdata.ArchX86_64}, {Nr: 1, Arch: seccompdata.ArchX86_64},
		{Nr: 2, Arch: seccompdata.ArchX86_64}, {Nr: 7, Arch: seccompdata.ArchX86_64},
	}
	c := count(t, chain, seccompdata.NewCache(chain, seccompdata.X86_64, k), k, nil, calls)
	weights := map[uint32]float64{0: 5, 1: 3, 2: 2}
	weight := func(c *CallCost) float64 { return weights[c.Call.Nr] }
	got := []Mean{c.Mean(false, weight), c.Mean(true, weight), c.Mean(true, func(*CallCost) float64 { return 0 })}
	want := []Mean{
		{Weight: 10, Executed: (5*3 + 3*4 + 2*4) / 10.0, Native: []float64{}},
		{Weight: 10, Executed: (2 * 4) / 10.0, Native: []float64{}},
		{Native: []float64{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// Native instructions likewise, from two counts.
	x86 := Targets(false)[:1]
	c = count(t, chain, nil, k, x86, calls[:2])
	a, b := float64(c.Calls[0].Native[0]), float64(c.Calls[1].Native[0])
	if got, want := c.Mean(true, weight).Native[0], (5*a+3*b)/8; got != want || a == b {
		t.Errorf("the mean of %g and %g is %g, want %g", a, b, got, want)
	}
}

// Calls that the kernel asks no filter about cost nothing.
func TestExemptCost(t *testing.T) {
	chain, k := newChain(t, linear(2)), seccompdata.Kernel{Major: 6, Minor: 18}
	calls := []seccompdata.Data{{Nr: 335, Arch: seccompdata.ArchX86_64}, {Nr: 337, Arch: seccompdata.ArchX86_64}}
	c := count(t, chain, nil, k, Targets(false), calls)
	if got := c.Calls[0]; got.Decision.Executed != 0 || got.Native[0] != 0 {
		t.Errorf("uretprobe executes %d, %v", got.Decision.Executed, got.Native)
	}
	if got := c.Calls[1]; got.Decision.Executed == 0 || got.Native[0] == 0 {
		t.Errorf("call 337 executes %d, %v", got.Decision.Executed, got.Native)
	}
}

// What a JIT leaves to the interpreter is counted there.
func TestDeclinedCost(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-4.5-armv5")
	if err != nil {
		t.Fatal(err)
	}
	calls := callsBelow(1, seccompdata.ArchARM)
	c := count(t, newChain(t, linear(2), far()), nil, seccompdata.CurrentKernel, []Target{{Profile: p}, {Profile: p, Interpreter: true}}, calls)
	if len(c.Targets[0].Declined) != 1 || c.Targets[0].Declined[1] == nil {
		t.Errorf("declined: %v, want filter 1", c.Targets[0].Declined)
	}
	jit, interpreter := c.Calls[0].Native[0], c.Calls[0].Native[1]
	if jit < 20000 || jit >= interpreter {
		t.Errorf("%d instructions, of which the JIT's are few; the interpreter executes %d", jit, interpreter)
	}
}

// Code that does not do what the filter says has no cost.
func TestDisagreement(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-4.5-armv7")
	if err != nil {
		t.Fatal(err)
	}
	// LSH X by 33: Linux takes it mod 32 on x86_64, that JIT does not.
	prog := bpf.Program{
		{Code: bpf.LdxImm, K: 33}, {Code: bpf.LdImm, K: 1}, {Code: bpf.LshX}, {Code: bpf.RetA},
	}
	_, err = Count(context.Background(), newChain(t, prog), nil, seccompdata.CurrentKernel, []Target{{Profile: p}}, callsBelow(1, 0))
	var wrong *DisagreementError
	if !errors.As(err, &wrong) || wrong.Want != 2 || wrong.Got.Value == 2 {
		t.Errorf("got %v", err)
	}
}

func TestCarries(t *testing.T) {
	for _, tt := range []struct {
		target int
		abi    *seccompdata.ABI
		want   bool
	}{
		{0, seccompdata.X86_64, true}, {0, seccompdata.I386, true}, {0, seccompdata.X32, true}, {0, seccompdata.ARM, false},
		{1, seccompdata.ARM, true}, {1, seccompdata.X86_64, false}, {2, seccompdata.ARM, true}, {2, seccompdata.AARCH64, false},
		{0, seccompdata.AARCH64, false},
	} {
		if target := Targets(false)[tt.target]; target.Carries(tt.abi) != tt.want {
			t.Errorf("%s carries %s: %v", target, tt.abi, !tt.want)
		}
	}
}
