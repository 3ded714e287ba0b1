package emulator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestARMFaultsInABatch(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		image := armAsm(func(a *arm.Asm) { // the mark, or a breakpoint if it is 0
			out := a.NewLabel()
			a.Ldr(arm.AL, arm.R0, armField(p, kernelabi.SkbMark))
			a.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
			a.Branch(arm.NE, out)
			a.Bare(arm.Bkpt)
			a.Bind(out)
			a.Bx(arm.AL, arm.LR)
		})
		for _, zeros := range [][]int{nil, {0}, {63}, {64}, {199}, {0, 1, 2, 3}, {62, 63, 64, 65}, {100, 150, 198}} {
			var inputs []kernelabi.Input
			for i := range 200 {
				s := kernelabi.NewSkb(make([]byte, i%70))
				s.Mark = uint32(i + 1)
				if slices.Contains(zeros, i) {
					s.Mark = 0
				}
				inputs = append(inputs, s)
			}
			for i, r := range run(t, m, image, inputs...) {
				want := Result{Value: uint32(i + 1), Insns: 4}
				if slices.Contains(zeros, i) {
					if r.Fault == nil || r.Fault.Kind != Breakpoint {
						t.Fatalf("zeros at %v: input %d: %+v", zeros, i, r)
					}
					r.Fault = nil
					want = Result{Insns: 3}
				}
				if r != want {
					t.Fatalf("zeros at %v: input %d: %+v (%v), want %+v", zeros, i, r, r.Fault, want)
				}
			}
		}
	})
}

// TestARMFields reads every field of the structs that a layout has, and what
// surrounds pointers.
func TestARMFields(t *testing.T) {
	s := kernelabi.NewSkb(make([]byte, 300)).Split(100)
	s.Headroom, s.MacHeader, s.NetworkHeader = 64, -14, 20
	s.Protocol, s.PktType, s.Mark, s.Rxhash, s.Queue = 0x0806, 5, 0x01020304, 0x05060708, 0x090a
	s.VlanTCI, s.VlanPresent, s.Ifindex, s.DevType = 0x2bcd, true, 0x11121314, 0x1516
	for _, name := range []string{"linux-3.12-armv5", "linux-4.5-armv7"} {
		p := profile(t, name)
		m := newMachine(t, p)
		data := m.packets.small[0].va + pageSize - 100
		want := map[string]uint32{
			kernelabi.SkbLen: 300, kernelabi.SkbDataLen: 200, kernelabi.SkbProtocol: 0x0608, kernelabi.SkbPktType: 0xed,
			kernelabi.SkbMark: 0x01020304, kernelabi.SkbRxhash: 0x05060708, kernelabi.SkbQueue: 0x090a, kernelabi.SkbVlanTCI: 0x3bcd,
			kernelabi.SkbHead: uint32(data - 64), kernelabi.SkbData: uint32(data), kernelabi.SkbDev: uint32(m.packets.slots[0].dev),
			kernelabi.DevIfindex: 0x11121314, kernelabi.DevType: 0x1516,
		}
		small := map[string]int{kernelabi.SkbProtocol: 2, kernelabi.SkbPktType: 1, kernelabi.SkbQueue: 2, kernelabi.SkbVlanTCI: 2, kernelabi.DevType: 2}
		for field, off := range p.Layout {
			if field == kernelabi.ThreadInfoCPU {
				continue
			}
			image := armAsm(func(a *arm.Asm) {
				if strings.HasPrefix(field, "net_device.") {
					a.Ldr(arm.AL, arm.R0, armField(p, kernelabi.SkbDev))
				}
				a.Const(arm.AL, arm.R1, uint32(off))
				switch small[field] {
				case 1:
					a.Ldrb(arm.AL, arm.R0, arm.Indexed(arm.R0, arm.R1))
				case 2:
					a.Ldrh(arm.AL, arm.R0, arm.Indexed(arm.R0, arm.R1))
				default:
					a.Ldr(arm.AL, arm.R0, arm.Indexed(arm.R0, arm.R1))
				}
				a.Bx(arm.AL, arm.LR)
			})
			if got := run(t, m, image, s)[0]; got.Value != want[field] || got.Fault != nil {
				t.Errorf("%s: %s is %#x (%v), want %#x", name, field, got.Value, got.Fault, want[field])
			}
		}
		behind := armCode(func(b *arm.Buf) {
			b.Ldr(arm.AL, arm.R0, arm.At(arm.R0, int32(p.Layout[kernelabi.SkbDev]+4)))
			b.Bx(arm.AL, arm.LR)
		})
		if got := run(t, m, behind, s)[0]; got.Value != 0x01010101*poisonByte {
			t.Errorf("%s: what follows sk_buff.dev is %#x, want poison", name, got.Value)
		}
	}
}

