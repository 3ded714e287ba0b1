package emulator

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestFaultsInABatch(t *testing.T) {
	p := profile(t, "linux-3.0-x86_64")
	m := newMachine(t, p)
	image := code(func(b *x86.Buf) { // 1000 / mark
		b.Alu(x86.Xor, x86.W32, x86.R(x86.DX), x86.DX)
		b.MovImm32(x86.AX, 1000)
		b.Unary(x86.Div, x86.W32, skbField(p, kernelabi.SkbMark))
		b.Bare(x86.Ret)
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
			want := Result{Value: 1000 / uint32(i+1), Insns: 4}
			if slices.Contains(zeros, i) {
				if r.Fault == nil || r.Fault.Kind != DivideError {
					t.Fatalf("zeros at %v: input %d: %+v", zeros, i, r)
				}
				r.Fault = nil
				want = Result{Insns: 2}
			}
			if r != want {
				t.Fatalf("zeros at %v: input %d: %+v (%v), want %+v", zeros, i, r, r.Fault, want)
			}
		}
	}
}

// TestFields reads every field of the structs that a layout has.
func TestFields(t *testing.T) {
	s := kernelabi.NewSkb(make([]byte, 300)).Split(100)
	s.Headroom, s.MacHeader, s.NetworkHeader = 64, -14, 20
	s.Protocol, s.PktType, s.Mark, s.Rxhash, s.Queue = 0x0806, 5, 0x01020304, 0x05060708, 0x090a
	s.VlanTCI, s.VlanPresent, s.VlanProto, s.Ifindex, s.DevType = 0x2bcd, true, 0x8100, 0x11121314, 0x1516
	modern := kernelabi.Layout{
		skbVlanPresent: 130, skbVlanProto: 152, kernelabi.SkbVlanTCI: 154, kernelabi.SkbLen: 112, kernelabi.SkbDev: 16,
		kernelabi.SkbMacHeader: 186, kernelabi.SkbNetHeader: 184, kernelabi.DevIfindex: 216, kernelabi.DevType: 296,
		kernelabi.SkbSize: 232,
	}
	for _, test := range []struct {
		desc   string
		layout kernelabi.Layout
		sem    kernelabi.Semantics
		fields map[string]int // bytes
		want   map[string]uint64
	}{
		{"3.10", kernelabi.L68, kernelabi.Semantics{VlanPresentInTCI: true},
			map[string]int{kernelabi.SkbMacHeader: 4, kernelabi.SkbNetHeader: 4},
			map[string]uint64{kernelabi.SkbVlanTCI: 0x3bcd}},
		{"6.1", modern, kernelabi.Semantics{},
			map[string]int{kernelabi.SkbMacHeader: 2, kernelabi.SkbNetHeader: 2, skbVlanProto: 2, skbVlanPresent: 1},
			map[string]uint64{kernelabi.SkbVlanTCI: 0x2bcd, skbVlanProto: 0x0081, skbVlanPresent: 0xef}},
	} {
		p := *profile(t, "linux-3.10-x86_64")
		p.Layout, p.Semantics = test.layout, test.sem
		m := newMachine(t, &p)
		want := map[string]uint64{
			kernelabi.SkbLen: 300, kernelabi.SkbDataLen: 200, kernelabi.SkbTail: 164, kernelabi.SkbEnd: 164,
			kernelabi.SkbProtocol: 0x0608, kernelabi.SkbPktType: 0xed, kernelabi.SkbMark: 0x01020304,
			kernelabi.SkbRxhash: 0x05060708, kernelabi.SkbQueue: 0x090a,
			kernelabi.SkbMacHeader: 50, kernelabi.SkbNetHeader: 84,
			kernelabi.DevIfindex: 0x11121314, kernelabi.DevType: 0x1516,
		}
		size := map[string]int{kernelabi.SkbProtocol: 2, kernelabi.SkbPktType: 1, kernelabi.SkbQueue: 2, kernelabi.SkbVlanTCI: 2, kernelabi.DevType: 2}
		for name, v := range test.want {
			want[name] = v
		}
		for name, n := range test.fields {
			size[name] = n
		}
		for name, off := range test.layout {
			v, ok := want[name]
			if !ok {
				continue
			}
			image := code(func(b *x86.Buf) {
				base := x86.DI
				if strings.HasPrefix(name, "net_device.") {
					b.Load(x86.W64, x86.DX, x86.At32(x86.DI, int32(test.layout[kernelabi.SkbDev])))
					base = x86.DX
				}
				switch size[name] {
				case 1:
					b.MovZX(x86.AX, x86.W8, x86.At32(base, int32(off)))
				case 2:
					b.MovZX(x86.AX, x86.W16, x86.At32(base, int32(off)))
				default:
					b.Load(x86.W32, x86.AX, x86.At32(base, int32(off)))
				}
				b.Bare(x86.Ret)
			})
			if got := run(t, m, image, s)[0]; uint64(got.Value) != v || got.Fault != nil {
				t.Errorf("%s: %s is %#x (%v), want %#x", test.desc, name, got.Value, got.Fault, v)
			}
		}
	}
}

