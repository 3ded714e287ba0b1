package kernelabi

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// seeded returns a random source and prints its seed; KJIT_SEED sets it.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if env := os.Getenv("KJIT_SEED"); env != "" {
		var err error
		if seed, err = strconv.ParseUint(env, 10, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return b
}

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestNewSkb(t *testing.T) {
	for _, test := range []struct {
		desc, packet string
		protocol     uint16
		pktType      uint8
	}{
		{"an IPv4 frame to this host", "001122334455 66778899aabb 0800 45", EthPIP, PacketHost},
		{"a broadcast", "ffffffffffff 66778899aabb 0806", 0x0806, PacketBroadcast},
		{"a multicast", "333300000001 66778899aabb 86dd", EthPIPv6, PacketMulticast},
		{"a tagged frame has the protocol of the tag", "001122334455 66778899aabb 8100 0064 0800", EthP8021Q, PacketHost},
		{"a length in place of a type is LLC", "0180c2000000 66778899aabb 0026 4242 03", EthP8022, PacketMulticast},
		{"and raw IPX if it starts with ffff", "001122334455 66778899aabb 0026 ffff", EthP8023, PacketHost},
		{"a length of a frame that ends there is LLC", "001122334455 66778899aabb 0000", EthP8022, PacketHost},
		{"a frame without a whole header has no protocol", "ffffffffffff 66778899aabb 08", 0, PacketHost},
		{"an empty packet has none either", "", 0, PacketHost},
	} {
		t.Run(test.desc, func(t *testing.T) {
			packet := unhex(t, test.packet)
			want := &Skb{
				Packet: packet, Headlen: len(packet), NetworkHeader: 14,
				Protocol: test.protocol, PktType: test.pktType, Ifindex: 1, DevType: 1,
			}
			got := NewSkb(packet)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := got.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		desc    string
		headlen int
		sizes   []int
		want    int
		frags   []int
	}{
		{"what sizes leave over is one more fragment", 4, []int{3}, 4, []int{3, 3}},
		{"sizes that fit leave nothing over", 4, []int{3, 3}, 4, []int{3, 3}},
		{"no sizes: one fragment", 4, nil, 4, []int{6}},
		{"sizes beyond the packet are cut", 4, []int{5, 5, 5}, 4, []int{5, 1}},
		{"empty and negative sizes are left out", 4, []int{0, -1, 6}, 4, []int{6}},
		{"a linear part beyond the packet is the packet", 11, []int{1}, 10, nil},
		{"a negative one is empty", -1, nil, 0, []int{10}},
	} {
		t.Run(test.desc, func(t *testing.T) {
			s := NewSkb(counting(10))
			got := s.Split(test.headlen, test.sizes...)
			if got.Headlen != test.want || !cmp.Equal(got.Frags, test.frags) {
				t.Errorf("got %d %v, want %d %v", got.Headlen, got.Frags, test.want, test.frags)
			}
			if err := got.Check(); err != nil {
				t.Error(err)
			}
			if !s.IsLinear() || s.Frags != nil {
				t.Error("the original changed")
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		desc, field string
		change      func(*Skb)
	}{
		{"a packet that is too long", "packet", func(s *Skb) { *s = *NewSkb(make([]byte, MaxPacket+1)) }},
		{"more linear bytes than there are", "headlen", func(s *Skb) { s.Headlen = 11 }},
		{"a negative linear part", "headlen", func(s *Skb) { s.Headlen = -1 }},
		{"bytes in no part", "frags", func(s *Skb) { s.Headlen = 9 }},
		{"a fragment too many", "frags", func(s *Skb) { s.Frags = []int{1} }},
		{"an empty fragment", "frags", func(s *Skb) { s.Headlen, s.Frags = 9, []int{0, 1} }},
		{"a sum that wraps around", "frags", func(s *Skb) { s.Headlen, s.Frags = 9, []int{1 << 62, 1 << 62, 1 << 62, 1<<62 + 1} }},
		{"more fragments than an skb holds", "frags", func(s *Skb) {
			*s = *NewSkb(counting(30)).Split(0, slicesRepeat(1, 18)...)
		}},
		{"a header before the headroom", "skb.mac_header", func(s *Skb) { s.Headroom, s.MacHeader = 13, -14 }},
		{"a network header before the headroom", "skb.network_header", func(s *Skb) { s.NetworkHeader = -1 }},
		{"a header that 16 bits cannot hold", "skb.network_header", func(s *Skb) { s.Headroom, s.NetworkHeader = 1, 65535 }},
		{"a negative headroom", "skb.headroom", func(s *Skb) { s.Headroom = -1 }},
		{"a packet type of 4 bits", "skb.pkt_type", func(s *Skb) { s.PktType = 8 }},
	} {
		t.Run(test.desc, func(t *testing.T) {
			s := NewSkb(counting(10))
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			test.change(s)
			var bad *SkbError
			if err := s.Check(); !errors.As(err, &bad) || bad.Field != test.field {
				t.Errorf("got error %v, want one about %s", err, test.field)
			}
		})
	}
}

func slicesRepeat(value, count int) []int {
	out := make([]int, count)
	for i := range out {
		out[i] = value
	}
	return out
}

func TestNegativeOffsets(t *testing.T) {
	s := NewSkb(counting(32)).Split(20)
	s.Headroom, s.MacHeader, s.NetworkHeader = 2, -1, 14
	old, reach := Semantics{}, Semantics{NegativeOffsetsReachFrags: true}
	for _, test := range []struct {
		desc  string
		sem   Semantics
		off   uint32
		size  int
		value uint32
		ok    bool
	}{
		{"the network header", old, bpf.NetOff, 4, 0x0e0f1011, true},
		{"behind it", old, bpf.NetOff + 4, 2, 0x1213, true},
		{"up to the end of the linear part and no further", old, bpf.NetOff + 5, 2, 0, false},
		{"recent kernels reach page fragments", reach, bpf.NetOff + 5, 2, 0x1314, true},
		{"up to the end of the packet", reach, bpf.NetOff + 14, 4, 0x1c1d1e1f, true},
		{"and no further", reach, bpf.NetOff + 15, 4, 0, false},
		{"a link-layer header in the headroom, which is zero", old, bpf.LLOff, 4, 0x00000102, true},
		{"link-layer offsets go up to the network ones", old, bpf.NetOff - 1, 1, 0, false},
		{"below the link-layer offsets is nothing", old, bpf.LLOff - 1, 1, 0, false},
		{"neither on recent kernels", reach, bpf.LLOff - 1, 1, 0, false},
		{"nor at the most negative offset", old, 1 << 31, 1, 0, false},
		{"-1 counts from the network header", old, 0xffffffff, 1, 0, false},
		{"the largest offset does not wrap around", old, 1<<31 - 1, 4, 0, false},
		{"a plain offset crosses into page fragments", old, 18, 4, 0x12131415, true},
		{"the last byte", old, 31, 1, 31, true},
		{"one past it", old, 32, 1, 0, false},
		{"a word that ends past it", old, 29, 4, 0, false},
	} {
		t.Run(test.desc, func(t *testing.T) {
			value, ok := s.Under(test.sem).Load(test.off, test.size)
			if value != test.value || ok != test.ok {
				t.Errorf("got %#x, %t, want %#x, %t", value, ok, test.value, test.ok)
			}
		})
	}
}

func TestCopyBitsAndLoadPointerNeg(t *testing.T) {
	s := NewSkb(counting(32)).Split(20, 3)
	s.Headroom = 2
	to := []byte{0xaa, 0xaa, 0xaa, 0xaa}
	if s.CopyBits(29, to) || !cmp.Equal(to, []byte{0xaa, 0xaa, 0xaa, 0xaa}) {
		t.Errorf("a copy past the end left % x", to)
	}
	if !s.CopyBits(21, to) || !cmp.Equal(to, []byte{21, 22, 23, 24}) {
		t.Errorf("a copy over two fragments gave % x", to)
	}
	if !s.CopyBits(-1, to) || !cmp.Equal(to, []byte{0, 0, 1, 2}) {
		t.Errorf("a copy from the headroom gave % x", to)
	}
	if s.CopyBits(-3, to) {
		t.Error("a copy from before the headroom succeeded")
	}
	if !s.CopyBits(32, nil) || s.CopyBits(33, nil) {
		t.Error("an empty copy may be at the end of the packet and not behind it")
	}
	if pos, ok := s.LoadPointerNeg(-0x100000+2, 4); pos != 16 || !ok {
		t.Errorf("a pointer up to the tail: got %d, %t", pos, ok)
	}
	if _, ok := s.LoadPointerNeg(-0x100000+3, 4); ok {
		t.Error("a pointer past the tail is none")
	}
}

func TestAncillary(t *testing.T) {
	s := &Skb{
		Packet: counting(4), Headlen: 4,
		Protocol: 0x86dd, PktType: 4, Mark: 0x1234aaaa, Rxhash: 0x1234aaab, Queue: 123,
		VlanTCI: 0xffff, VlanProto: 0x88a8, Ifindex: 577, DevType: 588, CPU: 3, Random: 0xdeadbeef,
	}
	const a, x = 77, 88
	bit := Semantics{VlanPresentInTCI: true}
	for _, test := range []struct {
		desc   string
		ext    bpf.Extension
		sem    Semantics
		change func(*Skb)
		value  uint32
		ok     bool
	}{
		{"protocol", bpf.ExtProtocol, bit, nil, 0x86dd, true},
		{"packet type", bpf.ExtPktType, bit, nil, 4, true},
		{"mark", bpf.ExtMark, bit, nil, 0x1234aaaa, true},
		{"hash", bpf.ExtRxhash, bit, nil, 0x1234aaab, true},
		{"queue", bpf.ExtQueue, bit, nil, 123, true},
		{"interface", bpf.ExtIfindex, bit, nil, 577, true},
		{"hardware type", bpf.ExtHatype, bit, nil, 588, true},
		{"processor", bpf.ExtCPU, bit, nil, 3, true},
		{"random", bpf.ExtRandom, bit, nil, 0xdeadbeef, true},
		{"VLAN protocol", bpf.ExtVlanTPID, bit, nil, 0x88a8, true},
		{"an interface without a device ends 3.x programs with 0", bpf.ExtIfindex, bit, noDevice, 0, false},
		{"and later ones with A", bpf.ExtIfindex, Semantics{NoDeviceKeepsA: true}, noDevice, a, false},
		{"a hardware type without a device ends 3.x programs with 0", bpf.ExtHatype, bit, noDevice, 0, false},
		{"and later ones with A, too", bpf.ExtHatype, Semantics{NoDeviceKeepsA: true}, noDevice, a, false},
		{"the flag in vlan_tci is not part of the tag", bpf.ExtVlanTCI, bit, nil, 0xefff, true},
		{"without the flag all 16 bits are", bpf.ExtVlanTCI, Semantics{}, nil, 0xffff, true},
		{"the flag means that there is a tag", bpf.ExtVlanPr, bit, nil, 1, true},
		{"a tag without the flag is none", bpf.ExtVlanPr, bit, func(s *Skb) { s.VlanTCI = 0xefff }, 0, true},
		{"unless the packet says there is one", bpf.ExtVlanPr, bit, func(s *Skb) { s.VlanTCI, s.VlanPresent = 0, true }, 1, true},
		{"where there is no flag a tag is enough", bpf.ExtVlanPr, Semantics{}, func(s *Skb) { s.VlanTCI, s.VlanProto = 1, 0 }, 1, true},
		{"a protocol, too", bpf.ExtVlanPr, Semantics{}, func(s *Skb) { s.VlanTCI = 0 }, 1, true},
		{"nothing is no tag", bpf.ExtVlanPr, Semantics{}, func(s *Skb) { s.VlanTCI, s.VlanProto = 0, 0 }, 0, true},
		{"an attribute search that cannot start ends 3.x programs", bpf.ExtNlattr, bit, nil, 0, false},
		{"and loads 0 later", bpf.ExtNlattr, Semantics{NlattrFailLoads0: true}, nil, 0, true},
		{"a nested one likewise ends them", bpf.ExtNlattrN, bit, nil, 0, false},
		{"or loads 0", bpf.ExtNlattrN, Semantics{NlattrFailLoads0: true}, nil, 0, true},
		{"the payload of a packet that is none is at 0", bpf.ExtPayOffset, bit, nil, 0, true},
	} {
		t.Run(test.desc, func(t *testing.T) {
			c := *s
			if test.change != nil {
				test.change(&c)
			}
			value, ok := c.Under(test.sem).Extension(test.ext, a, x)
			if value != test.value || ok != test.ok {
				t.Errorf("got %#x, %t, want %#x, %t", value, ok, test.value, test.ok)
			}
		})
	}
	if got := s.VlanField(bit); got != 0xffff {
		t.Errorf("vlan_tci with the flag is %#x, want ffff", got)
	}
	if got := (&Skb{VlanTCI: 5, VlanPresent: true}).VlanField(bit); got != 0x1005 {
		t.Errorf("vlan_tci of a packet that has a tag is %#x, want 1005", got)
	}
	if got := (&Skb{VlanTCI: 5, VlanPresent: true}).VlanField(Semantics{}); got != 5 {
		t.Errorf("vlan_tci where no flag is kept is %#x, want 5", got)
	}
}

func noDevice(s *Skb) { s.NoDevice = true }

// However a packet is split, every load gives what it gives on the flat packet,
// except that negative offsets of older kernels end with the linear part.
func TestSplitsReadAlike(t *testing.T) {
	random := seeded(t)
	for range 2000 {
		packet := make([]byte, random.IntN(80))
		for i := range packet {
			packet[i] = byte(random.Uint32())
		}
		flat := NewSkb(packet)
		flat.Headroom = random.IntN(8)
		flat.MacHeader = random.IntN(12) - flat.Headroom
		flat.NetworkHeader = random.IntN(40) - flat.Headroom
		sizes := make([]int, random.IntN(6))
		for i := range sizes {
			sizes[i] = random.IntN(20)
		}
		split := flat.Split(random.IntN(len(packet)+1), sizes...)
		if err := split.Check(); err != nil {
			t.Fatal(err)
		}
		for _, sem := range []Semantics{{}, {NegativeOffsetsReachFrags: true}} {
			whole, parts := flat.Under(sem), split.Under(sem)
			for range 50 {
				base := []uint32{0, bpf.NetOff, bpf.LLOff}[random.IntN(3)]
				off, size := base+uint32(random.IntN(100)-10), 1<<random.IntN(3)
				want, wantOK := whole.Load(off, size)
				got, gotOK := parts.Load(off, size)
				if int32(off) < 0 && !sem.NegativeOffsetsReachFrags && !gotOK {
					_, inLinear := split.LoadPointerNeg(int32(off), size)
					if inLinear {
						t.Fatalf("load of %d bytes at %#x fails inside the linear part of %+v", size, off, split)
					}
					continue
				}
				if got != want || gotOK != wantOK {
					t.Fatalf("load of %d bytes at %#x: split %#x, %t, flat %#x, %t, skb %+v", size, off, got, gotOK, want, wantOK, split)
				}
			}
		}
		if parts := split.Under(Semantics{}); int(parts.Len()) != len(packet) || len(parts.Linear()) != split.Headlen {
			t.Fatalf("len %d, linear %d of %+v", parts.Len(), len(parts.Linear()), split)
		}
	}
}

func TestLoadsDoNotAllocate(t *testing.T) {
	s := NewSkb(counting(64)).Split(20)
	s.Protocol = EthPIP
	v := s.Under(Semantics{})
	if n := testing.AllocsPerRun(100, func() {
		v.Load(30, 4)
		v.Load(bpf.NetOff, 2)
		for n := range uint32(bpf.NumExtensions) {
			v.Extension(bpf.Extension(4*n), 0, 0)
		}
	}); n != 0 {
		t.Errorf("loads allocate %v times", n)
	}
}

// sink keeps a view alive, as an interpreter behind an interface does.
var sink bpf.Input

func BenchmarkUnder(b *testing.B) {
	s := NewSkb(counting(64))
	b.ReportAllocs()
	for b.Loop() {
		sink = s.Under(Semantics{})
	}
}
