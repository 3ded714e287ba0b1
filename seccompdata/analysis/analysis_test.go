package analysis

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/seccompdata"
)

// seeded returns a random source, from KJIT_SEED if that is set.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KJIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// readFilter reads a filter of testdata by its name.
func readFilter(t testing.TB, name string) *seccompdata.Filter {
	return readFilterFile(t, filepath.Join("testdata", name+".ddd"))
}

func readFilterFile(t testing.TB, file string) *seccompdata.Filter {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parseFilter(t, file, data)
}

// assemble makes a filter of bpf_asm source, in which ; ends a line.
func assemble(t testing.TB, source string) *seccompdata.Filter {
	t.Helper()
	return parseFilter(t, source, []byte(strings.ReplaceAll(source, ";", "\n")))
}

func parseFilter(t testing.TB, name string, data []byte) *seccompdata.Filter {
	t.Helper()
	l, err := bpftext.Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return newFilter(t, l.Program)
}

func newFilter(t testing.TB, prog bpf.Program) *seccompdata.Filter {
	t.Helper()
	f, err := seccompdata.NewFilter("", prog)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func one(f *seccompdata.Filter) []*seccompdata.Filter { return []*seccompdata.Filter{f} }

// number is one at which filters tend to change their minds.
func number(r *rand.Rand) uint32 {
	v := []uint32{0, 1, 2, 0x66, 0x7fffffff, 0x80000000, 0xffffffff, seccompdata.X32Bit, seccompdata.ArchX86_64, seccompdata.ArchI386, seccompdata.ArchARM}[r.IntN(11)]
	switch r.IntN(4) {
	case 0:
		v = r.Uint32() >> r.IntN(32)
	case 1:
		v += r.Uint32N(3) - 1
	}
	return v
}

var returns = []uint32{0x7fff0000, 0x00050001, 0x00050026, 0, 0x80000000, 0x00030000, 0x7ff00001}

// randomFilter returns a small filter with words compared as real ones do, and
// now and then arithmetic that real ones do not have.
func randomFilter(r *rand.Rand, body int) bpf.Program {
	words := []uint32{seccompdata.OffNr, seccompdata.OffArch, argLow(0), argHigh(0)}
	alu := []uint16{bpf.AndK, bpf.AndK, bpf.OrK, bpf.AddK, bpf.RshK, bpf.XorK, bpf.AddX}
	jumps := []uint16{bpf.JeqK, bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK, bpf.JeqX}
	for {
		var p bpf.Program
		for range body {
			ins := bpf.Instruction{K: number(r)}
			switch n := r.IntN(12); {
			case n < 4:
				ins = bpf.Instruction{Code: bpf.LdWAbs, K: words[r.IntN(len(words))]}
			case n < 5:
				if ins.Code = alu[r.IntN(len(alu))]; ins.Code == bpf.RshK {
					ins.K &= 31
				}
			case n < 10:
				ins.Code, ins.JT, ins.JF = jumps[r.IntN(len(jumps))], uint8(r.IntN(4)), uint8(r.IntN(4))
			case n < 11:
				ins = bpf.Instruction{Code: bpf.Tax}
			default:
				ins = bpf.Instruction{Code: bpf.RetK, K: returns[r.IntN(len(returns))]}
			}
			p = append(p, ins)
		}
		for range 4 {
			p = append(p, bpf.Instruction{Code: bpf.RetK, K: returns[r.IntN(len(returns))]})
		}
		if bpf.Check(p, bpf.Seccomp, bpf.RulesCurrent) == nil {
			return p
		}
	}
}

// randomCall returns a call that a kernel can make.
func randomCall(r *rand.Rand) seccompdata.Data {
	d := seccompdata.Data{Nr: number(r), Arch: number(r)}
	d.Args[0] = uint64(number(r)) | uint64(number(r))<<32*uint64(r.IntN(2))
	if r.IntN(3) == 0 {
		d.Args[0] = uint64(d.Nr)
	}
	if abi := seccompdata.ABIOf(d.Arch, d.Nr); abi != nil && abi.Bits == 32 {
		d.Args[0] = uint64(uint32(d.Args[0]))
	}
	return d
}
