package paths

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
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

// testWords are what random programs load: few, so that they meet again.
var testWords = []uint32{0, 4, 16}

// edge returns a number at which something may change.
func edge(r *rand.Rand) uint32 {
	v := []uint32{0, 1, 2, 3, 5, 16, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0xc000003e, 0x40000000}[r.IntN(12)]
	switch r.IntN(4) {
	case 0:
		v = r.Uint32() >> r.IntN(32)
	case 1:
		v += r.Uint32N(3) - 1
	}
	return v
}

// randomProgram returns a program that the checker accepts.
func randomProgram(r *rand.Rand, body int) bpf.Program {
	alu := []uint16{bpf.AddK, bpf.SubK, bpf.MulK, bpf.DivK, bpf.OrK, bpf.AndK, bpf.LshK, bpf.RshK, bpf.XorK}
	jumps := []uint16{bpf.JeqK, bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK}
	for {
		var p bpf.Program
		for range body {
			ins := bpf.Instruction{K: edge(r)}
			switch n := r.IntN(20); {
			case n < 5:
				ins = bpf.Instruction{Code: bpf.LdWAbs, K: testWords[r.IntN(len(testWords))]}
			case n < 8:
				ins.Code = alu[r.IntN(len(alu))]
				if ins.Code == bpf.LshK || ins.Code == bpf.RshK {
					ins.K &= 31
				}
			case n < 14:
				ins.Code, ins.JT, ins.JF = jumps[r.IntN(len(jumps))], uint8(r.IntN(4)), uint8(r.IntN(4))
			case n == 14:
				ins.Code, ins.JT, ins.JF = jumps[r.IntN(len(jumps))]|8, uint8(r.IntN(4)), uint8(r.IntN(4))
			case n == 15:
				ins.Code = alu[r.IntN(len(alu))] | 8
			case n == 16:
				ins.Code = []uint16{bpf.LdImm, bpf.LdxImm, bpf.LdLen, bpf.LdxLen, bpf.Neg}[r.IntN(5)]
			case n == 17:
				ins.Code = []uint16{bpf.Tax, bpf.Txa}[r.IntN(2)]
			case n == 18:
				ins.Code, ins.K = []uint16{bpf.St, bpf.Stx, bpf.LdMem, bpf.LdxMem}[r.IntN(4)], r.Uint32N(2)
			default:
				ins = bpf.Instruction{Code: []uint16{bpf.RetK, bpf.RetA, bpf.Ja}[r.IntN(3)], K: r.Uint32N(3)}
			}
			p = append(p, ins)
		}
		for k := range uint32(4) { // jumps over the end of the body land here
			p = append(p, bpf.Instruction{Code: bpf.RetK, K: 100 + k})
		}
		p = append(p, bpf.Instruction{Code: bpf.RetA})
		if bpf.Check(p, bpf.Seccomp, bpf.RulesCurrent) == nil {
			return p
		}
	}
}

// randomInputs returns inputs of which many lie where the program decides: made
// of its constants.
func randomInputs(r *rand.Rand, prog bpf.Program, n int) []Words {
	constants := []uint32{0, 1, 1<<32 - 1}
	for _, ins := range prog {
		constants = append(constants, ins.K, ins.K-1, ins.K+1, -ins.K)
	}
	var out []Words
	for range n {
		in := Words{}
		for _, word := range testWords {
			switch r.IntN(4) {
			case 0:
				in[word] = edge(r)
			case 1:
				in[word] = constants[r.IntN(len(constants))] ^ constants[r.IntN(len(constants))]<<r.IntN(2)
			case 2:
				in[word] = constants[r.IntN(len(constants))]
			default: // a word that equals another
				in[word] = in[testWords[r.IntN(len(testWords))]]
			}
		}
		out = append(out, in)
	}
	return out
}

