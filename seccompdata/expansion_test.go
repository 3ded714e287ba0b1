package seccompdata

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
)

func TestConvertedInsns(t *testing.T) {
	f, err := os.Open("testdata/expansion.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var ins bpf.Instruction
		var want int
		if _, err := fmt.Sscan(lines.Text(), &ins.Code, &ins.JT, &ins.JF, &ins.K, &want); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if got := ConvertedInsns(ins); got != want {
			t.Errorf("%v counts %d, want %d", ins, got, want)
		}
		n++
	}
	if n < 168 {
		t.Errorf("only %d cases", n)
	}
}

func TestBlindedLen(t *testing.T) {
	allow := bpf.Instruction{Code: bpf.RetK, K: uint32(Allow)}
	for _, tt := range []struct {
		desc     string
		prog     bpf.Program
		want     int
		measured bool
	}{
		{"A return takes four instructions.", bpf.Program{allow}, 3 + 4, true},
		{"A comparison takes three.", bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.JeqK, JT: 1, K: 39}, allow, allow}, 3 + 1 + 3 + 4 + 4, true},
		{"Loads from the data have no constant.", bpf.Program{{Code: bpf.LdWAbs, K: 16}, {Code: bpf.RetA}}, 3 + 2, true},
		{"A comparison of another kind is an estimate.", bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.JgtK, JT: 1, K: 39}, allow, allow}, 3 + 1 + 3 + 4 + 4, false},
		{"A comparison with two targets is an estimate.", bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.JeqK, JT: 1, JF: 2, K: 39}, allow, allow, allow}, 3 + 1 + 4 + 12, false},
		{"A constant 0 that is only moved is not blinded.", bpf.Program{{Code: bpf.RetK}}, 3 + 2, false},
		{"Arithmetic is an estimate.", bpf.Program{{Code: bpf.AndK, K: 7}, {Code: bpf.RetA}}, 3 + 3 + 1, false},
	} {
		if got, measured := BlindedLen(tt.prog); got != tt.want || measured != tt.measured {
			t.Errorf("%s got %d, measured %v; want %d", tt.desc, got, measured, tt.want)
		}
	}
}

// pairs is a filter of a comparison and a return for each call, as in the
// measurements.
func pairs(n uint32) bpf.Program {
	prog := bpf.Program{
		{Code: bpf.LdWAbs, K: OffArch}, {Code: bpf.JeqK, JT: 1, K: ArchX86_64}, {Code: bpf.RetK}, {Code: bpf.LdWAbs},
	}
	for nr := range n {
		prog = append(prog, bpf.Instruction{Code: bpf.JeqK, JF: 1, K: nr}, bpf.Instruction{Code: bpf.RetK, K: uint32(Allow)})
	}
	return append(prog, bpf.Instruction{Code: bpf.RetK, K: uint32(Errno) | 38})
}

// TestDepth: what was measured of filters stacked over each other.
func TestDepth(t *testing.T) {
	for _, tt := range []struct {
		desc             string
		prog             bpf.Program
		converted, depth int
	}{
		{"One instruction", bpf.Program{{Code: bpf.RetK, K: uint32(Allow)}}, 5, 3641},
		{"306 pairs", pairs(306), 929, 35},
		{"The longest filter", slices.Repeat(bpf.Program{{Code: bpf.RetK}}, bpf.MaxInsns), 8195, 3},
	} {
		f, err := NewFilter(tt.desc, tt.prog)
		if err != nil {
			t.Fatal(err)
		}
		if f.Converted != tt.converted {
			t.Errorf("%s: length %d, want %d", tt.desc, f.Converted, tt.converted)
		}
		var chain Chain
		for err == nil {
			chain, err = chain.Attach(Attached{Filter: f})
		}
		if chain.Len() != tt.depth || (Chain{}).Depth(f.Converted) != tt.depth {
			t.Errorf("%s: depth %d and %d, want %d", tt.desc, chain.Len(), Chain{}.Depth(f.Converted), tt.depth)
		}
		if left := chain.Depth(f.Converted); left != 0 {
			t.Errorf("%s: %d more are said to fit", tt.desc, left)
		}
	}
}
