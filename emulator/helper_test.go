package emulator

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// seeded returns a random source, from KJIT_SEED if that is set.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KJIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomSkb is a packet in random parts. Mark is an offset near to one of its
// boundaries, Rxhash a small number.
func randomSkb(r *rand.Rand) *kernelabi.Skb {
	size := r.IntN(80)
	if r.IntN(20) == 0 {
		size = r.IntN(3 * pageSize)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	s := kernelabi.NewSkb(b)
	s.Headroom = r.IntN(40)
	s.MacHeader = r.IntN(60) - s.Headroom
	s.NetworkHeader = r.IntN(60) - s.Headroom
	switch r.IntN(3) {
	case 0:
		s = s.Split(r.IntN(size+1), 1+r.IntN(5), 1+r.IntN(3), 1+r.IntN(40))
	case 1:
		s = s.Split(r.IntN(size+1), 1, 1, 1, 1, 1, 1)
	}
	around := []int{0, s.Headlen, size, -0x100000, -0x200000, -0x100000 + s.Headlen - s.NetworkHeader, -0x200000 + s.Headlen - s.MacHeader,
		-0x100000 - s.NetworkHeader - s.Headroom, -0x200000 - s.MacHeader - s.Headroom, 1<<31 - 1, -1 << 31, r.IntN(size + 1), int(r.Uint32())}
	s.Mark = uint32(around[r.IntN(len(around))] + r.IntN(13) - 6)
	s.Rxhash = r.Uint32()
	if r.IntN(2) == 0 {
		s.Rxhash = uint32(r.IntN(16))
	}
	return s
}

// poisonA marks a result, so that the error exit (0) can be told from a load of 0.
const mark = 0x5a5a5a5a

// frame is a filter that calls a load helper with esi = skb->mark and
// ebx = skb->rxhash, A = 0x11223344. It returns the result with a mark, or
// 0xbad if a register was not preserved. done turns what the helper returned
// into eax.
func frame(p *kernelabi.Profile, helper string, done func(b *x86.Buf)) []byte {
	var a x86.Asm
	bad, out := a.NewLabel(), a.NewLabel()
	a.Push(x86.BP)
	a.Mov(x86.W64, x86.R(x86.BP), x86.SP)
	a.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), 96)
	a.Mov(x86.W64, x86.At(x86.BP, -8), x86.BX)
	a.MovImm(x86.W32, x86.At(x86.BP, -16), 0x600d) // M[0], beside the scratch word
	a.Load(x86.W32, x86.R9, skbField(p, kernelabi.SkbLen))
	a.AluLoad(x86.Sub, x86.W32, x86.R9, skbField(p, kernelabi.SkbDataLen))
	a.Load(x86.W64, x86.R8, skbField(p, kernelabi.SkbData))
	a.Load(x86.W32, x86.SI, skbField(p, kernelabi.SkbMark))
	a.Load(x86.W32, x86.BX, skbField(p, kernelabi.SkbRxhash))
	a.MovImm32(x86.AX, 0x11223344)
	a.Call(p.Symbols[helper])
	a.AluLoad(x86.Cmp, x86.W64, x86.R8, skbField(p, kernelabi.SkbData))
	a.Jcc(x86.CondNE, bad)
	a.AluLoad(x86.Add, x86.W32, x86.R9, skbField(p, kernelabi.SkbDataLen))
	a.AluLoad(x86.Cmp, x86.W32, x86.R9, skbField(p, kernelabi.SkbLen))
	a.Jcc(x86.CondNE, bad)
	a.AluImm(x86.Cmp, x86.W32, x86.At(x86.BP, -16), 0x600d)
	a.Jcc(x86.CondNE, bad)
	done(&a.Buf)
	a.AluImm(x86.Xor, x86.W32, x86.R(x86.AX), mark)
	a.Bind(out)
	a.Load(x86.W64, x86.BX, x86.At(x86.BP, -8))
	a.Bare(x86.Leave + x86.Ret)
	a.Bind(bad)
	a.MovImm32(x86.AX, 0xbad)
	a.Jmp(out)
	b, err := a.Bytes(p.Base)
	if err != nil {
		panic(err)
	}
	return b
}

// wantLoad is what such a filter returns.
func wantLoad(s *kernelabi.Skb, offset uint32, size int) uint32 {
	v := kernelabi.SkbView{Skb: s}
	value, ok := v.Load(offset, size)
	if !ok {
		return 0
	}
	return value ^ mark
}

