package qemu

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// kernelDir has what ci/qemu-kernels.sh fetches.
const kernelDir = "../../.qemu"

// TestKernels boots every kernel that was fetched and runs programs on it.
func TestKernels(t *testing.T) {
	if os.Getenv("KJIT_QEMU") == "" {
		t.Skip("KJIT_QEMU is not set: make test-qemu fetches kernels and boots them in QEMU")
	}
	kernels, err := filepath.Glob(kernelDir + "/*/vmlinuz*")
	if err != nil || len(kernels) == 0 {
		t.Fatalf("no kernels in %s (%v): ci/qemu-kernels.sh fetches them", kernelDir, err)
	}
	for _, kernel := range kernels {
		t.Run(filepath.Base(kernel), func(t *testing.T) {
			began := time.Now()
			r, err := Open(t.Context(), kernel, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			t.Logf("%s on %s, profile %s, booted in %v", r.Name(), r.guest.system.Machine, r.Profile().Name, time.Since(began).Round(time.Second/10))
			if !r.JIT() {
				t.Error("it has no JIT, or that is off")
			}
			t.Run("packets", func(t *testing.T) { testPackets(t, r) })
			t.Run("corpus", func(t *testing.T) { testCorpus(t, r) })
			t.Run("calls", func(t *testing.T) { testCalls(t, r) })
			t.Run("shift", func(t *testing.T) { testShift(t, r) })
		})
	}
}

// assemble assembles statements separated by semicolons.
func assemble(t *testing.T, text string) bpf.Program {
	t.Helper()
	l, err := bpftext.ParseAs(bpftext.Asm, "test", []byte(strings.ReplaceAll(text, ";", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return l.Program
}

func run(t *testing.T, r harness.Runner, kind bpf.Kind, prog string, input kernelabi.Input) string {
	t.Helper()
	out, err := r.Run(assemble(t, prog), kind, []kernelabi.Input{input}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Why != "" {
		return out[0].String() + ": " + out[0].Why
	}
	return out[0].String()
}

func testPackets(t *testing.T, r *Runner) {
	for _, test := range []struct {
		desc, prog string
		size       int
		want       string
	}{
		{"All 32 bits of a value are seen.", "ret #0xfedcba98", 60, "4275878552"},
		{"A long packet is as good.", "ld [65532]; ret a", 65536, "4244504319"},
		{"An empty one too.", "ret #0xfedcba98", 0, "4275878552"},
		{"A failed load is 0.", "ld [57]; ret #0x10000", 60, "0"},
		{"Division by X = 0 is 0.", "ld #7; ldx #0; div x; ret #0x10000", 60, "0"},
		{"There is no header.", "ldb [0xfff00000]; ret a", 60, "not run: the program loads from a negative offset, and packets of AF_UNIX sockets have no headers"},
		{"What the checker refuses is rejected.", "ld #1; div #0; ret a", 60, "rejected: the kernel refuses it: invalid argument"},
	} {
		packet := make([]byte, test.size)
		for i := range packet {
			packet[i] = byte(i)
		}
		if got := run(t, r, bpf.Socket, test.prog, kernelabi.NewSkb(packet)); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.desc, got, test.want)
		}
	}
}

// testCorpus runs all programs of the corpus for packets on all its packets.
func testCorpus(t *testing.T, r *Runner) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for _, p := range packets {
		skb := p.Skb
		skb.NoDevice, skb.Protocol, skb.PktType = true, 0, 0 // as the kernel will have it
		inputs = append(inputs, skb)
	}
	began := time.Now()
	var sum harness.Tally
	for _, p := range programs {
		if p.Kind != bpf.Socket {
			continue
		}
		replay := harness.Replay{Program: p.Program, Runners: []harness.Runner{r}, Each: func(row *harness.Row) error {
			if row.Verdicts[0] == harness.Diverge {
				t.Errorf("%s, packet %d: got %v (%s), want %v", p.Name, row.Index, row.Got[0], row.Got[0].Why, row.Want[0])
			}
			return nil
		}}
		tallies, err := replay.Run(context.Background(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		sum.Agree += tallies[0].Agree
		sum.Undefined += tallies[0].Undefined
		sum.NotRun += tallies[0].NotRun
	}
	t.Logf("%d programs, %d packets: %d agree, %d undefined, %d not run, in %v", len(programs), len(packets),
		sum.Agree, sum.Undefined, sum.NotRun, time.Since(began).Round(time.Second/10))
	if sum.Agree < 2*sum.NotRun || sum.Agree == 0 {
		t.Errorf("only %d of %d were run", sum.Agree, sum.Agree+sum.NotRun)
	}
}

func testCalls(t *testing.T, r *Runner) {
	arch, high := uint32(0x40000028), "not run: the program reads the upper half of an argument, which is 0 here"
	if r.guest.system.GOARCH == "amd64" {
		arch, high = 0xc000003e, "2309737967"
	}
	call := kernelabi.Syscall{Data: seccompdata.Data{Nr: 39, Arch: arch, Args: [6]uint64{1, 2, 0x89abcdef << 32, 4, 5, 0x12345678}}}
	for _, test := range []struct{ desc, prog, want string }{
		{"All 32 bits of a constant come out.", "ret #0xfedcba98", "4275878552"},
		{"An error number of 4095 is no result.", "ret #0xffffffff", "4294967295"},
		{"Error number 0 is one.", "ret #0", "0"},
		{"A filter that allows does so for its process too.", "ret #0x7fff0000", "2147418112"},
		{"The call's number is seen.", "ld [0]; ret a", "39"},
		{"So is the architecture.", "ld [4]; sub #4; st M[3]; ldx M[3]; txa; ret a", strconv.FormatUint(uint64(arch)-4, 10)},
		{"An argument is seen.", "ld [56]; ret a", "305419896"},
		{"Its upper half is where arguments have one.", "ld [36]; ret a", high},
		{"Division by X = 0 kills, which is 0.", "ld #7; ldx #0; div x; ret #0x10000", "0"},
		{"What the checker refuses is rejected.", "ldb [0]; ret a", "rejected: the kernel refuses it: invalid argument"},
	} {
		if got := run(t, r, bpf.Seccomp, test.prog, &call); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.desc, got, test.want)
		}
	}
	other := call
	other.Nr, other.Args[5] = 1<<32-1, 7
	third := call
	third.Args[5] = 0
	out, err := r.Run(assemble(t, "ld [56]; tax; ld #21; div x; ret a"), bpf.Seccomp, []kernelabi.Input{&other, &third, &other}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{3, 0, 3} {
		if out[i].Kind != harness.Value || out[i].Value != want {
			t.Errorf("call %d of several, of which the second kills: %v %s, want %d", i, out[i], out[i].Why, want)
		}
	}
}

// testShift: a shift by more than 31 is left to the processor. That it gives 0 on
// ARM, and not what the kernel's interpreter gives, shows that the JIT is at work.
func testShift(t *testing.T, r *Runner) {
	want := "12" // 3 << (34 & 31)
	if r.guest.system.GOARCH == "arm" {
		want = "0"
	}
	if got := run(t, r, bpf.Socket, "ld #3; ldx #34; lsh x; ret a", kernelabi.NewSkb(make([]byte, 60))); got != want {
		t.Errorf("3 << 34 is %s, want %s", got, want)
	}
}
