package analysis

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/paths"
	"github.com/kjit-project/kjit/seccompdata"
)

func TestDiff(t *testing.T) {
	for _, tt := range []struct {
		desc, a, b string
		want       []string
	}{
		{"A policy in two layouts is one policy.", "docker-3arch-opt1", "docker-3arch-opt2", nil},
		{"A guard against x32 is about x32 alone.", "deny-no-x32-guard", "deny-x32-jset",
			[]string{"x32 all calls: ALLOW, ERRNO 38"}},
		{"Two comparisons differ in what one of them holds for.", "argcmp-eq-7fffffff", "argcmp-gt-7fffffff", []string{
			"x86_64 prctl when args[1] in 0x80000000-0xffffffff; or args[1] high != 0x0: ERRNO 1, ALLOW",
			"x86_64 prctl when args[1] == 0x7fffffff: ALLOW, ERRNO 1",
		}},
		{"A filter for one ABI differs from one for three in the two others.", "lib306-opt1", "elastic-docker", nil},
	} {
		a, b := one(readFilter(t, tt.a)), one(readFilter(t, tt.b))
		d, err := Diff(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Exact {
			t.Errorf("%s not exact: %v", tt.desc, d.Why)
		}
		var got []string
		for _, g := range d.Groups {
			got = append(got, g.String())
		}
		if tt.a == "lib306-opt1" { // too much to write down
			if len(got) < 5 {
				t.Errorf("%s got %q", tt.desc, got)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, diff)
		}
	}
}

func TestDiffOfSmallFilters(t *testing.T) {
	const guard = "ld [4]; jne #0xc000003e, kill; ld [0]; "
	const ends = "; allow: ret #0x7fff0000; deny: ret #0x50001; kill: ret #0"
	for _, tt := range []struct {
		desc, a, b string
		want       []string
		exact      bool
	}{
		{"Numbers in a row are one group.",
			guard + "jge #10, more; jmp allow; more: jge #20, allow" + "; jmp deny" + ends,
			guard + "jmp allow" + ends,
			[]string{"x86_64 mprotect, munmap, brk, rt_sigaction, rt_sigprocmask, rt_sigreturn, ioctl, pread64, pwrite64, readv: ERRNO 1, ALLOW"}, true},
		{"A masked comparison is written with its mask.",
			guard + "jne #56, allow; ld [16]; and #0x7e020000; jeq #0, allow; jmp deny" + ends,
			guard + "jmp allow" + ends,
			[]string{"x86_64 clone when args[0] low & 0x7e020000 != 0x0: ERRNO 1, ALLOW"}, true},
		{"Two tests of a mask that come to the same are equal.",
			guard + "ld [16]; and #0xf0; jeq #0x10, deny; jmp allow" + ends,
			guard + "ld [16]; rsh #4; and #0xf; sub #1; jeq #0, deny; jmp allow" + ends,
			nil, true},
		{"What only an i386 call with 64-bit arguments would show is no difference.",
			"ld [4]; jne #0x40000003, allow; ld [20]; jeq #0, deny; jmp allow" + ends,
			"ld [4]; jeq #0x40000003, deny; jmp allow" + ends,
			nil, true},
		{"Comparing two words with each other is the same on both sides.",
			"ld [16]; tax; ld [24]; jeq x, deny; jmp allow" + ends,
			"ld [24]; tax; ld [16]; jeq x, deny; jmp allow" + ends,
			nil, true},
		{"A comparison of two words that differs is found by search.",
			"ld [16]; tax; ld [24]; jgt x, deny; jmp allow" + ends,
			"ld [16]; tax; ld [24]; jge x, deny; jmp allow" + ends,
			[]string{"x86_64, i386, x32, arm, aarch64, other all calls"}, true},
		{"A difference that nothing was found for is said to be undecided.",
			"ld [16]; tax; mul x; tax; ld [24]; mul #4; or #2; jeq x, deny; jmp allow" + ends,
			"jmp allow" + ends,
			[]string{"x86_64, i386, x32, arm, aarch64, other all calls"}, false},
		{"A verdict that is computed is compared as a value.",
			"ld [0]; and #0xfff; or #0x50000; ret a",
			"ld [0]; jeq #7, seven; and #0xfff; or #0x50000; ret a; seven: ret #0x50008",
			[]string{"x86_64, i386, arm, aarch64, other nr 7: (([0] & 0xfff) | 0x50000), ERRNO 8"}, true},
	} {
		a := assemble(t, tt.a)
		b := assemble(t, tt.b)
		d, err := Diff(one(a), one(b))
		if err != nil {
			t.Fatal(err)
		}
		if d.Exact != tt.exact {
			t.Errorf("%s exact: %v, because of %v", tt.desc, d.Exact, d.Why)
		}
		if d.Equal != (tt.want == nil) {
			t.Errorf("%s equal: %v", tt.desc, d.Equal)
		}
		if len(d.Groups) != len(tt.want) {
			t.Errorf("%s groups %v, want %q", tt.desc, d.Groups, tt.want)
			continue
		}
		for i, g := range d.Groups {
			if text := g.String(); len(text) < len(tt.want[i]) || text[:len(tt.want[i])] != tt.want[i] {
				t.Errorf("%s got %q, want %q", tt.desc, text, tt.want[i])
			}
			if !g.Undecided && g.RetA == g.RetB {
				t.Errorf("%s the witness %s shows nothing", tt.desc, CallText(&g.Witness))
			}
		}
	}
}

// Chains: all filters are asked.
func TestDiffOfChains(t *testing.T) {
	docker, elastic := readFilter(t, "docker-x64-opt1"), readFilter(t, "elastic-docker")
	allow := assemble(t, "ret #0x7fff0000")
	for _, tt := range []struct {
		desc  string
		a, b  []*seccompdata.Filter
		equal bool
	}{
		{"A filter that allows all changes nothing.", one(docker), []*seccompdata.Filter{docker, allow}, true},
		{"The order matters where data of equal actions differ.", []*seccompdata.Filter{docker, elastic}, []*seccompdata.Filter{elastic, docker}, false},
		{"A filter twice is that filter.", []*seccompdata.Filter{elastic, elastic}, one(elastic), true},
	} {
		d, err := Diff(tt.a, tt.b)
		if err != nil {
			t.Fatal(err)
		}
		if d.Equal != tt.equal || !d.Exact {
			t.Errorf("%s equal %v, exact %v: %v", tt.desc, d.Equal, d.Exact, d.Groups)
		}
	}
}

// attackDiff holds what Diff says against calls tried.
func attackDiff(t *testing.T, r *rand.Rand, a, b []*seccompdata.Filter) *Difference {
	d, err := Diff(a, b)
	var limit *paths.LimitError
	if errors.As(err, &limit) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Inputs(append(slices.Clone(a), b...), InputOptions{PerCall: 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		calls = append(calls, randomCall(r))
	}
	for i := range calls {
		retA, _, _ := decide(a, &calls[i])
		retB, _, _ := decide(b, &calls[i])
		if d.Equal && retA != retB {
			t.Errorf("said to be equal, but %s gets %#x and %#x", CallText(&calls[i]), retA, retB)
			return d
		}
		if retA != retB && !inGroups(d, &calls[i], retA, retB) {
			t.Errorf("%s gets %#x and %#x, and is in no group of %v", CallText(&calls[i]), retA, retB, d.Groups)
			return d
		}
	}
	return d
}

// inGroups reports whether some group has the ABI and the number of the call,
// and its verdicts.
func inGroups(d *Difference, call *seccompdata.Data, a, b uint32) bool {
	name, nr := "other", call.Nr
	if abi := seccompdata.ABIOf(call.Arch, call.Nr); abi != nil {
		name, nr = abi.Name, nr&^abi.Bit
	}
	return slices.ContainsFunc(d.Groups, func(g Group) bool {
		return slices.Contains(g.ABIs, name) && g.A == seccompdata.FormatRet(a) && g.B == seccompdata.FormatRet(b) &&
			(g.Pattern != "" || slices.ContainsFunc(g.Numbers, func(r paths.Run) bool { return r.Lo <= nr && nr <= r.Hi }))
	})
}

func TestDiffOfRandomFilters(t *testing.T) {
	r := seeded(t)
	count := 200
	if testing.Short() {
		count = 60
	}
	equal, inexact := 0, 0
	for range count {
		prog := randomFilter(r, 3+r.IntN(10))
		other := mutate(r, prog)
		a, b := one(newFilter(t, prog)), one(newFilter(t, other))
		if r.IntN(4) == 0 {
			under := newFilter(t, randomFilter(r, 4))
			a, b = append(a, under), append(b, under)
		}
		d := attackDiff(t, r, a, b)
		switch {
		case t.Failed():
			t.Logf("%v\n%v", prog, other)
			return
		case d == nil:
			t.Errorf("gave up on %v\n%v", prog, other)
		case d.Equal:
			equal++
		case !d.Exact:
			inexact++
		}
	}
	t.Logf("%d of %d equal, %d not exact", equal, count, inexact)
	if equal < count/50 || equal > count*9/10 {
		t.Errorf("%d of %d pairs are equal: the pairs are no test", equal, count)
	}
	if inexact > count/20 {
		t.Errorf("%d of %d not exact", inexact, count)
	}
}

// mutate changes one or two instructions.
func mutate(r *rand.Rand, prog bpf.Program) bpf.Program {
	for {
		out := slices.Clone(prog)
		for range 1 + r.IntN(2) {
			ins := &out[r.IntN(len(out))]
			switch r.IntN(4) {
			case 0:
				ins.JT, ins.JF = ins.JF, ins.JT
			case 1:
				ins.K ^= 1 << r.IntN(32)
			case 2:
				*ins = bpf.Instruction{Code: bpf.Ja}
			default:
				ins.JT = uint8(r.IntN(3))
			}
		}
		if bpf.Check(out, bpf.Seccomp, bpf.RulesCurrent) == nil {
			return out
		}
	}
}

// FuzzDiff: what is said of any two filters holds.
func FuzzDiff(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	raw := func(prog bpf.Program) (out []byte) {
		for _, ins := range prog {
			out = binary.LittleEndian.AppendUint16(out, ins.Code)
			out = append(out, ins.JT, ins.JF)
			out = binary.LittleEndian.AppendUint32(out, ins.K)
		}
		return out
	}
	for range 10 {
		prog := randomFilter(r, 8)
		f.Add(raw(prog), raw(mutate(r, prog)))
	}
	parse := func(raw []byte) (prog bpf.Program) {
		for ; len(raw) >= 8 && len(prog) < 30; raw = raw[8:] {
			prog = append(prog, bpf.Instruction{Code: binary.LittleEndian.Uint16(raw), JT: raw[2], JF: raw[3], K: binary.LittleEndian.Uint32(raw[4:])})
		}
		return prog
	}
	f.Fuzz(func(t *testing.T, rawA, rawB []byte) {
		a, errA := seccompdata.NewFilter("", parse(rawA))
		b, errB := seccompdata.NewFilter("", parse(rawB))
		if errA == nil && errB == nil {
			attackDiff(t, rand.New(rand.NewPCG(1, 1)), one(a), one(b))
		}
	})
}

func TestRealFiltersAttacked(t *testing.T) {
	r := seeded(t)
	for _, pair := range [][2]string{{"docker-3arch-opt1", "docker-3arch-opt2"}, {"docker-x64-opt1", "elastic-docker"}, {"masked-nr", "deny-x32-jset"}} {
		attackDiff(t, r, one(readFilter(t, pair[0])), one(readFilter(t, pair[1])))
	}
}
