package generate

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// seed returns the seed of a random test, KJIT_SEED or the given one, and
// prints it.
func seed(t testing.TB, fixed uint64) uint64 {
	if s := os.Getenv("KJIT_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
		fixed = v
	}
	t.Logf("KJIT_SEED=%d", fixed)
	return fixed
}

func mustFor(t testing.TB, profiles ...*kernelabi.Profile) Config {
	t.Helper()
	cfg, err := For(profiles...)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// configs are those that programs are made under.
func configs(t testing.TB) map[string]Config {
	out := map[string]Config{"default": Default(), "current": mustFor(t), "all": mustFor(t, kernelabi.Profiles()...)}
	for _, p := range kernelabi.Profiles() {
		out[p.Name] = mustFor(t, p)
	}
	return out
}

func TestProgramsAreAccepted(t *testing.T) {
	for name, cfg := range configs(t) {
		g := New(seed(t, 1), cfg)
		for range 3000 {
			checkAccepted(t, name, cfg, g.Next())
		}
	}
}

func checkAccepted(t testing.TB, name string, cfg Config, c *Case) {
	t.Helper()
	for _, r := range cfg.Rules {
		if err := bpf.Check(c.Program, c.Kind, r); err != nil {
			t.Fatalf("%s: case %d, %s: %s: %v\n%v", name, c.Index, c.Shape, r, err, c.Program)
		}
	}
}

func TestCaseDependsOnSeedAndIndexAlone(t *testing.T) {
	seed := seed(t, 2)
	type made struct {
		Program bpf.Program
		Kind    bpf.Kind
		Shape   Shape
		Inputs  []kernelabi.Input
	}
	take := func(c *Case) made {
		return made{slices.Clone(c.Program), c.Kind, c.Shape, CloneInputs(c.Inputs())}
	}
	var inOrder []made
	g := New(seed, Default())
	for range 300 {
		inOrder = append(inOrder, take(g.Next()))
	}
	g = New(seed, Default())
	for i := len(inOrder) - 1; i >= 0; i -= 7 {
		if diff := cmp.Diff(inOrder[i], take(g.At(uint64(i)))); diff != "" {
			t.Fatalf("case %d differs when made by itself (-in order +by itself)\n%s", i, diff)
		}
	}
	if cmp.Equal(inOrder[0].Program, New(seed+1, Default()).At(0).Program) {
		t.Error("another seed gives the same program")
	}
}

// TestEveryCodeIsDrawn fails when a code, an ancillary load or a shape that the
// configuration asks for does not come.
func TestEveryCodeIsDrawn(t *testing.T) {
	var codes [2][256]int
	var exts [bpf.NumExtensions]int
	var shapes [numShapes]int
	cfg := Default()
	g := New(seed(t, 3), cfg)
	insns, firsts := 0, [256]int{}
	const programs = 20000
	for range programs {
		c := g.Next()
		shapes[c.Shape]++
		insns += len(c.Program)
		firsts[c.Program[0].Code]++
		for _, ins := range c.Program {
			codes[c.Kind][ins.Code]++
			if ext, ok := ins.Extension(); ok && c.Kind == bpf.Socket {
				exts[ext/4]++
			}
		}
	}
	for kind, f := range cfg.Features {
		for code, use := range f.Codes {
			if n := codes[kind][code]; use == Often && n < 100 || use == Never && n > 0 {
				t.Errorf("%s: code %#02x came %d times in %d programs", bpf.Kind(kind), code, n, programs)
			}
		}
	}
	for n, use := range cfg.Features[bpf.Socket].Exts {
		ext := bpf.Extension(4 * n)
		if got := exts[n]; use == Often && got < 1000 || use == Rare && got < 50 || use == Never && got > 0 {
			t.Errorf("%s came %d times in %d programs", ext, got, programs)
		}
		t.Logf("%s: %d", ext, exts[n])
	}
	for s, n := range shapes {
		if n == 0 {
			t.Errorf("no program has the shape %s", Shape(s))
		}
		t.Logf("%s: %d", Shape(s), n)
	}
	mean := float64(insns) / programs
	t.Logf("mean length %.1f", mean)
	if mean < 24 || mean > 34 {
		t.Errorf("the mean length is %.1f, want 24 to 34", mean)
	}
}

// TestMutateKeepsProgramsValid mutates programs, those that no checker accepts
// among them.
func TestMutateKeepsProgramsValid(t *testing.T) {
	cfg := Default()
	g := New(seed(t, 4), cfg)
	for _, s := range cfg.Corpus {
		if cfg.Features[s.Kind].Kind == Never {
			continue
		}
		for i := range 40 {
			checkAccepted(t, "mutated", cfg, g.Mutate(s.Program, cfg.Corpus[i%len(cfg.Corpus)].Program, s.Kind, uint64(i)))
		}
	}
}
