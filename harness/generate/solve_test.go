package generate

import (
	"encoding/binary"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/kernelabi"
)

// TestShadowIsTheInterpreter: what the solver takes a program for is what the
// reference interpreter makes of it.
func TestShadowIsTheInterpreter(t *testing.T) {
	for name, cfg := range map[string]Config{"default": Default(), "current": mustFor(t)} {
		g := New(seed(t, 10), cfg)
		for range 3000 {
			c := g.Next()
			m, err := bpf.Compile(c.Program, c.Kind, cfg.Rules[0])
			if err != nil {
				t.Fatal(err)
			}
			for i, in := range c.Inputs() {
				want := m.Run(in.Under(cfg.Semantics))
				got := &c.solver.child
				c.solver.run(c.solver.slots[i], got)
				if got.value != want.Value || got.failed != (want.LoadFailed || want.DivZero) ||
					got.wide != (want.ShiftPC >= 0) || got.steps != want.Executed {
					t.Fatalf("%s: case %d, input %d: shadow gives %+v, the interpreter %+v\n%v", name, c.Index, i, *got, want, c.Program)
				}
			}
		}
	}
}

func TestInputsAreValid(t *testing.T) {
	for name, cfg := range configs(t) {
		g := New(seed(t, 11), cfg)
		inputs, split, failing := 0, 0, 0
		const cases = 1000
		for range cases {
			c := g.Next()
			list := c.Inputs()
			checkInputs(t, list, 64)
			inputs += len(list)
			for _, in := range list {
				if skb, ok := in.(*kernelabi.Skb); ok && !skb.IsLinear() {
					split++
				}
			}
			failing += c.solver.lost
		}
		t.Logf("%s: %.1f inputs a program, %.1f %% not linear, %.1f %% end in a failed load or division", name,
			float64(inputs)/cases, 100*float64(split)/float64(inputs), 100*float64(failing)/float64(inputs))
		if mean := float64(inputs) / cases; mean < 54 {
			t.Errorf("%s: %.1f inputs a program, want 54", name, mean)
		}
	}
}

func checkInputs(t testing.TB, inputs []kernelabi.Input, most int) {
	t.Helper()
	if len(inputs) < 1 || len(inputs) > most {
		t.Fatalf("%d inputs, want 1 to %d", len(inputs), most)
	}
	for i, in := range inputs {
		if skb, ok := in.(*kernelabi.Skb); ok {
			if err := skb.Check(); err != nil {
				t.Fatalf("input %d: %v", i, err)
			}
		}
	}
}

func TestInputsAreAsManyAsAskedFor(t *testing.T) {
	for _, most := range []int{1, 2, 3, 7, 200} {
		cfg := Default()
		cfg.Inputs = most
		g := New(seed(t, 14), cfg)
		for range 300 {
			checkInputs(t, g.Next().Inputs(), most)
		}
	}
}

// TestCorpusCoverage: the inputs reach nearly all branch sides that can be
// reached, of programs that people and compilers wrote.
func TestCorpusCoverage(t *testing.T) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSolver(mustFor(t))
	var sum Coverage
	for _, p := range programs {
		s.Solve(p.Program, p.Kind, seed(t, 12))
		c := s.Coverage()
		sum.Add(c)
		if c.Reached+c.Unreachable < c.Sides {
			t.Logf("%s: %+v", p.Name, c)
		}
	}
	t.Logf("%+v, %.1f %%", sum, 100*sum.Ratio())
	if sum.Sides < 500 || sum.Ratio() < 0.95 {
		t.Errorf("%.1f %% of %d branch sides are reached, want 95 %% of 500", 100*sum.Ratio(), sum.Sides)
	}
}

// TestRunsEndInManyValues counts how runs of generated programs end. A fault
// that changes a value cannot be seen where the value does not matter.
func TestRunsEndInManyValues(t *testing.T) {
	g := New(seed(t, 13), Default())
	overall := map[uint32]int{}
	runs, alike := 0, 0.0
	var cov Coverage
	const programs = 3000
	for range programs {
		c := g.Next()
		n := len(c.Inputs())
		mine := map[uint32]int{}
		for _, sl := range c.solver.slots[:n] {
			mine[sl.value]++
		}
		most := 0
		for v, k := range mine {
			overall[v] += k
			most = max(most, k)
		}
		runs += n
		alike += float64(most) / float64(n)
		cov.Add(c.Coverage())
	}
	most, value := 0, uint32(0)
	for v, k := range overall {
		if k > most {
			most, value = k, v
		}
	}
	same, inProgram := float64(most)/float64(runs), alike/programs
	t.Logf("%.1f %% of %d runs end in %d, there are %d values", 100*same, runs, value, len(overall))
	t.Logf("in the mean %.1f %% of the runs of a program end alike", 100*inProgram)
	t.Logf("branch sides: %+v, %.1f %%", cov, 100*cov.Ratio())
	if same >= 0.3 || inProgram >= 0.45 || cov.Ratio() < 0.85 {
		t.Error("want less than 30 %, less than 45 % and at least 85 %")
	}
}

// TestNothingIsAllocated: a campaign of hours must not wait for the collector.
func TestNothingIsAllocated(t *testing.T) {
	g := New(seed(t, 15), Default())
	for range 5000 { // until buffers have their size
		g.Next().Inputs()
	}
	if allocs := testing.AllocsPerRun(3000, func() { g.Next().Inputs() }); allocs >= 1 {
		t.Errorf("%.2f allocations a case", allocs)
	}
}

