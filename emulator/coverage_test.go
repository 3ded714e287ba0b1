package emulator

import (
	"slices"
	"testing"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// branching is code of two instructions of a program, of which the first jumps
// over the second when the packet is empty, behind some padding.
func branching(p *kernelabi.Profile, padding int, rules ...uint32) *kernelabi.Image {
	var img kernelabi.Image
	img.Code = armAsm(func(a *arm.Asm) {
		for range padding {
			a.Nop()
		}
		img.PCMap = append(img.PCMap, 4*padding)
		end := a.NewLabel()
		a.Ldr(arm.AL, arm.R1, armField(p, kernelabi.SkbLen))
		a.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
		a.Branch(arm.EQ, end)
		img.PCMap = append(img.PCMap, 4*(padding+3))
		a.Mov(arm.AL, arm.R0, arm.Imm(1))
		a.Bind(end)
		img.PCMap = append(img.PCMap, 4*(padding+4))
		a.Bx(arm.AL, arm.LR)
	})
	img.Base, img.Rules = p.Base, rules
	if rules == nil {
		img.PCMap = nil
	}
	return &img
}

// Edges are new only where code is, not where it lies.
func TestEdges(t *testing.T) {
	p := profile(t, "kjit-armv7")
	m := newMachine(t, p, WithCoverage())
	empty, full := kernelabi.NewSkb(nil), kernelabi.NewSkb(make([]byte, 20))
	elsewhere := branching(p, 0)
	elsewhere.Base += 3*pageSize + 64
	before := uint64(0)
	for _, test := range []struct {
		desc  string
		image *kernelabi.Image
		input kernelabi.Input
		new   uint64
	}{
		{"entering and leaving", branching(p, 0), empty, 2},
		{"the same again", branching(p, 0), empty, 0},
		{"the other side of the branch", branching(p, 0), full, 1},
		{"the same elsewhere", elsewhere, full, 0},
		{"other offsets", branching(p, 5), full, 1},
		{"the same offsets, of known rules", branching(p, 1, 70, 71), full, 2},
		{"other offsets, of the same rules", branching(p, 2, 70, 71), full, 0},
		{"other rules", branching(p, 2, 70, 72), full, 1},
	} {
		if err := m.Load(test.image); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Run([]kernelabi.Input{test.input, test.input}, nil); err != nil {
			t.Fatal(err)
		}
		if got := m.NewEdges() - before; got != test.new {
			t.Errorf("%s: %d new edges, want %d", test.desc, got, test.new)
		}
		before = m.NewEdges()
	}
	seen := 0
	for _, b := range m.EdgeMap() {
		seen += int(b)
	}
	if uint64(seen) != before {
		t.Errorf("the map has %d edges, %d were new", seen, before)
	}

	// What is set in a map is not new.
	other := newMachine(t, p, WithCoverage())
	copy(other.EdgeMap(), m.EdgeMap())
	if err := other.Load(elsewhere); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Run([]kernelabi.Input{empty, full}, nil); err != nil {
		t.Fatal(err)
	}
	if n := other.NewEdges(); n != 0 {
		t.Errorf("%d edges are new that the map had", n)
	}
	if !slices.Equal(other.EdgeMap(), m.EdgeMap()) {
		t.Error("the map has changed")
	}
}

// An engine that is replaced, because it has seen enough images or because code
// broke it, leaves nothing behind.
func TestRenewal(t *testing.T) {
	p := profile(t, "kjit-armv7")
	m := newMachine(t, p, WithCoverage(), WithAttribution())
	inputs := []kernelabi.Input{kernelabi.NewSkb(nil), kernelabi.NewSkb(make([]byte, 20))}
	img := branching(p, 0, 70, 71)
	edges, blocks := uint64(0), uint64(0)
	for i := range 3 {
		if i == 1 {
			m.loads = renewal
		}
		before := m.engine
		results, a := runAttributed(t, m, img, inputs...)
		if renewed := m.engine != before; renewed != (i == 1) {
			t.Errorf("load %d: the engine was replaced: %v", i, renewed)
		}
		if results[0].Insns != 4 || results[1].Value != 1 || results[1].Insns != 5 {
			t.Errorf("load %d: got %+v", i, results)
		}
		if a.Insns[0] != (Count{Runs: 2, Insns: 6}) || a.Insns[1] != (Count{Runs: 1, Insns: 1}) {
			t.Errorf("load %d: attribution %+v", i, a)
		}
		if i > 0 && m.NewEdges() != edges || m.Translated() <= blocks {
			t.Errorf("load %d: %d edges after %d, %d blocks after %d", i, m.NewEdges(), edges, m.Translated(), blocks)
		}
		edges, blocks = m.NewEdges(), m.Translated()
	}
}