func TestLoadHelpers(t *testing.T) {
	r := seeded(t)
	sizes := map[string]int{"word": 4, "half": 2, "byte": 1}
	for _, name := range []string{"linux-3.0-x86_64", "linux-3.10-x86_64"} {
		p := profile(t, name)
		m := newMachine(t, p)
		for symbol := range p.Symbols {
			parts := strings.TrimPrefix(symbol, "sk_load_")
			if parts == symbol {
				continue
			}
			msh := strings.HasPrefix(parts, "byte_msh")
			size := sizes[parts[:4]]
			negative := strings.HasSuffix(parts, "_negative_offset")
			positive := strings.HasSuffix(parts, "_positive_offset")
			ind := strings.HasSuffix(parts, "_ind")
			old := name == "linux-3.0-x86_64"
			t.Run(name+"/"+symbol, func(t *testing.T) {
				image := frame(p, symbol, func(b *x86.Buf) {
					if msh { // A ^ X
						b.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.BX)
					} else { // X is in place
						b.Alu(x86.Xor, x86.W32, x86.R(x86.AX), x86.BX)
						b.AluLoad(x86.Xor, x86.W32, x86.AX, skbField(p, kernelabi.SkbRxhash))
					}
				})
				var inputs []kernelabi.Input
				var want []uint32
				for range 3000 {
					s := randomSkb(r)
					k := int32(s.Mark)
					switch {
					case (positive || old && !ind) && k < 0:
						k &= 0x3f
					case negative && (k >= 0 || k < -0x200000):
						k = -0x200000 + k&0x3f
					}
					s.Mark = uint32(k)
					offset := s.Mark
					if ind {
						offset += s.Rxhash
					}
					w := wantLoad(s, offset, size)
					if ind && int32(offset) < 0 {
						w = 0 // 3.0 has no such loads
					}
					if msh && w != 0 {
						w = ((w^mark)&15)<<2 ^ 0x11223344 ^ mark
					}
					inputs, want = append(inputs, s), append(want, w)
				}
				loads := 0
				for i, got := range run(t, m, image, inputs...) {
					if got.Fault != nil || got.Broken != 0 || got.Value != want[i] || got.Inexact {
						t.Fatalf("offset %#x of %+v: %+v (%v), want %#x", inputs[i].(*kernelabi.Skb).Mark, inputs[i], got, got.Fault, want[i])
					}
					if want[i] != 0 {
						loads++
					}
				}
				if loads < 100 {
					t.Errorf("only %d of %d loads succeed: the test is blind", loads, len(want))
				}
			})
		}
	}
}

// TestSkbCopyBits calls the C functions behind the helpers directly.
func TestSkbCopyBits(t *testing.T) {
	r := seeded(t)
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	for size := int32(1); size <= 4; size++ {
		copyBits := code(func(b *x86.Buf) {
			var a x86.Asm
			a.AluImm8(x86.Sub, x86.W64, x86.R(x86.SP), 24)
			a.MovImm(x86.W32, x86.At8(x86.SP, 8), 0)
			a.Load(x86.W32, x86.SI, skbField(p, kernelabi.SkbMark))
			a.Lea(x86.W64, x86.DX, x86.At(x86.SP, 8))
			a.MovImm32(x86.CX, uint32(size))
			a.Call(p.Symbols["skb_copy_bits"])
			a.AluLoad(x86.Xor, x86.W32, x86.AX, x86.At(x86.SP, 8))
			a.AluImm8(x86.Add, x86.W64, x86.R(x86.SP), 24)
			a.Bare(x86.Ret)
			out, err := a.Bytes(p.Base)
			if err != nil {
				t.Fatal(err)
			}
			b.Raw(out...)
		})
		pointer := code(func(b *x86.Buf) {
			var a x86.Asm
			null := a.NewLabel()
			a.Push(x86.DI)
			a.Load(x86.W32, x86.SI, skbField(p, kernelabi.SkbMark))
			a.MovImm32(x86.DX, uint32(size))
			a.Call(p.Symbols["bpf_internal_load_pointer_neg_helper"])
			a.Pop(x86.DI)
			a.Test(x86.W64, x86.R(x86.AX), x86.AX)
			a.Jcc(x86.CondE, null)
			a.AluLoad(x86.Sub, x86.W64, x86.AX, skbField(p, kernelabi.SkbData))
			a.AluImm(x86.Add, x86.W64, x86.R(x86.AX), 0x10000)
			a.Bind(null)
			a.Bare(x86.Ret)
			out, err := a.Bytes(p.Base)
			if err != nil {
				t.Fatal(err)
			}
			b.Raw(out...)
		})
		var inputs []kernelabi.Input
		for range 6000 {
			s := randomSkb(r)
			if r.IntN(2) == 0 {
				s.Mark = uint32(r.IntN(2*len(s.Packet)+20) - 20 - s.Headroom)
			}
			inputs = append(inputs, s)
		}
		found := [2]int{}
		for i, got := range run(t, m, copyBits, inputs...) {
			s := inputs[i].(*kernelabi.Skb)
			to := make([]byte, 4)
			want := uint32(0xfffffff2)
			if s.CopyBits(int32(s.Mark), to[:size]) {
				want = uint32(to[0]) | uint32(to[1])<<8 | uint32(to[2])<<16 | uint32(to[3])<<24
				found[0]++
			}
			if got.Value != want || got.Fault != nil || got.Broken != 0 {
				t.Fatalf("skb_copy_bits of %d at %d: %+v (%v), want %#x; %+v", size, int32(s.Mark), got, got.Fault, want, s)
			}
		}
		for i, got := range run(t, m, pointer, inputs...) {
			s := inputs[i].(*kernelabi.Skb)
			want := uint32(0)
			if pos, ok := s.LoadPointerNeg(int32(s.Mark), int(size)); ok && int32(s.Mark) < 0 {
				want = uint32(pos + 0x10000)
				found[1]++
			} else if int32(s.Mark) >= 0 {
				continue // never called so
			}
			if got.Value != want || got.Fault != nil || got.Broken != 0 {
				t.Fatalf("neg helper of %d at %d: %+v (%v), want %#x; %+v", size, int32(s.Mark), got, got.Fault, want, s)
			}
		}
		if found[0] < 100 || found[1] < 100 {
			t.Errorf("only %v accesses of %d succeed: the test is blind", found, len(inputs))
		}
	}
}