func TestDevice(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	with, without := kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)
	with.Ifindex, without.NoDevice = 42, true
	dev, err := p.Layout.Offset(kernelabi.DevIfindex)
	if err != nil {
		t.Fatal(err)
	}
	image := code(func(b *x86.Buf) {
		b.Load(x86.W64, x86.AX, skbField(p, kernelabi.SkbDev))
		b.Test(x86.W64, x86.R(x86.AX), x86.AX)
		b.JccShort(x86.CondE, 6)
		b.Load(x86.W32, x86.AX, x86.At32(x86.AX, int32(dev)))
		b.Bare(x86.Ret)
	})
	want := []Result{{Value: 42, Insns: 5}, {Value: 0, Insns: 4}, {Value: 42, Insns: 5}}
	if diff := cmp.Diff(want, run(t, m, image, with, without, with)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProcessorNumber(t *testing.T) {
	for _, offset := range []uint64{0xb0a0, 0, 0xffffffffffffe000, 0xfffff000, 0x7ffffffc} {
		p := profile(t, "linux-3.10-x86_64").WithSymbols(map[string]uint64{perCPUSymbol: offset})
		m := newMachine(t, p)
		image := code(func(b *x86.Buf) {
			b.Load(x86.W32, x86.AX, x86.GS(uint32(offset)))
			b.Bare(x86.Ret)
		})
		var inputs []kernelabi.Input
		for i := range 150 {
			s := kernelabi.NewSkb(nil)
			s.CPU = uint32(i / 40 * 3)
			inputs = append(inputs, s)
		}
		for i, r := range run(t, m, image, inputs...) {
			if want := (Result{Value: uint32(i / 40 * 3), Insns: 2}); r != want {
				t.Fatalf("offset %#x: input %d: %+v (%v), want %+v", offset, i, r, r.Fault, want)
			}
		}
	}
}

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

func TestLargePackets(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	image := frame(p, "sk_load_word", func(b *x86.Buf) {})
	var inputs []kernelabi.Input
	add := func(s *kernelabi.Skb, headroom int) {
		s.Headroom = headroom
		for i := 0; i+4 <= len(s.Packet); i += 4 {
			binary.BigEndian.PutUint32(s.Packet[i:], uint32(i))
		}
		c := *s
		c.Mark = uint32(len(s.Packet) - 4)
		inputs = append(inputs, s, &c)
	}
	half := make([]int, kernelabi.MaxFrags)
	for i := range half {
		half[i] = 8000
	}
	add(kernelabi.NewSkb(make([]byte, 65536)), 0)
	add(kernelabi.NewSkb(make([]byte, kernelabi.MaxPacket)), 0)
	add(kernelabi.NewSkb(make([]byte, kernelabi.MaxPacket)), kernelabi.MaxHeader-14)
	add(kernelabi.NewSkb(make([]byte, kernelabi.MaxPacket)).Split(60000, 70000), 10)
	add(kernelabi.NewSkb(make([]byte, 17*8000+5000)).Split(5000, half...), 100)
	add(kernelabi.NewSkb(make([]byte, 65536)).Split(0, 1, 2, 3), 0)
	for range 70 { // more than fit into one window
		add(kernelabi.NewSkb(make([]byte, 9000)), 0)
	}
	for i, r := range run(t, m, image, inputs...) {
		s := inputs[i].(*kernelabi.Skb)
		if want := s.Mark ^ mark; r.Value != want || r.Fault != nil || r.Broken != 0 {
			t.Fatalf("input %d (%d bytes, headlen %d): %+v (%v), want %#x", i, len(s.Packet), s.Headlen, r, r.Fault, want)
		}
	}
}

// TestNothingIsLeftOver: a packet's page holds nothing of those before it.
func TestNothingIsLeftOver(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	image := code(func(b *x86.Buf) { // the byte in front of skb->head
		b.Load(x86.W64, x86.AX, skbField(p, kernelabi.SkbHead))
		b.MovZX(x86.AX, x86.W8, x86.At(x86.AX, -1))
		b.Bare(x86.Ret)
	})
	for _, size := range []int{100, 200, 10, 5000, 4097, 4999, 50} {
		packet := make([]byte, size)
		fill(packet, 0x55)
		for _, headroom := range []int{0, 9, 3} {
			s := kernelabi.NewSkb(packet)
			s.Headroom = headroom
			if got := run(t, m, image, s)[0]; got.Value != poisonByte || got.Fault != nil {
				t.Errorf("%d bytes: %+v (%v), want %#x", size, got, got.Fault, poisonByte)
			}
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

type otherInput struct{ kernelabi.Input }

func TestInputErrors(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	if err := m.Load(&kernelabi.Image{Code: returning(1), Base: m.profile.Base}); err != nil {
		t.Fatal(err)
	}
	good := kernelabi.NewSkb(nil)
	long := kernelabi.NewSkb(make([]byte, 10))
	long.Headlen = 11
	for _, test := range []struct {
		desc  string
		input kernelabi.Input
		want  string
	}{
		{"headlen > len", long, "input 70: headlen"},
		{"too large", kernelabi.NewSkb(make([]byte, kernelabi.MaxPacket+1)), "at most 262144"},
		{"a nil packet", (*kernelabi.Skb)(nil), "input 70: "},
		{"nil", nil, "input 70: "},
		{"another type", otherInput{}, "otherInput"},
	} {
		inputs := make([]kernelabi.Input, 71)
		for i := range inputs {
			inputs[i] = good
		}
		inputs[70] = test.input
		_, err := m.Run(inputs, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.desc, err, test.want)
		}
	}
	if results, err := m.Run([]kernelabi.Input{good}, nil); err != nil || results[0].Value != 1 {
		t.Errorf("afterwards: %+v, %v", results, err)
	}
	if results, err := m.Run(nil, nil); err != nil || len(results) != 0 {
		t.Errorf("no inputs: %+v, %v", results, err)
	}
}

func TestProfileErrors(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	many := map[string]uint64{}
	for i := range 40 {
		many["symbol"+strconv.Itoa(i)] = 0xffffffff81000000 + uint64(i)<<20
	}
	mips := *p
	mips.Arch = "mips"
	for _, test := range []struct {
		desc    string
		profile *kernelabi.Profile
		want    string
	}{
		{"none", nil, "no profile"},
		{"an architecture that is not there", &mips, "not emulated"},
		{"two symbols at one address", p.WithSymbols(map[string]uint64{"sk_load_word": p.Symbols["sk_load_half"]}), "are both at"},
		{"a symbol one byte behind another", p.WithSymbols(map[string]uint64{"skb_copy_bits": p.Symbols["sk_load_half"] - 1, "sk_load_word_positive_offset": p.Symbols["sk_load_half"] - 2}), "too near"},
		{"a symbol that is not canonical", p.WithSymbols(map[string]uint64{"sk_load_word": 0x1234567890123456}), "not an address"},
		{"a symbol at the end", p.WithSymbols(map[string]uint64{"sk_load_word": ^uint64(0)}), "not an address"},
		{"a null symbol", p.WithSymbols(map[string]uint64{"sk_load_word": 0}), "not an address"},
		{"symbols on very many pages", p.WithSymbols(many), "spread"},
		{"a per-CPU offset of 64 bits", p.WithSymbols(map[string]uint64{perCPUSymbol: 1 << 40}), "32-bit offset"},
		{"a per-CPU word on two pages", p.WithSymbols(map[string]uint64{perCPUSymbol: 0xffe}), "two pages"},
		{"a negative offset", p.WithLayout(map[string]int{"len": -4}), "sk_buff.len"},
		{"a huge offset", p.WithLayout(map[string]int{"net_device.ifindex": 1 << 30}), "net_device.ifindex"},
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

// TestCrampedSymbols: routines work wherever their symbols are.
func TestCrampedSymbols(t *testing.T) {
	const at = 0xffffffff81063000
	for _, symbols := range []map[string]uint64{
		{"sk_load_word": at + 0xffe, "sk_load_half": at + 0x1003, "sk_load_byte": at + 0x1008},
		{"sk_load_word": at, "sk_load_half": at + 5, "sk_load_byte": at + 10, "sk_load_byte_msh": at + 15},
		{"sk_load_word": at, "sk_load_half": at + 2, "sk_load_byte": at + 4},
		{"sk_load_word": 0xffff880000000000, "sk_load_half": 0xffff880000000020, "sk_load_byte": 0xffff88000000002e},
		{"sk_load_word": at, "sk_load_half": at + 21, "sk_load_byte": at + 40},
		{"sk_load_word": at, "sk_load_half": at + 17, "sk_load_byte": at + 37},
	} {
		p := *profile(t, "linux-3.0-x86_64")
		p.Symbols = symbols
		p.Base = symbols["sk_load_word"]&^0xffffff + 0x5000000
		m := newMachine(t, &p)
		for symbol, size := range map[string]int{"sk_load_word": 4, "sk_load_half": 2, "sk_load_byte": 1} {
			image := frame(&p, symbol, func(*x86.Buf) {})
			s := kernelabi.NewSkb([]byte{1, 2, 3, 4, 5, 6, 7, 8}).Split(5)
			var inputs []kernelabi.Input
			for i := range uint32(10) {
				c := *s
				c.Mark = i
				inputs = append(inputs, &c)
			}
			for i, r := range run(t, m, image, inputs...) {
				if want := wantLoad(s, uint32(i), size); r.Value != want || r.Fault != nil {
					t.Errorf("symbols %#x: %s at %d: %+v (%v), want %#x", symbols, symbol, i, r, r.Fault, want)
				}
			}
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	m := postingMachine(t)
	if err := m.Load(&kernelabi.Image{Code: unhex(postingImage), Base: m.profile.Base}); err != nil {
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
}

func TestWatchdog(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"), WithBudget(1<<62), WithTimeout(20*time.Millisecond))
	good := kernelabi.NewSkb(nil)
	for _, r := range run(t, m, []byte{0xeb, 0xfe}, good, good) {
		if r.Fault == nil || r.Fault.Kind != Timeout || r.Fault.Offset != 0 {
			t.Errorf("an endless loop: %+v (%v)", r, r.Fault)
		}
	}
	if r := run(t, m, returning(3), good)[0]; r != (Result{Value: 3, Insns: 2}) {
		t.Errorf("afterwards: %+v (%v)", r, r.Fault)
	}
}

func TestMisuse(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	m.busy.Store(true) // as if another goroutine were inside
	if err := m.Load(&kernelabi.Image{}); !errors.Is(err, errBusy) {
		t.Errorf("load: %v", err)
	}
	if _, err := m.Run(nil, nil); !errors.Is(err, errBusy) {
		t.Errorf("run: %v", err)
	}
	if err := m.Close(); !errors.Is(err, errBusy) {
		t.Errorf("close: %v", err)
	}
	m.busy.Store(false)
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := m.Run(nil, nil); !errors.Is(err, errClosed) {
		t.Errorf("run after close: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestMachinesInParallel(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		m := postingMachine(t)
		wg.Go(func() {
			inputs := postingPackets(100)
			for range 20 {
				if err := m.Load(&kernelabi.Image{Code: unhex(postingImage), Base: m.profile.Base}); err != nil {
					t.Error(err)
					return
				}
				results, err := m.Run(inputs, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for i, r := range results {
					if got, want := r.Value != 0, i%2 == 0; got != want {
						t.Errorf("goroutine %d, packet %d: %+v", g, i, r)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestWildRestart: code that leaves the memory of the machine costs an engine,
// not the batch.
func TestWildRestart(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p)
	good, bad := kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)
	bad.Mark = 1
	image := code(func(b *x86.Buf) {
		b.AluImm8(x86.Cmp, x86.W32, skbField(p, kernelabi.SkbMark), 0)
		b.JccShort(x86.CondNE, 6)
		b.MovImm32(x86.AX, 9)
		b.Bare(x86.Ret)
		b.MovImm64(x86.AX, 1<<40)
		b.Raw(0x0f, 0x22, 0xd8) // mov cr3, rax
		b.Bare(x86.Ret)
	})
	for i, r := range run(t, m, image, good, bad, good, bad, bad, good) {
		if i == 1 || i == 3 || i == 4 {
			if r.Fault == nil {
				t.Errorf("input %d returned %+v", i, r)
			}
		} else if r != (Result{Value: 9, Insns: 4}) {
			t.Errorf("input %d: %+v (%v)", i, r, r.Fault)
		}
	}
}

// TestMemoryStaysFlat: neither loads nor faults leak.
func TestMemoryStaysFlat(t *testing.T) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skip("needs /proc/self/statm")
	}
	loads := 20000
	if testing.Short() {
		loads = 6000
	}
	if s := os.Getenv("KJIT_LOADS"); s != "" {
		var err error
		if loads, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	m := postingMachine(t, WithBuffer(4<<20))
	inputs := postingPackets(4)
	image := unhex(postingImage)
	var results []Result
	var first int
	for i := range loads {
		// The immediate of the first RET.
		binary.LittleEndian.PutUint32(image[0x89:], uint32(i+1))
		if err := m.Load(&kernelabi.Image{Code: image, Base: m.profile.Base}); err != nil {
			t.Fatal(err)
		}
		var err error
		if results, err = m.Run(inputs, results); err != nil {
			t.Fatal(err)
		}
		if results[0].Value != uint32(i+1) {
			t.Fatalf("load %d: %+v (%v)", i, results[0], results[0].Fault)
		}
		if i == loads/4 {
			first = rss(t)
		}
	}
	last := rss(t)
	t.Logf("%d MB after %d loads, %d MB after %d", first>>20, loads/4, last>>20, loads)
	if last-first > 6<<20 {
		t.Errorf("memory grew from %d to %d MB between load %d and %d", first>>20, last>>20, loads/4, loads)
	}
}

func rss(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
