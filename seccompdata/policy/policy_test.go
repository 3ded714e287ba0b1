package policy

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// seed is that of random tests: KJIT_SEED, or the time.
func seed(t testing.TB) *rand.Rand {
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("KJIT_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		t.Fatal("KJIT_SEED: ", err)
	}
	t.Logf("KJIT_SEED=%d", n)
	return rand.New(rand.NewPCG(n, n))
}

func machine(t testing.TB, prog bpf.Program) *bpf.Machine {
	t.Helper()
	m, err := bpf.Compile(prog, bpf.Seccomp, bpf.RulesCurrent)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func parseFile(t testing.TB, name string, o Options) *Policy {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(filepath.Base(name), data, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// docker is the default profile for the ABIs of a list.
func docker(t testing.TB, o Options, abis ...*seccompdata.ABI) *Policy {
	t.Helper()
	o.ABIs = abis
	p, err := DockerDefault(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// agrees compares all layouts of a policy with the policy itself.
func agrees(t testing.TB, p *Policy, o CompileOptions, calls []seccompdata.Data) {
	t.Helper()
	wants := make([]Verdict, len(calls))
	for i := range calls {
		wants[i] = p.Verdict(&calls[i], o)
	}
	for _, layout := range Layouts() {
		o.Layout = layout
		c, err := Compile(p, o)
		if err != nil {
			t.Errorf("%s, %s: %v", p.Name, layout, err)
			continue
		}
		if len(c.Rules) != len(c.Program) {
			t.Errorf("%s, %s: %d instructions with %d rules", p.Name, layout, len(c.Program), len(c.Rules))
		}
		m := machine(t, c.Program)
		wrong := 0
		for i := range calls {
			want, res := wants[i], m.Run(&calls[i])
			rule := c.Rules[res.PC]
			if res.Value == want.Ret && (rule == none || rule == want.Rule) {
				continue
			}
			t.Errorf("%s, %s: %+v: got %s by rule %d at %d, want %s by rule %d (%s)", p.Name, layout, calls[i],
				seccompdata.FormatRet(res.Value), rule, res.PC, seccompdata.FormatRet(want.Ret), want.Rule, want.By)
			if wrong++; wrong == 5 {
				return
			}
		}
	}
}

// allOptions are those that change what a filter says.
func allOptions(h Histogram) []CompileOptions {
	kill := uint32(seccompdata.KillProcess)
	return []CompileOptions{
		{},
		{Histogram: h, BadArch: kill, X32: X32Enosys},
		{Enosys: true, X32: X32Default, BadArch: kill},
		{Enosys: true, Histogram: h},
	}
}

func TestLayoutsAgree(t *testing.T) {
	someCalls := Histogram{}
	for i, name := range []string{"read", "socket", "clone", "getpid", "openat", "semop", "no_such_call", "futex"} {
		someCalls.add(nil, name, float64(1+i*i))
		someCalls.add(seccompdata.I386, name, float64(3*i))
	}
	x86, i386, x32, arm, aarch64 := seccompdata.X86_64, seccompdata.I386, seccompdata.X32, seccompdata.ARM, seccompdata.AARCH64
	policies := []*Policy{
		docker(t, Options{}, x86),
		docker(t, Options{}),
		docker(t, Options{}, x86, i386, x32),
		docker(t, Options{}, x32),
		docker(t, Options{}, arm),
		docker(t, Options{}, aarch64, arm),
	}
	files, err := filepath.Glob("testdata/profiles/*.json")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, same := range []SameArg{SameArgOr, SameArgAnd} {
			policies = append(policies, parseFile(t, file, Options{SameArg: same}))
		}
	}
	for _, p := range policies {
		calls := p.Boundaries()
		if testing.Short() && len(calls) > 2000 {
			calls = calls[:2000]
		}
		for _, o := range allOptions(someCalls) {
			agrees(t, p, o, calls)
		}
	}
}

// randomPolicy has rules that overlap in all ways, for calls that need not
// exist, and leans towards few different constants.
func randomPolicy(r *rand.Rand) *Policy {
	pick := func(values ...uint32) uint32 { return values[r.IntN(len(values))] }
	value := func() uint64 {
		words := func() uint64 {
			return uint64(pick(0, 0, 0, 1, 2, 3, 5, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, r.Uint32()))
		}
		return words()<<32 | words()
	}
	rets := []uint32{0, 0x80000000, 0x00030000, 0x00050001, 0x00050026, 0x7ff00002, 0x7ffc0000, 0x7fff0000}
	p := &Policy{Name: "random", Default: pick(rets...)}
	for _, abi := range seccompdata.ABIs() {
		if r.IntN(2) == 0 {
			p.ABIs = append(p.ABIs, abi)
		}
	}
	if len(p.ABIs) == 0 {
		p.ABIs = []*seccompdata.ABI{seccompdata.X86_64}
	}
	density := 1 + r.IntN(400)
	for range r.IntN(2 << r.IntN(9)) { // few more often than many
		abi := p.ABIs[r.IntN(len(p.ABIs))]
		rule := Rule{ABI: abi, Nr: uint32(r.IntN(density)) | abi.Bit, Ret: pick(rets...)}
		if r.IntN(3) > 0 {
			rule.Nr = rule.Nr&^0x3f | 7 // many rules for few calls
			for range 1 + r.IntN(2) {
				c := Condition{Arg: r.IntN(3), Op: Op(r.IntN(7)), Value: value()}
				if c.Op == MaskedEQ {
					c.Mask = value()
					if r.IntN(4) > 0 {
						c.Value &= c.Mask
					}
				}
				rule.Conditions = append(rule.Conditions, c)
			}
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}

func TestLayoutsAgreeOnRandomPolicies(t *testing.T) {
	r := seed(t)
	for range 60 {
		p := randomPolicy(r)
		calls := p.Boundaries()
		r.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		calls = calls[:min(len(calls), 3000)]
		for range 500 { // words that a rule's constants have, put together otherwise
			d := calls[r.IntN(len(calls))]
			for i := range d.Args {
				d.Args[i] = calls[r.IntN(len(calls))].Args[i]
			}
			calls = append(calls, d)
		}
		o := CompileOptions{BadArch: r.Uint32() & 0x7fffffff, Enosys: r.IntN(2) == 0, X32: []X32{X32BadArch, X32Enosys, X32Default}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			for _, abi := range p.ABIs {
				for range 30 {
					name, _ := abi.Call(abi.Numbers()[r.IntN(len(abi.Numbers()))])
					o.Histogram.add(abi, name, r.Float64())
				}
			}
		}
		agrees(t, p, o, calls)
		if t.Failed() {
			return
		}
	}
}

// What the filter says where no rule is, told number by number.
func TestNumbersWithoutRules(t *testing.T) {
	rule := func(abi *seccompdata.ABI, name string) Rule {
		nr, ok := abi.Number(name)
		if !ok {
			t.Fatal(abi, name)
		}
		return Rule{ABI: abi, Nr: nr, Call: name, Ret: uint32(seccompdata.Allow)}
	}
	plain := &Policy{Name: "x86_64", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Default: 0x50001, Rules: []Rule{rule(seccompdata.X86_64, "getpid"), rule(seccompdata.X86_64, "read")}}
	both := &Policy{Name: "x86_64 and x32", ABIs: []*seccompdata.ABI{seccompdata.X86_64, seccompdata.X32}, Default: 0x50001, Rules: append([]Rule{rule(seccompdata.X32, "getuid")}, plain.Rules...)}
	only := &Policy{Name: "x32", ABIs: []*seccompdata.ABI{seccompdata.X32}, Default: 0x50001, Rules: both.Rules[:1]}
	allows := &Policy{Name: "allows", ABIs: plain.ABIs, Default: 0x7fff0000, Rules: []Rule{{ABI: seccompdata.X86_64, Nr: 39, Ret: 0x50002}}}
	arm := &Policy{Name: "arm", ABIs: []*seccompdata.ABI{seccompdata.ARM}, Default: 0x50001, Rules: []Rule{rule(seccompdata.ARM, "getpid")}}
	const bad, deny, nosys, allow = 0x80000000, 0x50001, 0x50026, 0x7fff0000
	for _, tt := range []struct {
		desc   string
		policy *Policy
		o      CompileOptions
		arch   uint32
		nr     uint32
		want   uint32
	}{
		{"An x32 call is one of a foreign ABI.", plain, CompileOptions{}, seccompdata.ArchX86_64, 0x40000027, bad},
		{"The guard begins with bit 30.", plain, CompileOptions{}, seccompdata.ArchX86_64, 0x3fffffff, deny},
		{"The guard takes bit 31, too.", plain, CompileOptions{}, seccompdata.ArchX86_64, 0x80000027, bad},
		{"The guard ends before -1.", plain, CompileOptions{}, seccompdata.ArchX86_64, 0xfffffffe, bad},
		{"Number -1 has no rule, and is no x32 call.", plain, CompileOptions{}, seccompdata.ArchX86_64, 0xffffffff, deny},
		{"x32 calls can be answered with ENOSYS.", plain, CompileOptions{X32: X32Enosys}, seccompdata.ArchX86_64, 0x40000027, nosys},
		{"Number -1 stays when they are.", plain, CompileOptions{X32: X32Enosys}, seccompdata.ArchX86_64, 0xffffffff, deny},
		{"Without a guard x32 calls have no rule.", plain, CompileOptions{X32: X32Default}, seccompdata.ArchX86_64, 0x40000027, deny},
		{"Without a guard a deny-list lets x32 calls through.", allows, CompileOptions{X32: X32Default}, seccompdata.ArchX86_64, 0x40000027, allow},
		{"With a guard it does not.", allows, CompileOptions{}, seccompdata.ArchX86_64, 0x40000027, bad},
		{"x32 calls of a policy that lists them have rules of their own.", both, CompileOptions{}, seccompdata.ArchX86_64, 0x40000066, allow},
		{"The rules of x86_64 are not theirs.", both, CompileOptions{}, seccompdata.ArchX86_64, 0x40000027, deny},
		{"A policy of x32 alone takes x86_64 for foreign.", only, CompileOptions{}, seccompdata.ArchX86_64, 102, bad},
		{"i386 is foreign.", plain, CompileOptions{}, seccompdata.ArchI386, 20, bad},
		{"ENOSYS begins above the largest number.", plain, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 40, nosys},
		{"Below it the default holds.", plain, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 38, deny},
		{"ENOSYS goes before the x32 guard for numbers without bit 30.", plain, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 0x80000027, nosys},
		{"ENOSYS is for the ABIs of the policy.", plain, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 0x40000027, bad},
		{"ENOSYS does not touch -1 where x32 is not listed.", plain, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 0xffffffff, deny},
		{"Where x32 is listed -1 is a number above the largest.", both, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 0xffffffff, nosys},
		{"x32 has a largest number of its own.", both, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 0x40000067, nosys},
		{"Each ABI has.", both, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 0x40000065, deny},
		{"A default that allows is not replaced.", allows, CompileOptions{Enosys: true}, seccompdata.ArchX86_64, 500, allow},
		{"On other architectures -1 is a large number.", arm, CompileOptions{Enosys: true}, seccompdata.ArchARM, 0xffffffff, nosys},
	} {
		tt.o.BadArch = bad
		call := seccompdata.Data{Nr: tt.nr, Arch: tt.arch}
		if got := tt.policy.Verdict(&call, tt.o); got.Ret != tt.want {
			t.Errorf("%s %s: %#x gets %s by %s, want %#x", tt.desc, tt.policy.Name, tt.nr, seccompdata.FormatRet(got.Ret), got.By, tt.want)
		}
		agrees(t, tt.policy, tt.o, append(tt.policy.Boundaries(), call))
	}
}

// The order of rules is that of the package comment.
func TestPrecedence(t *testing.T) {
	when := func(op Op, v uint64) []Condition { return []Condition{{Arg: 0, Op: op, Value: v}} }
	rule := func(ret uint32, c []Condition) Rule {
		return Rule{ABI: seccompdata.X86_64, Nr: 157, Ret: ret, Conditions: c}
	}
	for _, tt := range []struct {
		desc  string
		rules []Rule
		arg   uint64
		want  uint32
		rule  int
	}{
		{"A rule without conditions goes before one that has some and stands first.", []Rule{rule(0x50026, when(LT, 5)), rule(0x7fff0000, nil)}, 1, 0x7fff0000, 1},
		{"Of two without conditions the first decides.", []Rule{rule(0x50026, nil), rule(0x7fff0000, nil)}, 1, 0x50026, 0},
		{"Of two with conditions the first that holds decides.", []Rule{rule(0x50026, when(LT, 5)), rule(0x7fff0000, when(EQ, 1))}, 1, 0x50026, 0},
		{"One that does not hold does not.", []Rule{rule(0x50026, when(LT, 1)), rule(0x7fff0000, when(EQ, 1))}, 1, 0x7fff0000, 1},
		{"A rule with the default action hides none behind it.", []Rule{rule(0x50001, when(EQ, 1)), rule(0x7fff0000, when(LT, 5))}, 1, 0x7fff0000, 1},
		{"Nor does one without conditions.", []Rule{rule(0x50001, nil), rule(0x7fff0000, when(LT, 5))}, 1, 0x7fff0000, 1},
		{"Without a rule that holds the default decides.", []Rule{rule(0x7fff0000, when(LT, 5))}, 5, 0x50001, none},
	} {
		p := &Policy{Name: tt.desc, ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Default: 0x50001, Rules: tt.rules}
		got := p.Verdict(&seccompdata.Data{Nr: 157, Arch: seccompdata.ArchX86_64, Args: [6]uint64{tt.arg}}, CompileOptions{})
		if got.Ret != tt.want || got.Rule != tt.rule {
			t.Errorf("%s got %+v, want %#x by rule %d", tt.desc, got, tt.want, tt.rule)
		}
		agrees(t, p, CompileOptions{}, p.Boundaries())
	}
}

func TestCompileErrors(t *testing.T) {
	good := func() *Policy {
		return &Policy{Name: "p", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Rules: []Rule{{ABI: seccompdata.X86_64, Nr: 1, Call: "write", Ret: 1}}}
	}
	for _, tt := range []struct {
		desc  string
		spoil func(*Policy, *CompileOptions)
		want  string
	}{
		{"A policy needs an ABI.", func(p *Policy, _ *CompileOptions) { p.ABIs = nil }, "lists no ABI"},
		{"A rule needs an ABI.", func(p *Policy, _ *CompileOptions) { p.Rules[0].ABI = nil }, "rule 0"},
		{"A rule's ABI has to be listed.", func(p *Policy, _ *CompileOptions) { p.Rules[0].ABI = seccompdata.I386 }, "i386"},
		{"An x32 number is none of x86_64.", func(p *Policy, _ *CompileOptions) { p.Rules[0].Nr = 0x40000001 }, "0x40000001 is no number"},
		{"Nor the other way round.", func(p *Policy, _ *CompileOptions) {
			p.ABIs[0], p.Rules[0].ABI = seccompdata.X32, seccompdata.X32
		}, "0x1 is no number of the ABI x32"},
		{"There are six arguments.", func(p *Policy, _ *CompileOptions) { p.Rules[0].Conditions = []Condition{{Arg: 6}} }, "no argument 6"},
		{"There are seven comparisons.", func(p *Policy, _ *CompileOptions) { p.Rules[0].Conditions = []Condition{{Op: 7}} }, "unknown comparison"},
		{"The layout has to be one.", func(_ *Policy, o *CompileOptions) { o.Layout = "list" }, `"list": want linear`},
		{"The way with x32 has to be one.", func(_ *Policy, o *CompileOptions) { o.X32 = "deny" }, `"deny": want bad-arch`},
	} {
		p, o := good(), CompileOptions{}
		tt.spoil(p, &o)
		if _, err := Compile(p, o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q", tt.desc, err, tt.want)
		}
	}
}