// TestInversion: an operation undoes what was found to give a value.
func TestInversion(t *testing.T) {
	seed := seed(t, 16)
	r := newRng(seed, 0)
	found := map[uint8]int{}
	codes := []uint8{
		bpf.AddK, bpf.SubK, bpf.MulK, bpf.DivK, bpf.ModK, bpf.AndK, bpf.OrK, bpf.XorK, bpf.LshK, bpf.RshK, bpf.Neg,
		bpf.AddX, bpf.SubX, bpf.MulX, bpf.DivX, bpf.ModX, bpf.AndX, bpf.OrX, bpf.XorX, bpf.LshX, bpf.RshX,
	}
	apply := func(code uint8, a, x uint32) uint32 {
		if code == bpf.Neg {
			return -a
		}
		v, ok := compute(uint16(code)&^0x08, a, x)
		if !ok {
			t.Fatalf("%#x: %d by %d", code, a, x)
		}
		return v
	}
	for range 200000 {
		d := node{code: codes[r.n(len(codes))], l: r.constant(), r: max(r.constant(), 1)}
		w := r.constant()
		if r.in(2) { // one that there is a way to
			w = apply(d.code, r.constant(), d.r)
		}
		if a, ok := invertLeft(&d, w); ok {
			found[d.code]++
			if got := apply(d.code, a, d.r); got != w {
				t.Fatalf("%#x: A = %d, X = %d gives %d, want %d", d.code, a, d.r, got, w)
			}
		}
		if x, ok := invertRight(&d, w); ok && d.code&0x08 != 0 {
			if got := apply(d.code, d.l, x); got != w {
				t.Fatalf("%#x: A = %d, X = %d gives %d, want %d", d.code, d.l, x, got, w)
			}
		}
	}
	for _, code := range codes {
		if found[code] < 1000 {
			t.Errorf("%#x was inverted %d times", code, found[code])
		}
	}
}

// FuzzSolve solves, mutates and proves things of programs of any kind. What the
// checker refuses has no inputs.
func FuzzSolve(f *testing.F) {
	programs, err := corpus.Programs()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range programs {
		if len(p.Program) <= 300 {
			f.Add(encode(p.Program), p.Kind == bpf.Seccomp)
		}
	}
	cfg := mustFor(f)
	s, g := NewSolver(cfg), New(1, cfg)
	f.Fuzz(func(t *testing.T, raw []byte, seccomp bool) {
		prog, kind := decode(raw), bpf.Socket
		if seccomp {
			kind = bpf.Seccomp
		}
		inputs := s.Solve(prog, kind, 1)
		if inputs == nil {
			return
		}
		checkInputs(t, inputs, 64)
		s.Coverage()
		for pc, proof := range unreachable(prog, kind) {
			if bpf.IsCondJump(prog[pc].Code) && s.sides[pc]&proof&3 != 0 {
				t.Fatalf("instruction %d: a side is reached that was said to be unreachable", pc)
			}
		}
		for i := range uint64(8) {
			checkAccepted(t, "fuzz", cfg, g.Mutate(prog, prog, kind, i))
		}
	})
}

func encode(prog bpf.Program) (raw []byte) {
	for _, ins := range prog {
		raw = binary.LittleEndian.AppendUint16(raw, ins.Code)
		raw = append(raw, ins.JT, ins.JF)
		raw = binary.LittleEndian.AppendUint32(raw, ins.K)
	}
	return raw
}

func decode(raw []byte) (prog bpf.Program) {
	for ; len(raw) >= 8; raw = raw[8:] {
		prog = append(prog, bpf.Instruction{
			Code: binary.LittleEndian.Uint16(raw), JT: raw[2], JF: raw[3], K: binary.LittleEndian.Uint32(raw[4:]),
		})
	}
	return prog
}

// BenchmarkCase makes cases: "generate" the programs alone, "solve" the inputs
// for programs that are there, "both" what a campaign needs.
func BenchmarkCase(b *testing.B) {
	report := func(b *testing.B, insns, inputs int) {
		b.ReportMetric(float64(insns)/float64(b.N), "insns/op")
		b.ReportMetric(float64(inputs)/float64(b.N), "inputs/op")
	}
	b.Run("generate", func(b *testing.B) {
		g, insns := New(1, Default()), 0
		b.ReportAllocs()
		for b.Loop() {
			insns += len(g.Next().Program)
		}
		report(b, insns, 0)
	})
	b.Run("solve", func(b *testing.B) {
		var cases []Seed
		for g := New(1, Default()); len(cases) < 4096; {
			c := g.Next()
			cases = append(cases, Seed{append(bpf.Program(nil), c.Program...), c.Kind})
		}
		s, insns, inputs, i := NewSolver(Default()), 0, 0, 0
		b.ReportAllocs()
		for b.Loop() {
			c := &cases[i%len(cases)]
			insns += len(c.Program)
			inputs += len(s.solve(c.Program, c.Kind, uint64(i)))
			i++
		}
		report(b, insns, inputs)
	})
	b.Run("both", func(b *testing.B) {
		g, insns, inputs := New(1, Default()), 0, 0
		b.ReportAllocs()
		for b.Loop() {
			c := g.Next()
			insns += len(c.Program)
			inputs += len(c.Inputs())
		}
		report(b, insns, inputs)
	})
}
