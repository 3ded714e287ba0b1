package seccompdata

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// TestConstAllow has an instruction of each kind in the way of the proof. The
// call is number 39 of x86_64.
func TestConstAllow(t *testing.T) {
	allow, deny := bpf.Instruction{Code: bpf.RetK, K: uint32(Allow)}, bpf.Instruction{Code: bpf.RetK, K: 0x50001}
	nr, arch := bpf.Instruction{Code: bpf.LdWAbs, K: OffNr}, bpf.Instruction{Code: bpf.LdWAbs, K: OffArch}
	proved := func(pc int) Proof { return Proof{true, pc, WhyProved} }
	ended := func(pc int, why Why) Proof { return Proof{false, pc, why} }
	for _, tt := range []struct {
		desc string
		prog bpf.Program
		want Proof
	}{
		{"ALLOW is ALLOW.", bpf.Program{allow}, proved(0)},
		{"ALLOW with data is not.", bpf.Program{{Code: bpf.RetK, K: uint32(Allow) | 1}}, ended(0, WhyRet)},
		{"LOG is not.", bpf.Program{{Code: bpf.RetK, K: uint32(Log)}}, ended(0, WhyRet)},
		{"A return of A is not followed.", bpf.Program{nr, {Code: bpf.RetA}}, ended(1, WhyOpcode)},
		{"The number is known.", bpf.Program{nr, {Code: bpf.JeqK, JF: 1, K: 39}, allow, deny}, proved(2)},
		{"So is the architecture.", bpf.Program{arch, {Code: bpf.JeqK, JF: 1, K: ArchX86_64}, allow, deny}, proved(2)},
		{"A begins as 0.", bpf.Program{{Code: bpf.JeqK, JF: 1, K: 0}, allow, deny}, proved(1)},
		{"The instruction pointer is not known.", bpf.Program{{Code: bpf.LdWAbs, K: OffIP}, allow}, ended(0, WhyLoad)},
		{"Arguments are not known.", bpf.Program{nr, {Code: bpf.LdWAbs, K: OffArgs}, allow}, ended(1, WhyLoad)},
		{"A load that is jumped over does no harm.", bpf.Program{nr, {Code: bpf.JgtK, JT: 1, K: 38}, {Code: bpf.LdWAbs, K: OffArgs}, allow}, proved(3)},
		{"A jump always is followed.", bpf.Program{{Code: bpf.Ja, K: 1}, deny, allow}, proved(2)},
		{"JGE is unsigned.", bpf.Program{arch, {Code: bpf.JgeK, JF: 1, K: 0x80000000}, allow, deny}, proved(2)},
		{"JSET is followed.", bpf.Program{nr, {Code: bpf.JsetK, JT: 1, K: X32Bit}, allow, deny}, proved(2)},
		{"JGT of the number itself does not hold.", bpf.Program{nr, {Code: bpf.JgtK, JT: 1, K: 39}, allow, deny}, proved(2)},
		{"AND with a constant is followed.", bpf.Program{nr, {Code: bpf.AndK, K: 7}, {Code: bpf.JeqK, JF: 1, K: 7}, allow, deny}, proved(3)},
		{"OR is not.", bpf.Program{nr, {Code: bpf.OrK, K: 0}, allow}, ended(1, WhyOpcode)},
		{"The other arithmetic is not.", bpf.Program{nr, {Code: bpf.SubK, K: 0}, allow}, ended(1, WhyOpcode)},
		{"Jumps that compare with X are not.", bpf.Program{nr, {Code: bpf.JeqX}, allow}, ended(1, WhyOpcode)},
		{"An immediate load is not.", bpf.Program{{Code: bpf.LdImm, K: 1}, allow}, ended(0, WhyOpcode)},
		{"The length is not.", bpf.Program{{Code: bpf.LdLen}, allow}, ended(0, WhyOpcode)},
		{"Stores are not.", bpf.Program{{Code: bpf.St}, allow}, ended(0, WhyOpcode)},
		{"Moves to X are not.", bpf.Program{{Code: bpf.Tax}, allow}, ended(0, WhyOpcode)},
	} {
		if diff := cmp.Diff(tt.want, mustFilter(t, tt.prog).ConstAllow(39, ArchX86_64)); diff != "" {
			t.Errorf("%s %s", tt.desc, diff)
		}
	}
}

