package shrink

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

func program(t testing.TB, source string) bpf.Program {
	t.Helper()
	l, err := bpftext.Parse("source", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return l.Program
}

// has returns a predicate: the program holds the code.
func has(code uint16) func(bpf.Program, kernelabi.Input) bool {
	return func(prog bpf.Program, _ kernelabi.Input) bool {
		return slices.ContainsFunc(prog, func(ins bpf.Instruction) bool { return ins.Code == code })
	}
}

// returns is a predicate: the program returns the value.
func returns(value uint32) func(bpf.Program, kernelabi.Input) bool {
	return func(prog bpf.Program, in kernelabi.Input) bool {
		m, err := bpf.Compile(prog, kindOf(in), bpf.RulesCurrent)
		return err == nil && m.Run(in.Under(kernelabi.Current().Semantics)).Value == value
	}
}

func kindOf(in kernelabi.Input) bpf.Kind {
	if _, ok := in.(*kernelabi.Syscall); ok {
		return bpf.Seccomp
	}
	return bpf.Socket
}

func both(a, b func(bpf.Program, kernelabi.Input) bool) func(bpf.Program, kernelabi.Input) bool {
	return func(prog bpf.Program, in kernelabi.Input) bool { return a(prog, in) && b(prog, in) }
}

func TestPrograms(t *testing.T) {
	for _, tt := range []struct {
		desc, source, want string
		shows              func(bpf.Program, kernelabi.Input) bool
	}{
		{"What is not needed goes.", "ld [0]\nadd #1\nmul #77\nsub #2\nret a", "mul #0\nret #0", has(bpf.MulK)},
		{"Jumps over what goes are mended.", "ld [0]\njeq #5, l1, l2\nl1: add #1\nadd #2\njmp l3\nl2: sub #3\nl3: neg\nret a", "neg\nret #0", has(bpf.Neg)},
		{"A jump that is needed goes to the next instruction.", "ld #4\njgt #3, l1, l2\nl2: add #1\nret a\nl1: ret #1", "jgt #0, l1, l1\nl1: ret #0", has(bpf.JgtK)},
		{"Cells are renumbered.", "ld #4\nst M[7]\nldx M[7]\nst M[9]\nret a", "st M[0]\nldx M[0]\nret #0", has(bpf.LdxMem)},
		{"Constants get round, those in several places together.", "ld #0x1234567\njeq #0x1234567, l1, l2\nl2: ret #7\nl1: ret #0x1ffff", "ld #0x8000\njeq #0x8000, l1, l1\nl1: ret #0", func(prog bpf.Program, in kernelabi.Input) bool {
			return len(prog) > 2 && prog[0].K == prog[1].K && prog[0].K > 1000 && prog[0].K < 1<<31 && has(bpf.JeqK)(prog, in)
		}},
		{"What a load gives is put in its place.", "ldh [12]\nlsh #4\nret a", "ret #0x8000", returns(0x8000)},
		{"Both the jump and its other way are needed.", "ld #3\njeq #3, l1, l2\nl2: ret #0\nl1: ret #9", "jeq #0, l1, l2\nl2: ret #0\nl1: ret #1", func(prog bpf.Program, in kernelabi.Input) bool {
			return has(bpf.JeqK)(prog, in) && !returns(0)(prog, in) && slices.Contains(prog, bpf.Instruction{Code: bpf.RetK})
		}},
	} {
		packet := make([]byte, 60)
		packet[12], packet[13] = 0x08, 0x00
		res := Shrink(program(t, tt.source), kernelabi.NewSkb(packet), tt.shows, Options{})
		if diff := cmp.Diff(program(t, tt.want), res.Program); diff != "" {
			got, _ := bpftext.Format(bpftext.Asm, res.Program)
			t.Errorf("%s got\n%s(-want +got):\n%s", tt.desc, got, diff)
		}
		if !res.Complete {
			t.Errorf("%s not complete after %d tries", tt.desc, res.Tries)
		}
	}
}

func TestInputs(t *testing.T) {
	packet := make([]byte, 90)
	for i := range packet {
		packet[i] = byte(i + 1)
	}
	skb := kernelabi.NewSkb(packet).Split(20, 10, 30)
	skb.Mark, skb.VlanPresent, skb.CPU = 0x1234, true, 3
	for _, tt := range []struct {
		desc  string
		shows func(*kernelabi.Skb) bool
		want  *kernelabi.Skb
	}{
		{"Nothing is needed.", func(*kernelabi.Skb) bool { return true }, &kernelabi.Skb{NetworkHeader: 14, Packet: []byte{}}},
		{"A length.", func(p *kernelabi.Skb) bool { return len(p.Packet) >= 7 }, &kernelabi.Skb{NetworkHeader: 14, Packet: make([]byte, 7), Headlen: 7}},
		{"A byte.", func(p *kernelabi.Skb) bool { return len(p.Packet) > 2 && p.Packet[2] > 2 }, &kernelabi.Skb{NetworkHeader: 14, Packet: []byte{0, 0, 0x10}, Headlen: 3}},
		{"Fragments, but not so many.", func(p *kernelabi.Skb) bool { return !p.IsLinear() }, &kernelabi.Skb{NetworkHeader: 14, Packet: []byte{0}, Frags: []int{1}}},
		{"Two fragments.", func(p *kernelabi.Skb) bool { return len(p.Frags) > 1 }, &kernelabi.Skb{NetworkHeader: 14, Packet: make([]byte, 2), Frags: []int{1, 1}}},
		{"A mark.", func(p *kernelabi.Skb) bool { return p.Mark != 0 }, &kernelabi.Skb{NetworkHeader: 14, Packet: []byte{}, Mark: 1}},
		{"A tag.", func(p *kernelabi.Skb) bool { return p.VlanPresent }, &kernelabi.Skb{NetworkHeader: 14, Packet: []byte{}, VlanPresent: true}},
	} {
		prog := bpf.Program{{Code: bpf.RetK}}
		res := Shrink(prog, skb, func(_ bpf.Program, in kernelabi.Input) bool { return tt.shows(in.(*kernelabi.Skb)) }, Options{})
		if diff := cmp.Diff(tt.want, res.Input); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, diff)
		}
	}
	call := &kernelabi.Syscall{Data: seccompdata.Data{Nr: 59, Arch: 0xc000003e, IP: 0x7fff12345678, Args: [6]uint64{1, 2, 0x1_0000_0003}}}
	res := Shrink(program(t, "ld [32]\nadd #1\nret a"), call, func(prog bpf.Program, in kernelabi.Input) bool {
		return in.(*kernelabi.Syscall).Args[2]>>32 != 0 && has(bpf.LdWAbs)(prog, in)
	}, Options{})
	if diff := cmp.Diff(&kernelabi.Syscall{Data: seccompdata.Data{Args: [6]uint64{2: 1 << 32}}}, res.Input); diff != "" {
		t.Errorf("a system call (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(program(t, "ld [0]\nret #0"), res.Program); diff != "" {
		t.Errorf("a seccomp filter (-want +got):\n%s", diff)
	}
}

