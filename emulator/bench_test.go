package emulator

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/kjit-project/kjit/kernelabi"
)

// postingImage is the image of the 2011 posting of the x86_64 BPF JIT:
// "tcpdump net 192.168.2.0/24", 18 instructions, 147 bytes.
const postingImage = "554889e54883ec6048895df8448b4f60442b4f644c8b87b8000000be0c000000e824dc2ee13d00080000" +
	"7528be1a000000e8fedb2ee124003d0002a8c07449be1e000000e8ebdb2ee124003d0002a8c07436eb3b3d0608000074073d3580" +
	"0000752dbe1c000000e8c8db2ee124003d0002a8c07413be26000000e8b5db2ee124003d0002a8c07507b8ffff0000eb0231c0c9c3"

// postingMachine is a kernel with the two symbols that the image shows.
func postingMachine(t testing.TB, opts ...Option) *Machine {
	p := &kernelabi.Profile{
		Name: "posting", Arch: kernelabi.X86_64, Base: 0xffffffffa00b5000,
		Layout:  kernelabi.L60,
		Symbols: map[string]uint64{"sk_load_half": 0xffffffff813a2c49, "sk_load_word": 0xffffffff813a2c34},
	}
	return newMachine(t, p, opts...)
}

func newMachine(t testing.TB, p *kernelabi.Profile, opts ...Option) *Machine {
	t.Helper()
	m, err := New(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// postingPackets are n Ethernet frames, half of them of the network that the
// posting's filter selects.
func postingPackets(n int) []kernelabi.Input {
	r := rand.New(rand.NewPCG(1, 2))
	inputs := make([]kernelabi.Input, n)
	for i := range inputs {
		b := make([]byte, 64)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		b[12], b[13] = 8, 0
		if i%2 == 0 {
			copy(b[26:], []byte{192, 168, 2, byte(i)})
		}
		inputs[i] = kernelabi.NewSkb(b)
	}
	return inputs
}

func BenchmarkPosting(b *testing.B) {
	const packets = 1000
	inputs := postingPackets(packets)
	image := &kernelabi.Image{Code: unhex(postingImage), Base: 0xffffffffa00b5000}
	perPacket := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*packets), "ns/packet")
	}
	b.Run("warm", func(b *testing.B) {
		m := postingMachine(b)
		if err := m.Load(image); err != nil {
			b.Fatal(err)
		}
		var results []Result
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if results, err = m.Run(inputs, results); err != nil {
				b.Fatal(err)
			}
		}
		perPacket(b)
	})
	b.Run("fill", func(b *testing.B) {
		m := postingMachine(b)
		for b.Loop() {
			for i := 0; i < packets; i += windowSlots {
				if _, err := m.fill(inputs[i:]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perPacket(b)
	})
	b.Run("fresh program", func(b *testing.B) {
		m := postingMachine(b)
		var results []Result
		b.ReportAllocs()
		for b.Loop() {
			if err := m.Load(image); err != nil {
				b.Fatal(err)
			}
			var err error
			if results, err = m.Run(inputs[:1], results); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fresh program 64 packets", func(b *testing.B) {
		m := postingMachine(b)
		var results []Result
		for b.Loop() {
			if err := m.Load(image); err != nil {
				b.Fatal(err)
			}
			var err error
			if results, err = m.Run(inputs[:64], results); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new machine", func(b *testing.B) {
		for b.Loop() {
			m := postingMachine(b)
			if err := m.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestPosting(t *testing.T) {
	m := postingMachine(t)
	if err := m.Load(&kernelabi.Image{Code: unhex(postingImage), Base: 0xffffffffa00b5000}); err != nil {
		t.Fatal(err)
	}
	results, err := m.Run(postingPackets(200), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		want := Result{Value: 0, Insns: 46}
		if i%2 == 0 {
			want = Result{Value: 0xffff, Insns: 34}
		}
		if r != want {
			t.Fatalf("packet %d: got %+v (%v), want %+v", i, r, r.Fault, want)
		}
	}
}