// denying is a filter that denies one number of all architectures, and with a
// load another one.
func denying(nr, load uint32) bpf.Program {
	return bpf.Program{
		{Code: bpf.LdWAbs}, {Code: bpf.JeqK, JF: 1, K: nr}, {Code: bpf.RetK, K: 0x50001},
		{Code: bpf.JeqK, JF: 1, K: load}, {Code: bpf.LdWAbs, K: OffArgs}, {Code: bpf.RetK, K: uint32(Allow)},
	}
}

// Every filter of a chain can take a call out of the cache, none can put one in.
func TestCacheOfChain(t *testing.T) {
	chain := mustChain(t, mustFilter(t, denying(10, 20)), mustFilter(t, denying(30, 40)), returns(t, uint32(Allow)))
	cache := NewCache(chain, X86_64, Kernel{6, 7})
	if len(cache.Tables) != 2 || cache.Table(X86_64) == nil || cache.Table(I386) == nil || cache.Table(X32) != nil {
		t.Fatalf("%d tables", len(cache.Tables))
	}
	want := map[uint32]CacheEntry{
		10: {Filter: 0, Proof: Proof{PC: 2, Why: WhyRet}}, 20: {Filter: 0, Proof: Proof{PC: 4, Why: WhyLoad}},
		30: {Filter: 1, Proof: Proof{PC: 2, Why: WhyRet}}, 40: {Filter: 1, Proof: Proof{PC: 4, Why: WhyLoad}},
	}
	for _, table := range cache.Tables {
		if len(table.Entries) != 457 {
			t.Errorf("%s: a table of %d", table.ABI, len(table.Entries))
		}
		for nr, e := range table.Entries {
			w, lost := want[uint32(nr)]
			if !lost {
				w = CacheEntry{Cached: true, Filter: -1, Proof: Proof{Allowed: true}}
			}
			if diff := cmp.Diff(w, e); diff != "" {
				t.Fatalf("%s, call %d: %s", table.ABI, nr, diff)
			}
			if cache.Has(table.ABI.Arch, uint32(nr)) == lost {
				t.Errorf("%s, call %d: cached %v", table.ABI, nr, lost)
			}
		}
	}
}

func TestCacheHas(t *testing.T) {
	chain := mustChain(t, returns(t, uint32(Allow)))
	for _, tt := range []struct {
		desc     string
		native   *ABI
		kernel   Kernel
		arch, nr uint32
		want     bool
	}{
		{"The last number of the table is in it.", X86_64, Kernel{6, 7}, ArchX86_64, 456, true},
		{"The next one is not.", X86_64, Kernel{6, 7}, ArchX86_64, 457, false},
		{"A hole in the table is in it.", X86_64, Kernel{6, 7}, ArchX86_64, 400, true},
		{"x32 is not.", X86_64, Kernel{6, 7}, ArchX86_64, X32Bit | 39, false},
		{"Number -1 is not.", X86_64, Kernel{6, 7}, ArchX86_64, 0xffffffff, false},
		{"i386 has a table on x86_64.", X86_64, Kernel{6, 7}, ArchI386, 456, true},
		{"ARM has one on ARM, rounded up.", ARM, Kernel{6, 7}, ArchARM, 459, true},
		{"Private calls are not in it.", ARM, Kernel{6, 7}, ArchARM, 0x0f0002, false},
		{"On AARCH64 it is not rounded.", AARCH64, Kernel{6, 7}, ArchARM, 459, false},
		{"Other architectures have none.", ARM, Kernel{6, 7}, ArchX86_64, 1, false},
		{"Before 5.11 there was no cache.", X86_64, Kernel{5, 10}, ArchX86_64, 39, false},
	} {
		if got := NewCache(chain, tt.native, tt.kernel).Has(tt.arch, tt.nr); got != tt.want {
			t.Errorf("%s but it is not so", tt.desc)
		}
	}
	if NewCache(Chain{}, X86_64, CurrentKernel).Has(ArchX86_64, 39) {
		t.Error("a task without filters has a cache")
	}
}