func TestBounds(t *testing.T) {
	p, err := corpus.ProgramByName("long")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	count := func(bpf.Program, kernelabi.Input) bool { asked++; return asked == 1 }
	res := Shrink(p.Program, kernelabi.NewSkb(make([]byte, 60)), count, Options{Tries: 100})
	if res.Tries != 100 || asked != 100 || res.Complete || res.Taken != 0 || !slices.Equal(res.Program, p.Program) {
		t.Errorf("with 100 tries: %d asked, %+v", asked, res)
	}
	asked = 0
	res = Shrink(p.Program, kernelabi.NewSkb(nil), count, Options{Stop: func() bool { return asked >= 200 }})
	if asked < 200 || asked > 300 || res.Complete {
		t.Errorf("stopped after %d", asked)
	}
	res = Shrink(p.Program, kernelabi.NewSkb(nil), func(bpf.Program, kernelabi.Input) bool { return false }, Options{})
	if res.Tries != 1 || res.Complete || !slices.Equal(res.Program, p.Program) {
		t.Errorf("what does not show it at all: %+v", res)
	}
}

// TestRandom: whatever is asked, every candidate passes the checker, the end
// shows it, and the same start gives the same end.
func TestRandom(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("KJIT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 0, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	for _, p := range programs {
		if p.Kind != bpf.Socket || p.RefusedBy(bpf.RulesCurrent) || len(p.Program) > 300 {
			continue
		}
		skb := packets[rng.IntN(len(packets))].Skb.Split(rng.IntN(40), rng.IntN(20)+1)
		m, err := bpf.Compile(p.Program, p.Kind, bpf.RulesCurrent)
		if err != nil {
			t.Fatal(err)
		}
		value := m.Run(skb.Under(kernelabi.Current().Semantics)).Value
		shows := both(has(p.Program[rng.IntN(len(p.Program))].Code), returns(value))
		checked := func(prog bpf.Program, in kernelabi.Input) bool {
			if err := bpf.Check(prog, bpf.Socket, bpf.RulesCurrent); err != nil {
				t.Fatalf("%s: a candidate does not pass: %v", p.Name, err)
			}
			if err := in.(*kernelabi.Skb).Check(); err != nil {
				t.Fatalf("%s: a candidate is no packet: %v", p.Name, err)
			}
			return shows(prog, in)
		}
		res := Shrink(p.Program, skb, checked, Options{})
		if !shows(res.Program, res.Input) || len(res.Program) > len(p.Program) || !res.Complete {
			t.Errorf("%s: %+v", p.Name, res)
		}
		if diff := cmp.Diff(res, Shrink(p.Program, skb, shows, Options{})); diff != "" {
			t.Errorf("%s: the second time\n%s", p.Name, diff)
		}
		tries += res.Tries
	}
	t.Logf("%d tries", tries)
}

// BenchmarkShrink is what a try costs beside the question itself.
func BenchmarkShrink(b *testing.B) {
	var prog bpf.Program
	for i := range uint32(99) {
		prog = append(prog, bpf.Instruction{Code: bpf.AddK, K: i * 12345})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.MulK, K: 77}, bpf.Instruction{Code: bpf.RetA})
	skb := kernelabi.NewSkb(make([]byte, 60))
	many := func(prog bpf.Program, _ kernelabi.Input) bool { return len(prog) > 60 && prog[40].Code == bpf.AddK }
	tries := 0
	for b.Loop() {
		tries += Shrink(prog, skb, many, Options{}).Tries
	}
	b.ReportMetric(float64(tries)/b.Elapsed().Seconds(), "tries/s")
}

func ExampleShrink() {
	prog := bpf.Program{{Code: bpf.LdHAbs, K: 12}, {Code: bpf.LshK, K: 4}, {Code: bpf.AndK, K: 0xff00}, {Code: bpf.RetA}}
	packet := kernelabi.NewSkb([]byte("0123456789abcdef"))
	res := Shrink(prog, packet, func(prog bpf.Program, _ kernelabi.Input) bool {
		return slices.ContainsFunc(prog, func(ins bpf.Instruction) bool { return ins.Code == bpf.AndK })
	}, Options{})
	text, _ := bpftext.Format(bpftext.D, res.Program)
	fmt.Printf("%s%d bytes\n", text, len(res.Input.(*kernelabi.Skb).Packet))
	// Output:
	// (000) and      #0x0
	// (001) ret      #0
	// 0 bytes
}