// TestLaterHelpers: the load helpers of kernels whose JIT inlines the fast path.
func TestLaterHelpers(t *testing.T) {
	r := seeded(t)
	for _, name := range []string{"linux-6.1-x86_64", "linux-6.18-x86_64"} {
		t.Run(name, func(t *testing.T) { testLaterHelpers(t, r, profile(t, name)) })
	}
}

func testLaterHelpers(t *testing.T, r *rand.Rand, p *kernelabi.Profile) {
	p = p.WithSymbols(map[string]uint64{
		"bpf_skb_load_helper_8_no_cache": 0xffffffff81701000, "bpf_skb_load_helper_16_no_cache": 0xffffffff81701100,
		"bpf_skb_load_helper_32_no_cache": 0xffffffff81701200,
		"bpf_user_rnd_u32":                0xffffffff81701300,
		"bpf_skb_get_pay_offset":          0xffffffff81701400,
		"bpf_unheard_of":                  0xffffffff81701500,
		"bpf_skb_load_helper_8":           0xffffffff81700000, "bpf_skb_load_helper_16": 0xffffffff81700100,
		"bpf_skb_load_helper_32": 0xffffffff81700200, "bpf_get_raw_cpu_id": 0xffffffff81700300,
		"srso_alias_return_thunk": 0xffffffff81700400, "__x86_return_thunk": 0xffffffff81700400,
	})
	m := newMachine(t, p)
	for _, size := range []int{1, 2, 4} {
		for _, cached := range []bool{true, false} {
			helper := "bpf_skb_load_helper_" + strconv.Itoa(8*size)
			var a x86.Asm
			a.Push(x86.BX)
			if cached {
				a.Load(x86.W64, x86.SI, skbField(p, kernelabi.SkbData))
				a.Load(x86.W32, x86.DX, skbField(p, kernelabi.SkbLen))
				a.AluLoad(x86.Sub, x86.W32, x86.DX, skbField(p, kernelabi.SkbDataLen))
				a.Load(x86.W32, x86.CX, skbField(p, kernelabi.SkbMark))
			} else {
				helper += "_no_cache"
				a.Load(x86.W32, x86.SI, skbField(p, kernelabi.SkbMark))
			}
			a.Call(p.Symbols[helper])
			a.Pop(x86.BX)
			a.JmpTo(p.Symbols["srso_alias_return_thunk"])
			image, err := a.Bytes(p.Base)
			if err != nil {
				t.Fatal(err)
			}
			var inputs []kernelabi.Input
			for range 2000 {
				inputs = append(inputs, randomSkb(r))
			}
			found := 0
			for i, got := range run(t, m, image, inputs...) {
				s := inputs[i].(*kernelabi.Skb)
				want, ok := (&kernelabi.SkbView{Skb: s, Semantics: p.Semantics}).Load(s.Mark, size)
				if ok {
					found++
				} else {
					want = 0xfffffff2
				}
				if got.Value != want || got.Fault != nil || got.Broken != 0 {
					t.Fatalf("%s: %d bytes at %d: %+v (%v), want %#x; %+v", helper, size, int32(s.Mark), got, got.Fault, want, s)
				}
			}
			if found < 100 {
				t.Errorf("%s: only %d loads succeed: the test is blind", helper, found)
			}
		}
	}
	s := kernelabi.NewSkb(make([]byte, 60))
	copy(s.Packet[12:], "\x08\x00\x45")
	s.Protocol, s.CPU, s.Random = 0x0800, 5, 0x12345678
	for symbol, want := range map[string]uint32{"bpf_get_raw_cpu_id": 5, "bpf_user_rnd_u32": 0x12345678, "bpf_skb_get_pay_offset": s.PayOffset()} {
		var a x86.Asm
		a.JmpTo(p.Symbols[symbol])
		image, err := a.Bytes(p.Base)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, m, image, s)[0]; got.Value != want || got.Fault != nil || got.Broken != 0 || want == 0 {
			t.Errorf("%s: %+v (%v), want %#x", symbol, got, got.Fault, want)
		}
	}
	if missing := m.Missing(); !slices.Equal(missing, []string{"bpf_unheard_of"}) {
		t.Errorf("missing routines: %q", missing)
	}
}