// TestARMProcessorNumber finds struct thread_info as compiled code does.
func TestARMProcessorNumber(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		image := armAsm(func(a *arm.Asm) {
			a.Const(arm.AL, arm.R0, 0x1fff)
			a.Alu(arm.AL, arm.Bic, arm.R0, arm.SP, arm.R(arm.R0))
			a.Ldr(arm.AL, arm.R0, arm.At(arm.R0, int32(p.Layout[kernelabi.ThreadInfoCPU])))
			a.Bx(arm.AL, arm.LR)
		})
		var inputs []kernelabi.Input
		for i := range 150 {
			s := kernelabi.NewSkb(nil)
			s.CPU = uint32(i / 40 * 3)
			inputs = append(inputs, s)
		}
		for i, r := range run(t, m, image, inputs...) {
			if want := (Result{Value: uint32(i / 40 * 3), Insns: 4}); r != want {
				t.Fatalf("input %d: %+v (%v), want %+v", i, r, r.Fault, want)
			}
		}
	})
}

func TestARMCodeIsNeverStale(t *testing.T) {
	r := seeded(t)
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		bases := []uint64{p.Base, p.Base, p.Base, p.Base + 0xc8c, p.Base + 5*pageSize, 0xbf069c8c, 0x10000}
		for i := range uint32(3000) {
			size := []int{0, 0, 0, 100, pageSize - 4, pageSize, 3*pageSize + 8}[r.IntN(7)] &^ 3
			image := armAsm(func(a *arm.Asm) { // over a body that does not run to the end
				a.B(arm.AL, int32(size)-4)
				for range size / 4 {
					a.Bare(arm.Bkpt)
				}
				a.Const(arm.AL, arm.R0, i)
				a.Bx(arm.AL, arm.LR)
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
	})
}

// TestARMImagesEverywhere fills the page tables.
func TestARMImagesEverywhere(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		for i := range uint64(1500) {
			base := 0x10000 + i<<20 + i*4
			if err := m.Load(&kernelabi.Image{Code: armReturning(uint32(i)), Base: base}); err != nil {
				t.Fatal(err)
			}
			results, err := m.Run([]kernelabi.Input{kernelabi.NewSkb(nil)}, nil)
			if err != nil || results[0] != (Result{Value: uint32(i), Insns: 2}) {
				t.Fatalf("image %d at %#x: %+v, %v", i, base, results, err)
			}
		}
	})
}

func TestARMLargePackets(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		checkLargePackets(t, newMachine(t, p), armHelperCall(p, "jit_get_skb_w"))
	})
}

func TestARMLoadErrors(t *testing.T) {
	p := profile(t, "linux-4.5-armv7")
	m := newMachine(t, p)
	other := *p
	other.Arch = kernelabi.ARMv5
	ret := armReturning(1)
	for _, test := range []struct {
		desc  string
		image *kernelabi.Image
		want  string
	}{
		{"base 0", &kernelabi.Image{Code: ret}, "first 64 KiB"},
		{"an odd base", &kernelabi.Image{Code: ret, Base: p.Base + 2}, "multiples of 4"},
		{"a base of 64 bits", &kernelabi.Image{Code: ret, Base: 1<<32 + p.Base}, "32-bit"},
		{"the end of the address space", &kernelabi.Image{Code: ret, Base: 1<<32 - pageSize}, "32-bit"},
		{"over a symbol", &kernelabi.Image{Code: ret, Base: p.Symbols["jit_udiv"]}, "overlaps the kernel's text"},
		{"over the stack", &kernelabi.Image{Code: ret, Base: m.va.page(m.plan.stack)}, "overlaps"},
		{"another architecture", &kernelabi.Image{Code: ret, Base: p.Base, Profile: &other}, "armv5"},
	} {
		err := m.Load(test.image)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.desc, err, test.want)
		}
	}
}