// checkProof: a call that is proved to be allowed is allowed whatever its
// arguments, and the proof ends where the program does.
func checkProof(t testing.TB, prog bpf.Program, nr, arch uint32, rng *rand.Rand) (proved bool) {
	f, err := NewFilter("", prog)
	if err != nil {
		return false
	}
	proof := f.ConstAllow(nr, arch)
	if proof.Allowed != (proof.Why == WhyProved) || proof.PC < 0 || proof.PC >= len(prog) {
		t.Fatalf("%+v\nprogram %v", proof, prog)
	}
	for range 4 {
		call := &Data{Nr: nr, Arch: arch, IP: rng.Uint64()}
		for i := range call.Args {
			call.Args[i] = rng.Uint64()
		}
		v := f.Run(call)
		if proof.Allowed && (v.Ret != uint32(Allow) || v.PC != proof.PC) {
			t.Fatalf("%+v, and the filter returns %+v\nprogram %v\ncall %+v", proof, v, prog, call)
		}
		if proof.Why == WhyRet && (v.Ret == uint32(Allow) || v.PC != proof.PC) {
			t.Fatalf("%+v, and the filter returns %+v\nprogram %v\ncall %+v", proof, v, prog, call)
		}
	}
	return proof.Allowed
}

func TestProofsOfRandomFilters(t *testing.T) {
	seed := uint64(1)
	if s := os.Getenv("KJIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KJIT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const rounds = 5000
	proved := 0
	for range rounds {
		if checkProof(t, randomFilter(rng), rng.Uint32N(8), [2]uint32{ArchX86_64, ArchARM}[rng.IntN(2)], rng) {
			proved++
		}
	}
	if proved < rounds/20 {
		t.Errorf("of %d filters %d are proved to allow: the test says nothing", rounds, proved)
	}
}

// randomFilter mostly has what the kernel follows.
func randomFilter(rng *rand.Rand) bpf.Program {
	codes := []uint16{bpf.LdWAbs, bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK, bpf.AndK, bpf.Ja, bpf.LdWAbs, bpf.JeqK, bpf.RetK, bpf.RetK}
	others := []uint16{bpf.RetA, bpf.OrK, bpf.St, bpf.Tax, bpf.LdImm, bpf.JeqX, bpf.Neg}
	constants := []uint32{0, 1, 2, 3, 4, 5, 6, 7, ArchX86_64, ArchARM, 0x80000000}
	n := 4 + rng.IntN(12)
	prog := make(bpf.Program, n)
	for pc := range prog {
		left := n - pc - 1
		ins := bpf.Instruction{Code: codes[rng.IntN(len(codes))], K: constants[rng.IntN(len(constants))]}
		if rng.IntN(24) == 0 {
			ins.Code = others[rng.IntN(len(others))]
		}
		switch {
		case left == 0 || ins.Code == bpf.RetK:
			ins.Code, ins.K = bpf.RetK, []uint32{uint32(Allow), uint32(Allow), 0x50001, uint32(Allow) | 1}[rng.IntN(4)]
		case ins.Code == bpf.LdWAbs:
			ins.K = []uint32{OffNr, OffNr, OffArch, OffArch, OffIP, OffArgs + 4}[rng.IntN(6)]
		case ins.Code == bpf.Ja:
			ins.K = rng.Uint32N(uint32(left))
		case bpf.IsCondJump(ins.Code):
			ins.JT, ins.JF = uint8(rng.IntN(left)), uint8(rng.IntN(left))
		case ins.Code == bpf.St:
			ins.K = 0
		}
		prog[pc] = ins
	}
	return prog
}

// FuzzProof is TestProofsOfRandomFilters on what the fuzzer finds: struct
// sock_filter by struct sock_filter.
func FuzzProof(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var raw []byte
		for _, ins := range randomFilter(rng) {
			raw = binary.LittleEndian.AppendUint16(raw, ins.Code)
			raw = append(raw, ins.JT, ins.JF)
			raw = binary.LittleEndian.AppendUint32(raw, ins.K)
		}
		f.Add(raw, uint32(3), uint32(ArchX86_64))
	}
	f.Fuzz(func(t *testing.T, raw []byte, nr, arch uint32) {
		var prog bpf.Program
		for ; len(raw) >= 8; raw = raw[8:] {
			prog = append(prog, bpf.Instruction{
				Code: binary.LittleEndian.Uint16(raw), JT: raw[2], JF: raw[3], K: binary.LittleEndian.Uint32(raw[4:]),
			})
		}
		checkProof(t, prog, nr, arch, rand.New(rand.NewPCG(uint64(nr), uint64(arch))))
	})
}
