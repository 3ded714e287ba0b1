package probe

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// assemble assembles statements separated by semicolons.
func assemble(t *testing.T, text string) bpf.Program {
	t.Helper()
	l, err := bpftext.ParseAs(bpftext.Asm, "test", []byte(strings.ReplaceAll(text, ";", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return l.Program
}

// TestSliced: on the interpreter, the slices of the corpus put together are what
// the programs return.
func TestSliced(t *testing.T) {
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		whole, err := bpf.Compile(p.Program, p.Kind, bpf.RulesCurrent)
		if p.Kind != bpf.Socket || err != nil {
			continue
		}
		for _, width := range []int{1, 5, 8, 16} {
			var pieces []*bpf.Machine
			for shift := 0; shift < 32; shift += width {
				slice, err := sliced(p.Program, shift, min(width, 32-shift))
				if errors.Is(err, errTooLong) && len(p.Program) > bpf.MaxInsns-64 {
					break
				}
				var m *bpf.Machine
				if err == nil {
					m, err = bpf.Compile(slice, p.Kind, bpf.RulesCurrent)
				}
				if err != nil {
					t.Fatalf("%s: %v", p.Name, err)
				}
				pieces = append(pieces, m)
			}
			for i, packet := range packets {
				var got uint32
				for n, m := range pieces {
					v := m.Run(packet.Skb.Under(kernelabi.Semantics{})).Value
					if v >= 1<<width {
						t.Fatalf("%s, packet %d: slice %d of %d bits is %#x", p.Name, i, n, width, v)
					}
					got |= v << (n * width)
				}
				if want := whole.Run(packet.Skb.Under(kernelabi.Semantics{})).Value; got != want && len(pieces) > 0 {
					t.Fatalf("%s, packet %d, %d bits at a time: %#x, want %#x", p.Name, i, width, got, want)
				}
			}
		}
	}
}

func TestVisibleBits(t *testing.T) {
	for n := range 70000 {
		bits := visibleBits(n)
		if n > 0 && 1<<bits-1 > n || bits < 16 && 1<<(bits+1)-1 <= n {
			t.Fatalf("%d bytes show %d bits", n, bits)
		}
	}
}

// TestAnswering: on the interpreter, a call with the signal is answered with a
// part of the value, and one without it passes.
func TestAnswering(t *testing.T) {
	prog := assemble(t, "ld [0]; jeq #7, l; ld [16]; ret a; l: ret #0xfedcba98")
	const word = 60
	filter, err := answering(prog, word)
	if err != nil {
		t.Fatal(err)
	}
	m, err := bpf.Compile(filter, bpf.Seccomp, bpf.RulesCurrent)
	if err != nil {
		t.Fatal(err)
	}
	for nr, want := range map[uint32]uint32{7: 0xfedcba98, 8: 0x12345678} {
		call := seccompdata.Data{Nr: nr, Args: [6]uint64{0x12345678}}
		if v := m.Run(&call).Value; v != retAllow {
			t.Errorf("a call without the signal gets %#x", v)
		}
		var got uint32
		for part := range uint32(parts) {
			call.Args[5] = uint64(signal|part) << 32
			v := m.Run(&call).Value
			if v&^0xfff != retErrno {
				t.Errorf("part %d of call %d is %#x", part, nr, v)
			}
			got |= v & 0xfff << (part * partBits)
		}
		if got != want {
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
		}
	}
}

func TestDerivedPrograms(t *testing.T) {
	long := slices.Repeat(bpf.Program{{Code: bpf.Tax}}, bpf.MaxInsns-1)
	long = append(long, bpf.Instruction{Code: bpf.RetA})
	if _, err := sliced(long, 0, 8); !errors.Is(err, errTooLong) {
		t.Errorf("a program of full length: %v", err)
	}
	if _, err := answering(long, 60); !errors.Is(err, errTooLong) {
		t.Errorf("a filter of full length: %v", err)
	}
	none := bpf.Program{{Code: bpf.Tax}}
	if got, err := sliced(none, 0, 8); err != nil || !slices.Equal(got, none) {
		t.Errorf("a program without a return: %v, %v", got, err)
	}
}
