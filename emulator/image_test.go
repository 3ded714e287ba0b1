package emulator

import (
	"errors"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// TestCodeIsNeverStale replaces images at one address and at others, by larger
// and smaller ones.
func TestCodeIsNeverStale(t *testing.T) {
	r := seeded(t)
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	bases := []uint64{p.Base, p.Base, p.Base, p.Base + 0xc8f, p.Base + 5*pageSize, 0xffffffffa0069c8f, 0x7ffff0000000}
	// More images than there are frames for.
	for i := range uint32(3000) {
		size := []int{0, 0, 0, 100, pageSize - 1, pageSize, 3*pageSize + 7}[r.IntN(7)]
		image := code(func(b *x86.Buf) { // over a body that does not run to the end
			b.JmpNear(int32(size))
			for range size {
				b.Bare(x86.Int3)
			}
			b.MovImm32(x86.AX, i)
			b.Bare(x86.Ret)
		})
		if err := m.Load(&kernelabi.Image{Code: image, Base: bases[r.IntN(len(bases))]}); err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			continue // loaded and never run
		}
		results, err := m.Run([]kernelabi.Input{kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range results {
			if want := (Result{Value: i, Insns: 3}); got != want {
				t.Fatalf("image %d of %d bytes: %+v (%v), want %+v", i, len(image), got, got.Fault, want)
			}
		}
	}
}

// TestImagesEverywhere fills the page tables.
func TestImagesEverywhere(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	for i := range uint64(400) {
		base := 0xffff900000000000 + i<<39 + i<<30 + i<<21 + i
		if i%3 == 0 {
			base = 0x100000 + i<<30 + i<<21
		}
		if !canonical(base) || base > 0xfffffffffff00000 {
			base = 0x200000 + i<<31 + i<<22
		}
		if err := m.Load(&kernelabi.Image{Code: returning(uint32(i)), Base: base}); err != nil {
			t.Fatal(err)
		}
		results, err := m.Run([]kernelabi.Input{kernelabi.NewSkb(nil)}, nil)
		if err != nil || results[0] != (Result{Value: uint32(i), Insns: 2}) {
			t.Fatalf("image %d at %#x: %+v, %v", i, base, results, err)
		}
	}
}

func TestLargeImage(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	const n = 300 << 10
	image := code(func(b *x86.Buf) {
		for range n {
			b.Bare(x86.Nop)
		}
		b.Bare(x86.Ret)
	})
	for _, r := range run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)) {
		if r.Insns != n+1 || r.Fault != nil || r.Inexact {
			t.Errorf("%+v (%v), want %d instructions", r, r.Fault, n+1)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	arm := *p
	arm.Arch = kernelabi.ARMv7
	ret := []byte{0xc3}
	for _, test := range []struct {
		desc  string
		image *kernelabi.Image
		want  string
	}{
		{"no image", nil, "empty"},
		{"no code", &kernelabi.Image{Base: p.Base}, "empty"},
		{"too large", &kernelabi.Image{Code: make([]byte, maxImage+1), Base: p.Base}, "at most 1048576"},
		{"base 0", &kernelabi.Image{Code: ret}, "first 64 KiB"},
		{"a base that is not canonical", &kernelabi.Image{Code: ret, Base: 0x800000000000}, "canonical"},
		{"an end that is not canonical", &kernelabi.Image{Code: make([]byte, 5000), Base: 0x7ffffffff000}, "canonical"},
		{"the end of the address space", &kernelabi.Image{Code: ret, Base: ^uint64(0)}, "canonical"},
		{"over a symbol", &kernelabi.Image{Code: ret, Base: p.Symbols["sk_load_word"]}, "overlaps the kernel's text"},
		{"next to a symbol's page", &kernelabi.Image{Code: ret, Base: p.Symbols["sk_load_word"] - pageSize}, "overlaps the kernel's text"},
		{"over the stack", &kernelabi.Image{Code: ret, Base: m.va.page(m.plan.stack)}, "overlaps"},
		{"over everything of the harness", &kernelabi.Image{Code: make([]byte, maxImage), Base: m.va.base - 100}, "overlaps"},
		{"another architecture", &kernelabi.Image{Code: ret, Base: p.Base, Profile: &arm}, "armv7"},
	} {
		err := m.Load(test.image)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.desc, err, test.want)
		}
	}
	if _, err := m.Run(nil, nil); !errors.Is(err, errEmpty) {
		t.Errorf("run without an image: %v", err)
	}
}