// attack holds everything that is claimed about a program against the
// interpreter, and reports whether the analysis was within its limits.
func attack(t *testing.T, r *rand.Rand, prog bpf.Program) bool {
	machine, err := bpf.Compile(prog, bpf.Seccomp, bpf.RulesCurrent)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSpace(4, 0)
	m, err := s.Explore(prog, Options{Within: Always})
	var limit *LimitError
	if errors.As(err, &limit) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []Path
	complete := true
	for p, err := range s.Paths(prog, Options{Within: Always}) {
		if errors.As(err, &limit) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, p); len(all) == 300 {
			complete = false
			break
		}
	}

	inputs := randomInputs(r, prog, 100)
	for _, p := range all {
		in, answer := s.Witness(p.Cond)
		switch {
		case answer == Impossible && s.Exact(p.Cond):
			t.Errorf("path %v: an exact condition that holds for nothing", p.PCs)
		case answer == Unknown && s.Exact(p.Cond):
			t.Errorf("path %v: no witness of an exact condition", p.PCs)
		case answer == Impossible:
			// An atom refuted it: some input below may prove this wrong.
		case answer == Found:
			if !s.Holds(p.Cond, in) {
				t.Errorf("path %v: the witness %v is not in its condition", p.PCs, in)
			}
			var pcs []int
			got := machine.Trace(in, func(st bpf.State) { pcs = append(pcs, st.PC) })
			if diff := cmp.Diff(p.PCs, pcs); diff != "" {
				t.Errorf("the witness %v takes another path (-want +got):\n%s", in, diff)
			}
			if want := p.Value.Eval(in); got.Value != want || got.DivZero != p.DivZero {
				t.Errorf("path %v: value %#x with input %v, the interpreter has %+v", p.PCs, want, in, got)
			}
			inputs = append(inputs, in)
		}
	}
	for _, in := range inputs {
		got := machine.Run(in)
		ends := 0
		for _, e := range m.Ends {
			if !s.Holds(e.Cond, in) {
				continue
			}
			ends++
			if e.PC != got.PC || e.Value.Eval(in) != got.Value || e.DivZero != got.DivZero {
				t.Errorf("input %v ends at %d with %#x, the interpreter has %+v", in, e.PC, e.Value.Eval(in), got)
			}
		}
		if ends != 1 {
			t.Errorf("input %v is in %d ends, want 1", in, ends)
		}
		taken := 0
		for _, p := range all {
			if s.Holds(p.Cond, in) {
				taken++
				if _, answer := s.Witness(p.Cond); answer == Impossible {
					t.Errorf("input %v takes path %v, which is said to be impossible", in, p.PCs)
				}
			}
		}
		if taken > 1 || complete && taken != 1 {
			t.Errorf("input %v takes %d paths, want 1", in, taken)
		}
		pcs := map[int]bool{}
		machine.Trace(in, func(st bpf.State) { pcs[st.PC] = true })
		for pc := range prog {
			if pcs[pc] != s.Holds(m.Reach[pc], in) {
				t.Errorf("input %v reaches %d: %v, by the analysis %v", in, pc, pcs[pc], !pcs[pc])
			}
		}
	}
	if t.Failed() {
		t.Logf("program %v", prog)
	}
	return true
}

