package emulator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// sum is all that an attribution counts.
func (a Attribution) sum() (n uint64) {
	for _, c := range append(a.Insns, a.Prologue, a.Epilogue) {
		n += c.Insns + c.Called
	}
	return n
}

// runAttributed loads an image, runs it and returns the attribution, whose sum
// has to be that of the results.
func runAttributed(t *testing.T, m *Machine, img *kernelabi.Image, inputs ...kernelabi.Input) ([]Result, Attribution) {
	t.Helper()
	if err := m.Load(img); err != nil {
		t.Fatal(err)
	}
	results, err := m.Run(inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.Attribution()
	if err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for i, r := range results {
		if r.Inexact {
			t.Errorf("input %d is inexact: %v", i, r.Fault)
		}
		total += r.Insns
	}
	if a.sum() != total {
		t.Errorf("%d instructions are attributed, %d were executed: %+v", a.sum(), total, a)
	}
	return results, a
}

func TestAttribution(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p, WithAttribution())
	helper := p.Symbols["sk_load_byte"]
	var pcs []int
	image := code(func(b *x86.Buf) {
		next := func() { pcs = append(pcs, len(*b)) }
		b.Bare(x86.Nop)
		next() // 0: the length
		b.Load(x86.W32, x86.AX, skbField(p, kernelabi.SkbLen))
		next() // 1: is it 59?
		b.AluAcc(x86.Cmp, x86.W32, 59)
		b.JccShort(x86.CondE, 0) // to the end
		jump := len(*b)
		next() // 2: a load from address 0
		b.MovImm64(x86.AX, helper)
		b.Alu(x86.Xor, x86.W32, x86.R(x86.SI), x86.SI)
		b.Alu(x86.Xor, x86.W32, x86.R(x86.R8), x86.R8)
		b.MovImm32(x86.R9, 1)
		b.CallRM(x86.R(x86.AX))
		next()
		(*b)[jump-1] = byte(len(*b) - jump)
		b.Bare(x86.Ret)
	})
	img := &kernelabi.Image{Base: p.Base, Code: image, PCMap: pcs}
	long, short := kernelabi.NewSkb(make([]byte, 60)), kernelabi.NewSkb(make([]byte, 59))
	results, a := runAttributed(t, m, img, short, long, short, short)
	if f := results[1].Fault; f == nil || f.Kind != NotPresent {
		t.Errorf("the second packet gave %+v, want a fault", results[1])
	}
	want := Attribution{
		Prologue: Count{Runs: 4, Insns: 4},
		Insns:    []Count{{Runs: 4, Insns: 4}, {Runs: 4, Insns: 8}, {Runs: 1, Insns: 5, Called: 4}},
		Epilogue: Count{Runs: 3, Insns: 3},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Nothing of it is left for the next image, which has no map.
	_, a = runAttributed(t, m, &kernelabi.Image{Base: p.Base + 5*pageSize, Code: returning(7)}, long, long)
	if diff := cmp.Diff(Attribution{Prologue: Count{Runs: 2, Insns: 4}}, a); diff != "" {
		t.Errorf("the next image (-want +got):\n%s", diff)
	}
}

// Whatever ends an input, what it executed is known to the instruction, and
// where.
func TestAttributionOfFaults(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p, WithAttribution(), WithBudget(50))
		for _, test := range []struct {
			desc string
			emit func(a *arm.Asm)
			want []Count
		}{
			{"a load that faults in the middle of a block", func(a *arm.Asm) {
				a.Nop()
				a.Nop()
				a.Mov(arm.AL, arm.R1, arm.Imm(0))
				a.Ldr(arm.AL, arm.R0, arm.At(arm.R1, 0))
				a.Nop()
			}, []Count{{Runs: 3, Insns: 6}, {Runs: 3, Insns: 3}}},
			{"an endless loop", func(a *arm.Asm) {
				a.Nop()
				a.Nop()
				a.Nop()
				a.B(arm.AL, -12)
			}, []Count{{Runs: 3, Insns: 6}, {Runs: 3 * 50, Insns: 3 * 2 * 50}}},
			{"an undefined instruction", func(a *arm.Asm) {
				a.Nop()
				a.Nop()
				a.Nop()
				a.Bare(arm.Udf)
			}, []Count{{Runs: 3, Insns: 6}, {Runs: 3, Insns: 3}}},
		} {
			img := &kernelabi.Image{Base: p.Base, Code: armAsm(test.emit), PCMap: []int{0, 8, 20}}
			in := kernelabi.NewSkb(make([]byte, 60))
			_, a := runAttributed(t, m, img, in, in, in)
			if diff := cmp.Diff(test.want, a.Insns); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.desc, diff)
			}
		}
	})
}

// TestAttributionOfUndecoded: the disassembler here does not know ENDBR64, the engine
// does. Whatever of the block is behind it is counted with it.
func TestAttributionOfUndecoded(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p, WithAttribution())
	image := &kernelabi.Image{
		Code: unhex("f30f1efa" + "90" + "90" + "31c0" + "c3"), // endbr64; nop; nop; xor eax, eax; ret
		Base: p.Base, PCMap: []int{4, 5, 6, 8},
	}
	if results, _ := runAttributed(t, m, image, kernelabi.NewSkb(make([]byte, 60))); results[0].Insns != 5 {
		t.Errorf("%d instructions, want 5", results[0].Insns)
	}
}

// TestAttributionOfWhatRunsAgain: counts of a window that is run once more, and of a
// fault in front of what cannot be decoded, still add up.
func TestAttributionOfWhatRunsAgain(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	s := kernelabi.NewSkb(make([]byte, 60))
	for _, test := range []struct{ desc, code string }{
		{"prefetch; mov eax, [0], which faults; prefetch; ret", "0f0d00" + "8b042500000000" + "0f0d00" + "c3"},
		{"code that clears CR0.WP", "0f20c0" + "480fbaf010" + "0f22c0" + "b807000000" + "c3"},
		{"code that sets CR3", "48b80000000000010000" + "0f22d8" + "c3"},
	} {
		t.Run(test.desc, func(t *testing.T) {
			m := newMachine(t, p, WithAttribution())
			runAttributed(t, m, &kernelabi.Image{Code: unhex(test.code), Base: p.Base}, s, s, s)
		})
	}
}