func TestARMProfileErrors(t *testing.T) {
	p := profile(t, "linux-4.5-armv7")
	helpers := *p
	helpers.LoadHelpers = "linux-9.9"
	for _, test := range []struct {
		desc    string
		profile *kernelabi.Profile
		want    string
	}{
		{"two symbols at one address", p.WithSymbols(map[string]uint64{"jit_mod": p.Symbols["jit_udiv"]}), "are both at"},
		{"a symbol 4 bytes behind another", p.WithSymbols(map[string]uint64{"jit_mod": p.Symbols["jit_udiv"] + 4}), "too near"},
		{"a symbol at an odd address", p.WithSymbols(map[string]uint64{"jit_mod": 0xc0700501}), "not an address"},
		{"a symbol of 64 bits", p.WithSymbols(map[string]uint64{"jit_mod": 0xffffffff81000000}), "not an address"},
		{"unknown helpers", &helpers, "load helpers"},
		{"a processor number outside thread_info", p.WithLayout(map[string]int{kernelabi.ThreadInfoCPU: 8192}), "thread_info.cpu"},
	} {
		m, err := New(test.profile)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.desc, err, test.want)
		}
	}
}

func TestARMNothingIsAllocated(t *testing.T) {
	p := profile(t, "linux-4.5-armv5")
	m := newMachine(t, p)
	if err := m.Load(&kernelabi.Image{Code: armFilter(p), Base: p.Base}); err != nil {
		t.Fatal(err)
	}
	inputs := postingPackets(200)
	var results []Result
	n := testing.AllocsPerRun(20, func() {
		var err error
		if results, err = m.Run(inputs, results); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per run, want 0", n)
	}
	for _, r := range results {
		if r.Value != 0x800 || r.Insns != 16 {
			t.Fatalf("%+v (%v), want 0x800 after 16 instructions", r, r.Fault)
		}
	}
}

func TestARMWatchdog(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p, WithBudget(1<<62), WithTimeout(20*time.Millisecond))
		good := kernelabi.NewSkb(nil)
		for _, r := range run(t, m, selfARMCode.endless, good, good) {
			if r.Fault == nil || r.Fault.Kind != Timeout || r.Fault.Offset != 0 {
				t.Errorf("an endless loop: %+v (%v)", r, r.Fault)
			}
		}
		if r := run(t, m, armReturning(3), good)[0]; r != (Result{Value: 3, Insns: 2}) {
			t.Errorf("afterwards: %+v (%v)", r, r.Fault)
		}
	})
}

// TestARMWild: code that changes the page table register or turns the MMU off
// costs its own input, not the batch.
func TestARMWild(t *testing.T) {
	for crn, value := range map[uint8]uint32{1: 0, 2: 0x40000000, 3: 0} {
		onARM(t, func(t *testing.T, p *kernelabi.Profile) {
			m := newMachine(t, p)
			good, bad := kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)
			bad.Mark = 1
			image := armAsm(func(a *arm.Asm) {
				out := a.NewLabel()
				a.Ldr(arm.AL, arm.R1, armField(p, kernelabi.SkbMark))
				a.Mov(arm.AL, arm.R0, arm.Imm(9))
				a.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
				a.Branch(arm.EQ, out)
				a.Const(arm.AL, arm.R2, value)
				a.Mcr(arm.AL, 15, 0, arm.R2, crn, 0, 0)
				a.Mcr(arm.AL, 15, 0, arm.R2, 8, 7, 0) // forget all pages
				a.Bind(out)
				a.Bx(arm.AL, arm.LR)
			})
			for i, r := range run(t, m, image, good, bad, good, bad, bad, good) {
				if i == 1 || i == 3 || i == 4 {
					if r.Fault == nil {
						t.Errorf("c%d: input %d returned %+v", crn, i, r)
					}
				} else if r != (Result{Value: 9, Insns: 5}) {
					t.Errorf("c%d: input %d: %+v (%v)", crn, i, r, r.Fault)
				}
			}
		})
	}
}