func TestRandomPrograms(t *testing.T) {
	r := seeded(t)
	count, gaveUp := 1500, 0
	if testing.Short() {
		count = 200
	}
	for range count {
		if !attack(t, r, randomProgram(r, 2+r.IntN(14))) {
			gaveUp++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("gave up on %d of %d programs", gaveUp, count)
	if gaveUp > count/100 {
		t.Errorf("gave up on %d of %d small programs", gaveUp, count)
	}
}

// FuzzPrograms: whatever the checker accepts is analysed right, or given up.
func FuzzPrograms(f *testing.F) {
	r := seeded(f)
	for range 20 {
		var seed []byte
		for _, ins := range randomProgram(r, 8) {
			seed = binary.LittleEndian.AppendUint16(seed, ins.Code)
			seed = append(seed, ins.JT, ins.JF)
			seed = binary.LittleEndian.AppendUint32(seed, ins.K)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var prog bpf.Program
		for ; len(raw) >= 8 && len(prog) < 40; raw = raw[8:] {
			ins := bpf.Instruction{Code: binary.LittleEndian.Uint16(raw), JT: raw[2], JF: raw[3], K: binary.LittleEndian.Uint32(raw[4:])}
			if ins.Code == bpf.LdWAbs {
				ins.K = testWords[ins.K%uint32(len(testWords))]
			}
			prog = append(prog, ins)
		}
		if bpf.Check(prog, bpf.Seccomp, bpf.RulesCurrent) == nil {
			attack(t, rand.New(rand.NewPCG(1, 1)), prog)
		}
	})
}

// Every operation with a constant, and every chain of them, is exact.
func TestComparisonsWithConstants(t *testing.T) {
	r := seeded(t)
	alu := []uint16{bpf.AddX, bpf.SubX, bpf.OrX, bpf.AndX, bpf.LshX, bpf.RshX, bpf.XorX, bpf.MulX, bpf.DivX, bpf.ModX, bpf.Neg}
	exact := map[uint16]int{}
	for range 1500 {
		s := NewSpace()
		e := s.Word(8)
		var last uint16
		for range r.IntN(4) {
			last = alu[r.IntN(len(alu))]
			k := edge(r)
			switch {
			case last == bpf.Neg:
				e = s.Neg(e)
				continue
			case last == bpf.MulX && r.IntN(2) == 0:
				k %= 1000
			case k == 0:
				k = 7
			}
			if r.IntN(8) == 0 && last != bpf.DivX && last != bpf.ModX {
				e = s.Op(last, s.Const(k), e)
			} else {
				e = s.Op(last, e, s.Const(k))
			}
		}
		code := []uint16{bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK}[r.IntN(4)]
		k := edge(r)
		if r.IntN(2) == 0 {
			k = e.Eval(Words{8: edge(r)}) // a value that it has
		}
		c := s.Compare(code, e, s.Const(k))
		if s.Exact(c) {
			exact[last]++
		} else {
			exact[last] += 0
			if !strings.ContainsAny(e.String(), "*/%<") {
				t.Errorf("%v compared with %#x is not exact", e, k)
			}
		}
		inputs := []uint32{0, 1, 1<<32 - 1, k, k - 1, k + 1, -k}
		if s.Exact(c) {
			inputs = append(inputs, s.Marks(c, 8, 20)...)
		}
		for range 100 {
			inputs = append(inputs, edge(r))
		}
		for _, v := range inputs {
			in := Words{8: v}
			if got, want := s.Holds(c, in), holds(code|8, e.Eval(in), k); got != want {
				t.Fatalf("%v %s %#x with %#x: %v, want %v", e, symbols[code|8], k, v, got, want)
			}
		}
	}
	t.Logf("exact by last operation: %v", exact)
	for _, op := range alu {
		if exact[op] == 0 {
			t.Errorf("no chain that ends with code %#x was exact", op)
		}
	}
}

func TestWitness(t *testing.T) {
	const a, b, c = 16, 24, 32
	for _, tt := range []struct {
		desc string
		cond func(s *Space) Cond
		want Answer
	}{
		{"Hundreds of excluded values leave some.", func(s *Space) Cond {
			out := Always
			for k := range uint32(1000) {
				out = s.AndNot(out, s.Is(a, 3*k))
			}
			return out
		}, Found},
		{"All values of a masked word being excluded leaves none.", func(s *Space) Cond {
			out := Always
			for k := range uint32(256) {
				out = s.AndNot(out, s.Masked(a, 0x00ff0000, k<<16))
			}
			return out
		}, Impossible},
		{"Masks that overlap are decided together.", func(s *Space) Cond {
			return s.And(s.And(s.Masked(a, 0x0ff0, 0x0120), s.Masked(a, 0xf00f, 0x3004)), s.Between(a, 0x3125, 0x3fff))
		}, Impossible},
		{"A mask and a range meet in one value.", func(s *Space) Cond {
			return s.And(s.Masked(a, 0xfffffff0, 0x3120), s.Between(a, 0x312f, 0x4000))
		}, Found},
		{"Two words can be equal.", func(s *Space) Cond {
			return s.And(s.Compare(bpf.JeqX, s.Word(a), s.Word(b)), s.Between(b, 77, 1<<31))
		}, Found},
		{"The sum of two words can be a third that is restricted.", func(s *Space) Cond {
			sum := s.Op(bpf.AddX, s.Word(a), s.Word(b))
			return s.And(s.Compare(bpf.JeqX, sum, s.Word(c)), s.And(s.Is(c, 5), s.Between(a, 1000, 2000)))
		}, Found},
		{"A small word above all values of another is impossible, found by trying each.", func(s *Space) Cond {
			return s.And(s.Compare(bpf.JgtX, s.Word(a), s.Word(b)), s.And(s.Between(a, 0, 9), s.Between(b, 9, 1<<32-1)))
		}, Impossible},
		{"An atom excludes its contrary.", func(s *Space) Cond {
			gt := s.Compare(bpf.JgtX, s.Word(a), s.Word(b))
			le := s.Compare(bpf.JgeX, s.Word(b), s.Word(a))
			return s.And(gt, le)
		}, Impossible},
		{"A square that is no square is not known to be impossible.", func(s *Space) Cond {
			return s.Compare(bpf.JeqX, s.Op(bpf.MulX, s.Word(a), s.Word(a)), s.Op(bpf.OrX, s.Op(bpf.LshX, s.Word(b), s.Const(2)), s.Const(2)))
		}, Unknown},
	} {
		s := NewSpace()
		cond := tt.cond(s)
		in, got := s.Witness(cond)
		if got != tt.want {
			t.Errorf("%s got %v, want %v", tt.desc, got, tt.want)
		}
		if got == Found && !s.Holds(cond, in) {
			t.Errorf("%s %v is no witness", tt.desc, in)
		}
	}
}

func TestSplit(t *testing.T) {
	s := NewSpace(0, 16)
	c := s.Or(s.And(s.Between(0, 10, 19), s.Is(16, 1)), s.Between(0, 30, 1<<32-1))
	c = s.Or(c, s.And(s.Is(0, 5), s.Is(16, 1)))
	type part struct {
		Values []Run
		Rest   Cond
	}
	var got []part
	for _, p := range s.Split(c, 0) {
		runs, _ := s.Runs(p.Values, 0, 10)
		got = append(got, part{runs, p.Rest})
	}
	want := []part{{[]Run{{5, 5}, {10, 19}}, s.Is(16, 1)}, {[]Run{{30, 1<<32 - 1}}, Always}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := s.Count(s.Split(c, 0)[0].Values, 0); n != 11 {
		t.Errorf("%d values, want 11", n)
	}
}

func TestExponentiallyManyPaths(t *testing.T) {
	// 40 tests of single bits, all paths joining after each: 2^40 paths.
	var prog bpf.Program
	for bit := range uint32(40) {
		prog = append(prog,
			bpf.Instruction{Code: bpf.LdWAbs, K: 16 + bit/32*8},
			bpf.Instruction{Code: bpf.JsetK, K: 1 << (bit % 32), JT: 0, JF: 1},
			bpf.Instruction{Code: bpf.LdImm, K: 3})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.RetK, K: 1})
	s := NewSpace()
	m, err := s.Explore(prog, Options{Within: Always})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Ends) != 1 || m.Ends[0].Cond != Always {
		t.Errorf("ends %v, want one, always", m.Ends)
	}
	n := 0
	for range s.Paths(prog, Options{Within: Always}) {
		if n++; n == 5000 {
			break
		}
	}
	if n != 5000 {
		t.Errorf("%d paths", n)
	}
}

func TestGivesUp(t *testing.T) {
	// A sum of any of 30 numbers: every step has twice as many states.
	var prog bpf.Program
	prog = append(prog, bpf.Instruction{Code: bpf.LdxImm})
	for bit := range uint32(30) {
		prog = append(prog,
			bpf.Instruction{Code: bpf.LdWAbs, K: 16},
			bpf.Instruction{Code: bpf.JsetK, K: 1 << bit, JT: 0, JF: 3},
			bpf.Instruction{Code: bpf.Txa},
			bpf.Instruction{Code: bpf.AddK, K: 3 << bit},
			bpf.Instruction{Code: bpf.Tax})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.Txa}, bpf.Instruction{Code: bpf.RetA})
	_, err := NewSpace().Explore(prog, Options{Within: Always, Limit: 100_000})
	var limit *LimitError
	if !errors.As(err, &limit) {
		t.Errorf("got %v, want a LimitError", err)
	}
	_, err = NewSpace().Explore(bpf.Program{{Code: bpf.LdHAbs}, {Code: bpf.RetA}}, Options{Within: Always})
	var check *bpf.CheckError
	if !errors.As(err, &check) {
		t.Errorf("a socket filter: got %v, want a CheckError", err)
	}
}

