package emulator

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

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

// A budget of nothing is the inputs' alone: the machine finds out what it must.
func TestNoBudget(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"), WithBudget(0))
	r := run(t, m, returning(7), kernelabi.NewSkb(nil))[0]
	if r.Fault == nil || r.Fault.Kind != Timeout || r.Insns != 0 {
		t.Errorf("%+v, %v: want a timeout before the first instruction", r, r.Fault)
	}
}
