package policy

import (
	"errors"
	"math"
	"testing"

	"github.com/kjit-project/kjit/seccompdata"
)

// numbered has rules for n numbers with different results.
func numbered(n int) *Policy {
	p := &Policy{Name: "numbered", ABIs: []*seccompdata.ABI{seccompdata.X86_64}, Default: 0x50001}
	for i := range n {
		p.Rules = append(p.Rules, Rule{ABI: seccompdata.X86_64, Nr: uint32(2 * i), Ret: 0x50002 + uint32(i%3)})
	}
	return p
}

// Programs near the limit of 4096 instructions, all jumps of which are too long
// for 8 bits in one way or another, are right; longer ones are refused.
func TestLongPrograms(t *testing.T) {
	for _, tt := range []struct {
		layout Layout
		fits   int // numbers
		not    int
	}{{Linear, 2040, 2050}, {Chain, 4000, 4100}, {Tree, 2800, 4100}, {Ranges, 2000, 4100}} {
		p := numbered(tt.fits)
		c, err := Compile(p, CompileOptions{Layout: tt.layout})
		if err != nil {
			t.Errorf("%s of %d: %v", tt.layout, tt.fits, err)
			continue
		}
		if len(c.Program) < 3000 {
			t.Errorf("%s of %d has but %d instructions", tt.layout, tt.fits, len(c.Program))
		}
		m := machine(t, c.Program)
		for nr := range uint32(2*tt.fits + 2) {
			d := seccompdata.Data{Nr: nr, Arch: seccompdata.ArchX86_64}
			if got, want := m.Run(&d).Value, p.Verdict(&d, CompileOptions{}).Ret; got != want {
				t.Fatalf("%s: number %d gets %#x, want %#x", tt.layout, nr, got, want)
			}
		}
		_, err = Compile(numbered(tt.not), CompileOptions{Layout: tt.layout})
		var long *TooLongError
		if !errors.As(err, &long) || long.Layout != tt.layout {
			t.Errorf("%s of %d: %v", tt.layout, tt.not, err)
		}
	}
	if c, err := Compile(numbered(2050), CompileOptions{Layout: Best}); err != nil || c.Layout == Linear {
		t.Errorf("best does without a layout that is too long: %v", err)
	}
	if _, err := Compile(numbered(20000), CompileOptions{Layout: Best}); err == nil {
		t.Error("20000 numbers are no error")
	}
}

// The optimal search is: no tree of any shape has a smaller expected depth.
func TestOptimalSearch(t *testing.T) {
	r := seed(t)
	for range 50 {
		spans := make([]span, 2+r.IntN(11))
		total := 0.0
		for i := range spans {
			spans[i].weight = math.Floor(math.Pow(r.Float64(), 4) * 1000)
			total += spans[i].weight
		}
		if total == 0 {
			continue
		}
		split := optimal(spans, total)
		var depth func(low, high int) float64
		depth = func(low, high int) float64 {
			if low == high {
				return 0
			}
			mid := split(low, high)
			if mid <= low || mid > high {
				t.Fatalf("%d to %d are split at %d", low, high, mid)
			}
			return sumOf(spans, low, high) + depth(low, mid-1) + depth(mid, high)
		}
		var least func(low, high int) float64
		least = func(low, high int) float64 {
			if low == high {
				return 0
			}
			best := math.Inf(1)
			for mid := low + 1; mid <= high; mid++ {
				best = min(best, least(low, mid-1)+least(mid, high))
			}
			return sumOf(spans, low, high) + best
		}
		if got, want := depth(0, len(spans)-1), least(0, len(spans)-1); got > want*(1+1e-4) {
			t.Fatalf("%v: expected depth %v, %v is possible", spans, got/total, want/total)
		}
	}
}

func sumOf(spans []span, low, high int) (sum float64) {
	for _, s := range spans[low : high+1] {
		sum += s.weight
	}
	return sum
}