// Values that are squared over and over neither take exponential time to
// evaluate nor to print.
func TestDeepExpressions(t *testing.T) {
	prog := bpf.Program{{Code: bpf.LdWAbs, K: 16}}
	for range 1000 {
		prog = append(prog, bpf.Instruction{Code: bpf.Tax}, bpf.Instruction{Code: bpf.AddK, K: 1}, bpf.Instruction{Code: bpf.MulX})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.RetA})
	machine, err := bpf.Compile(prog, bpf.Seccomp, bpf.RulesCurrent)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewSpace().Explore(prog, Options{Within: Always})
	if err != nil {
		t.Fatal(err)
	}
	in := Words{16: 12345}
	if got, want := m.Ends[0].Value.Eval(in), machine.Run(in).Value; got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
	if text := m.Ends[0].Value.String(); len(text) > 2000 {
		t.Errorf("%d characters", len(text))
	}
}

// dockerProgram reads a copy of a filter that libseccomp made of Docker's
// profile (tcpdump -ddd form).
func readDDD(t testing.TB, file string) bpf.Program {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var prog bpf.Program
	for _, line := range slices.Collect(strings.Lines(string(data)))[1:] {
		var n [4]uint64
		for i, field := range strings.Fields(line) {
			if n[i], err = strconv.ParseUint(field, 10, 32); err != nil {
				t.Fatal(err)
			}
		}
		prog = append(prog, bpf.Instruction{Code: uint16(n[0]), JT: uint8(n[1]), JF: uint8(n[2]), K: uint32(n[3])})
	}
	return prog
}