// TestARMTrace: A is r4 and X is r5.
func TestARMTrace(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p, WithTrace())
		image := armAsm(func(a *arm.Asm) {
			a.Push(arm.Regs(arm.R4, arm.R5))
			a.Mov(arm.AL, arm.R4, arm.Imm(1))
			a.Mov(arm.AL, arm.R5, arm.Imm(2))
			a.Pop(arm.Regs(arm.R4, arm.R5))
			a.Bx(arm.AL, arm.LR)
		})
		if err := m.Load(&kernelabi.Image{Code: image, Base: p.Base}); err != nil {
			t.Fatal(err)
		}
		steps, _, err := m.Trace(kernelabi.NewSkb(nil), 0)
		if err != nil {
			t.Fatal(err)
		}
		type seen struct {
			Offset int
			A, X   uint32
		}
		want := []seen{
			{0, 0xdead4444, 0xdead5555}, {4, 0xdead4444, 0xdead5555}, {8, 1, 0xdead5555},
			{12, 1, 2}, {16, 0xdead4444, 0xdead5555},
		}
		var got []seen
		for _, s := range steps {
			got = append(got, seen{s.Offset, s.A, s.X})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// What was pushed is on top of the stack.
		if diff := cmp.Diff([]uint32{0xdead4444, 0xdead5555}, steps[1].Stack[:2]); diff != "" {
			t.Errorf("stack (-want +got):\n%s", diff)
		}
		names := RegisterNames(p.Arch)
		if r4 := slices.Index(names, "r4"); steps[3].Registers[r4] != 1 {
			t.Errorf("r4 is %#x", steps[3].Registers[r4])
		}
		if sp := slices.Index(names, "sp"); steps[0].Registers[sp]-steps[1].Registers[sp] != 8 {
			t.Errorf("sp is %#x, then %#x", steps[0].Registers[sp], steps[1].Registers[sp])
		}
	})
}

// TestARMTailroom reads behind the packet, as the JITs before 4.2 do: the value
// that was measured for a packet of one byte.
func TestARMTailroom(t *testing.T) {
	p := profile(t, "linux-3.12-armv5")
	image := armCode(func(b *arm.Buf) {
		b.Ldr(arm.AL, arm.R0, armField(p, kernelabi.SkbData))
		b.Ldrb(arm.AL, arm.R1, arm.At(arm.R0, 0))
		b.Ldrb(arm.AL, arm.R2, arm.At(arm.R0, 15))
		b.Alu(arm.AL, arm.Add, arm.R0, arm.R2, arm.Shifted(arm.R1, arm.LSL, 24))
		b.Bx(arm.AL, arm.LR)
	})
	long := kernelabi.NewSkb(make([]byte, 5000))
	m := newMachine(t, p, WithTailroom(15))
	for _, s := range []*kernelabi.Skb{kernelabi.NewSkb([]byte{8}), long, kernelabi.NewSkb([]byte{8})} {
		want := Result{Value: uint32(s.Packet[0]) << 24, Insns: 5}
		if got := run(t, m, image, s)[0]; got != want {
			t.Errorf("%d bytes: %+v (%v), want %+v", len(s.Packet), got, got.Fault, want)
		}
	}
	if got := run(t, m, image, kernelabi.NewSkb(nil))[0]; got.Fault == nil || got.Fault.Kind != NotPresent {
		t.Errorf("the byte behind the tailroom: %+v", got)
	}
}
