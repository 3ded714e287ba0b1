package paper

import "math"

// Phases are what the kernel's seccomp_benchmark measures, in any unit: a call
// without filters, then with filters added one after the other. "bitmap" is
// {ld nr; ret ALLOW}, which the result cache can prove; "full" is
// {ld argument; ret ALLOW}, which it cannot.
type Phases struct {
	Native  Value `json:"native"`
	Bitmap1 Value `json:"bitmap1"` // bitmap
	Bitmap2 Value `json:"bitmap2"` // bitmap, bitmap
	Filter1 Value `json:"filter1"` // bitmap, bitmap, full
	Filter2 Value `json:"filter2"` // bitmap, bitmap, full, bitmap
}

// Estimates are what the benchmark computes of its phases.
type Estimates struct {
	Bitmap1, Bitmap2, Filter1, Filter2 Value // overheads over native
	Entry                              Value // of the path to the filters
	PerFilter1                         Value // from the last two phases
	PerFilter2                         Value // from the last, with all four filters
}

// Estimates computes them.
func (p Phases) Estimates() Estimates {
	entry := p.Bitmap1 - p.Native - (p.Bitmap2 - p.Bitmap1)
	return Estimates{
		Bitmap1: p.Bitmap1 - p.Native, Bitmap2: p.Bitmap2 - p.Native,
		Filter1: p.Filter1 - p.Native, Filter2: p.Filter2 - p.Native,
		Entry: entry, PerFilter1: p.Filter2 - p.Filter1, PerFilter2: (p.Filter2 - p.Native - entry) / 4,
	}
}

// approx is the benchmark's idea of about the same: 1 % of the smaller value
// apart, or 2.
func approx(a, b Value) bool {
	small, large := min(a, b), max(a, b)
	return large <= small+max(small/100, 2)
}

// Expectations are the seven checks of the benchmark (tools/testing/selftests/
// seccomp, since September 2020). Where the fourth fails there is no cache, and
// the rest is left out.
func (p Phases) Expectations() []Check {
	e := p.Estimates()
	sum := p.Native + e.Entry + 4*e.PerFilter1
	checks := []Check{
		check("native <= 1 bitmap", p.Native <= p.Bitmap1, "%.1f <= %.1f", p.Native, p.Bitmap1),
		check("native <= 1 filter", p.Native <= p.Filter1, "%.1f <= %.1f", p.Native, p.Filter1),
		check("per-filter (last 2 diff) ~ per-filter (filters / 4)", approx(e.PerFilter1, e.PerFilter2), "%.1f ~ %.1f", e.PerFilter1, e.PerFilter2),
		check("1 bitmap ~ 2 bitmaps, over native", approx(e.Bitmap1, e.Bitmap2), "%.1f ~ %.1f", e.Bitmap1, e.Bitmap2),
	}
	if !checks[3].OK {
		return checks
	}
	return append(checks,
		check("entry ~ 1 bitmap", approx(e.Entry, e.Bitmap1), "%.1f ~ %.1f", e.Entry, e.Bitmap1),
		check("entry ~ 2 bitmaps", approx(e.Entry, e.Bitmap2), "%.1f ~ %.1f", e.Entry, e.Bitmap2),
		check("native + entry + 4 per-filter ~ 4 filters", approx(sum, p.Filter2), "%.1f ~ %.1f", sum, p.Filter2),
	)
}

// Known reports whether all phases were measured.
func (p Phases) Known() bool {
	return !math.IsNaN(float64(p.Native + p.Bitmap1 + p.Bitmap2 + p.Filter1 + p.Filter2))
}
