package emulator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

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

func TestLargePackets(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	checkLargePackets(t, newMachine(t, p), frame(p, "sk_load_word", func(b *x86.Buf) {}))
}

// checkLargePackets runs an image that loads the word at sk_buff.mark and returns
// what it loaded, xor mark, on packets of all forms that do not fit on a page.
func checkLargePackets(t *testing.T, m *Machine, image []byte) {
	t.Helper()
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

type otherInput struct{ kernelabi.Input }

// TestPacketsForgetNothing fills windows one after another with inputs that differ
// in one thing or another from those before, and demands the memory that a machine
// which knows nothing of those before has.
func TestPacketsForgetNothing(t *testing.T) {
	r := seeded(t)
	pick := func(n int) int { return r.IntN(n) * r.IntN(2) } // 0 half of the time
	input := func() kernelabi.Input {
		if r.IntN(12) == 0 {
			return &kernelabi.Syscall{Data: seccompdata.Data{Nr: r.Uint32N(400), Arch: r.Uint32()}}
		}
		b := make([]byte, []int{0, 1, 60, 60, 60, 60, 64, 5000}[r.IntN(8)])
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		s := kernelabi.NewSkb(b)
		s.Headroom, s.MacHeader = pick(3)*4, pick(3)
		s.Mark, s.Rxhash, s.Queue = uint32(pick(3)), uint32(pick(3)), uint16(pick(3))
		s.VlanTCI, s.VlanPresent, s.VlanProto = uint16(pick(3)), pick(2) == 1, uint16(pick(3))
		s.NoDevice, s.Ifindex, s.DevType = pick(2) == 1, uint32(pick(3)), uint16(pick(3))
		s.PktType, s.Random, s.CPU = uint8(pick(5)), r.Uint32(), uint32(pick(2)*pick(2))
		if len(b) > 20 && r.IntN(6) == 0 {
			s = s.Split(20, 7)
		}
		return s
	}
	for _, name := range []string{"linux-3.10-x86_64", "linux-4.5-armv7"} {
		m, fresh := newMachine(t, profile(t, name)), newMachine(t, profile(t, name))
		for range 300 {
			inputs := make([]kernelabi.Input, 1+r.IntN(6))
			for i := range inputs {
				inputs[i] = input()
			}
			for range 20 {
				i := r.IntN(len(inputs))
				if s, ok := inputs[i].(*kernelabi.Skb); ok && r.IntN(2) == 0 {
					c := *s
					*[]*uint32{&c.Mark, &c.Rxhash, &c.Ifindex}[r.IntN(3)] = r.Uint32()
					*[]*uint16{&c.Queue, &c.VlanTCI, &c.DevType, &c.Protocol}[r.IntN(4)] = uint16(r.Uint32())
					*[]*bool{&c.VlanPresent, &c.NoDevice}[r.IntN(2)] = r.IntN(2) == 0
					inputs[i] = &c
				} else {
					inputs[i] = input()
				}
				n, err := m.fill(inputs)
				if err != nil {
					t.Fatal(err)
				}
				for i := range fresh.packets.slots {
					s := &fresh.packets.slots[i]
					fill(s.mem, poisonByte)
					s.input = 0
				}
				fresh.packets.forget()
				if want, err := fresh.fill(inputs); err != nil || want != n {
					t.Fatalf("%d inputs fit, then %d, %v", n, want, err)
				}
				for i, in := range inputs[:n] {
					want, got := memoryOf(fresh, i, in), memoryOf(m, i, in)
					want["processor"], got["processor"] = fresh.cpu[:4], m.cpu[:4]
					if !maps.EqualFunc(want, got, bytes.Equal) {
						t.Fatalf("%s: input %d, %+v (-fresh +again):\n%s", name, i, in, cmp.Diff(want, got))
					}
				}
			}
		}
	}
}

// memoryOf is what the guest can see of input i, by what it is.
func memoryOf(m *Machine, i int, in kernelabi.Input) map[string][]byte {
	s := &m.packets.slots[i]
	seen := map[string][]byte{"address": binary.LittleEndian.AppendUint64(nil, s.input)}
	if skb, ok := in.(*kernelabi.Skb); ok {
		seen["sk_buff"] = s.mem
		seen["fragments"] = s.fragsM[:fragEntry*len(skb.Frags)]
		seen["what routines return"] = s.fragsM[fragPayOffset:]
	}
	for _, set := range [][]extent{m.packets.small[:m.packets.smallUsed], m.packets.large[:m.packets.largeUsed]} {
		for n := range set {
			if e := &set[n]; e.slot == i {
				seen[fmt.Sprint("part ", e.part)] = e.mem[e.low&^pageMask:]
			}
		}
	}
	return seen
}

func TestInputErrors(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	if err := m.Load(&kernelabi.Image{Code: returning(1), Base: m.profile.Base}); err != nil {
		t.Fatal(err)
	}
	good := kernelabi.NewSkb(make([]byte, 10))
	spoiled := func(spoil func(*kernelabi.Skb)) *kernelabi.Skb {
		s := *good
		spoil(&s)
		return &s
	}
	for _, test := range []struct {
		desc  string
		input kernelabi.Input
		want  string
	}{
		{"headlen > len", spoiled(func(s *kernelabi.Skb) { s.Headlen = 11 }), "input 70: headlen"},
		{"headlen < len", spoiled(func(s *kernelabi.Skb) { s.Headlen = 9 }), "input 70: frags"},
		{"a fragment of nothing", spoiled(func(s *kernelabi.Skb) { s.Frags = []int{1} }), "input 70: frags"},
		{"a packet type of 4 bits", spoiled(func(s *kernelabi.Skb) { s.PktType = 8 }), "input 70: skb.pkt_type"},
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

// TestTailroom: a packet whose tailroom does not fit on its page takes a large place,
// of which a window has few.
func TestTailroom(t *testing.T) {
	for _, tailroom := range []int{3, 4096} {
		m := newMachine(t, profile(t, "linux-3.10-x86_64"), WithTailroom(tailroom))
		var inputs []kernelabi.Input
		for i := range 60 {
			inputs = append(inputs, kernelabi.NewSkb(make([]byte, []int{60, 4096, 5000}[i%3])))
		}
		for i, r := range run(t, m, returning(7), inputs...) {
			if r.Value != 7 || r.Fault != nil {
				t.Fatalf("tailroom %d, packet %d: %+v (%v)", tailroom, i, r, r.Fault)
			}
		}
	}
}