func TestRealFilters(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.ddd")
	if len(files) == 0 {
		t.Fatal("no filters in testdata")
	}
	r := seeded(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".ddd"), func(t *testing.T) {
			prog := readDDD(t, file)
			start := time.Now()
			s := NewSpace(4, 0)
			m, err := s.Explore(prog, Options{Within: Always})
			if err != nil {
				t.Fatal(err)
			}
			explored := time.Since(start)
			n := 0
			for p, err := range s.Paths(prog, Options{Within: Always}) {
				if err != nil {
					t.Fatal(err)
				}
				if _, answer := s.Witness(p.Cond); answer != Found {
					t.Errorf("path %v: witness %v", p.PCs, answer)
				}
				n++
			}
			t.Logf("%d instructions, %d ends, %d nodes in %v; %d paths in %v", len(prog), len(m.Ends), s.Size(), explored, n, time.Since(start)-explored)
			if explored > 5*time.Second {
				t.Errorf("explored in %v", explored)
			}
			attack(t, r, prog)
		})
	}
}

func BenchmarkExplore(b *testing.B) {
	prog := readDDD(b, "testdata/docker-x64-opt1.ddd")
	for b.Loop() {
		if _, err := NewSpace(4, 0).Explore(prog, Options{Within: Always}); err != nil {
			b.Fatal(err)
		}
	}
}
