package policy

import (
	"fmt"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// words are those around which 64-bit comparisons with 32-bit instructions go
// wrong.
var words = []uint64{0, 1, 2, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff}

// TestComparisons tries every operator with all pairs of such words as constant
// and as argument: against what Go says, not against Condition.Holds.
func TestComparisons(t *testing.T) {
	truth := map[Op]func(arg, value, mask uint64) bool{
		EQ:       func(a, v, _ uint64) bool { return a == v },
		NE:       func(a, v, _ uint64) bool { return a != v },
		LT:       func(a, v, _ uint64) bool { return a < v },
		LE:       func(a, v, _ uint64) bool { return a <= v },
		GT:       func(a, v, _ uint64) bool { return a > v },
		GE:       func(a, v, _ uint64) bool { return a >= v },
		MaskedEQ: func(a, v, m uint64) bool { return a&m == v },
	}
	var values []uint64
	for _, high := range words {
		for _, low := range words {
			values = append(values, high<<32|low)
		}
	}
	masks := []uint64{0, 1, 1 << 63, 0xffffffff, 0xffffffff00000000, 0x8000000000000001, ^uint64(0), 0x7e020000}
	for _, abi := range []*seccompdata.ABI{seccompdata.X86_64, seccompdata.I386} {
		for op, holds := range truth {
			ms := masks
			if op != MaskedEQ {
				ms = masks[:1]
			}
			for _, mask := range ms {
				for _, v := range values {
					c := Condition{Arg: 4, Op: op, Value: v, Mask: mask}
					p := &Policy{Name: c.String(), ABIs: []*seccompdata.ABI{abi}, Default: 1, Rules: []Rule{{ABI: abi, Nr: 7, Ret: 2, Conditions: []Condition{c}}}}
					compiled, err := Compile(p, CompileOptions{})
					if err != nil {
						t.Fatal(err)
					}
					m := machine(t, compiled.Program)
					for _, arg := range values {
						want := uint32(1)
						if abi.Bits == 32 && holds(arg&0xffffffff, v, mask) || abi.Bits == 64 && holds(arg, v, mask) {
							want = 2
						}
						d := seccompdata.Data{Nr: 7, Arch: abi.Arch}
						d.Args[4] = arg
						if got := m.Run(&d).Value; got != want {
							t.Fatalf("%s: %s with %#x: got %d, want %d", abi, c, arg, got, want)
						}
					}
				}
			}
		}
	}
}

// What a filter asks is asked once, and loaded once.
func TestDecisionsAreShort(t *testing.T) {
	var rules []Rule
	add := func(cs ...Condition) {
		rules = append(rules, Rule{ABI: seccompdata.X86_64, Nr: 41, Ret: uint32(seccompdata.Allow), Conditions: cs})
	}
	for v := range uint64(30) {
		add(Condition{Arg: 0, Op: EQ, Value: 3 * v})
	}
	p := &Policy{Name: "domains", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Default: 0x50001, Rules: rules}
	loads := func() int {
		c, err := Compile(p, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, ins := range c.Program {
			if ins.Code == bpf.LdWAbs {
				n++
			}
		}
		if want := 30 + 1; len(c.Program) > want+12 {
			t.Errorf("%s: %d instructions for %d values", p.Name, len(c.Program), want)
		}
		return n
	}
	if got := loads(); got != 4 { // the architecture, the number, two words
		t.Errorf("30 values of one argument: %d loads", got)
	}
	p.Name, p.Rules = "halves", nil
	rules = nil
	add(Condition{Arg: 0, Op: GE, Value: 5})
	add(Condition{Arg: 0, Op: LT, Value: 5})
	p.Rules = rules
	if got := loads(); got != 2 { // whatever the argument is, the call is allowed
		t.Errorf("two halves: %d loads", got)
	}
}

// Rules whose conditions have nothing to do with each other do not make the
// program, or the time, explode.
func TestManyIndependentConditions(t *testing.T) {
	p := &Policy{Name: "independent", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Default: 0x50001}
	for i := range 200 {
		r := Rule{ABI: seccompdata.X86_64, Nr: 1, Ret: 0x50002 + uint32(i%7)}
		for arg := range 6 {
			bit := uint64(1) << (uint(i*7+arg*11) % 64)
			r.Conditions = append(r.Conditions, Condition{Arg: arg, Op: MaskedEQ, Mask: bit | bit<<3, Value: bit})
		}
		p.Rules = append(p.Rules, r)
	}
	calls := p.Boundaries()
	agrees(t, p, CompileOptions{}, calls[:min(len(calls), 20000)])
}

func TestConditionString(t *testing.T) {
	for _, tt := range []struct {
		c    Condition
		want string
	}{
		{Condition{Arg: 2, Op: LE, Value: 16}, "arg2 <= 0x10"},
		{Condition{Arg: 0, Op: MaskedEQ, Value: 1, Mask: 3}, "arg0 & 0x3 == 0x1"},
	} {
		if got := fmt.Sprint(tt.c); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
