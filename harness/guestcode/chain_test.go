package guestcode

import (
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// returning is a filter that gives ret to the call nr and allows the others.
func returning(nr, ret uint32) bpf.Program {
	return bpf.Program{
		{Code: bpf.LdWAbs, K: seccompdata.OffNr},
		{Code: bpf.JeqK, JF: 1, K: nr},
		{Code: bpf.RetK, K: ret},
		{Code: bpf.RetK, K: uint32(seccompdata.Allow)},
	}
}

func call(nr uint32) kernelabi.Input {
	return &kernelabi.Syscall{Data: seccompdata.Data{Nr: nr, Arch: seccompdata.ArchARM, Args: [6]uint64{1, 2, 3, 4, 5, 6}}}
}

// runChain returns the value for each call and what it cost.
func runChain(t *testing.T, g *guest, filters []Filter, calls ...uint32) (rets []uint32, insns []uint64) {
	t.Helper()
	img, err := Chain(g.Profile(), filters)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Load(img); err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for _, nr := range calls {
		inputs = append(inputs, call(nr))
	}
	results, err := g.Run(inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, res := range results {
		if res.Fault != nil || res.Broken != 0 {
			t.Fatalf("call %d: fault %v, broken %v", calls[i], res.Fault, res.Broken)
		}
		rets, insns = append(rets, res.Value), append(insns, res.Insns)
	}
	return rets, insns
}

func TestChain(t *testing.T) {
	const errno1, errno2, trace = uint32(seccompdata.Errno | 1), uint32(seccompdata.Errno | 2), uint32(seccompdata.Trace | 7)
	allow := uint32(seccompdata.Allow)
	arm := func(t *testing.T, g *guest) Compiler {
		if g.Profile().Arch == kernelabi.X86_64 {
			return nil
		}
		e, err := jitarm.ByName(g.Profile().Emitter)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, name := range []string{"linux-3.10-x86_64", "kjit-armv5", "kjit-armv7"} {
		g := newGuest(t, name)
		jit := arm(t, g)
		tests := []struct {
			desc    string
			filters []Filter
			want    uint32 // for call 20; call 21 is always allowed
		}{
			{"one filter decides", []Filter{{Program: returning(20, errno1)}}, errno1},
			{"of equal actions the newest filter's data is kept", []Filter{{Program: returning(20, errno1)}, {Program: returning(20, errno2)}}, errno2},
			{"a stronger action of an older filter wins", []Filter{{Program: returning(20, errno1)}, {Program: returning(20, trace)}}, errno1},
			{"a kill of the process is strongest", []Filter{{Program: returning(20, uint32(seccompdata.KillProcess))}, {Program: returning(20, 0)}}, uint32(seccompdata.KillProcess)},
			{"what the cache allows is allowed, whatever filters say", []Filter{{Program: returning(20, errno1), Cached: func(nr uint32) bool { return nr == 20 }}}, allow},
			{"the newest filter's cache is looked at only", []Filter{{Program: returning(20, errno1), Cached: func(uint32) bool { return true }}, {Program: returning(1, errno1)}}, errno1},
			{"a table decides", []Filter{{Table: &Table{Returns: map[uint32]uint32{20: errno2, 21: allow}, Otherwise: errno1}}}, errno2},
			{"compiled and interpreted filters in one chain", []Filter{{Program: returning(20, errno1), JIT: jit}, {Program: returning(20, trace)}}, errno1},
		}
		for _, tt := range tests {
			rets, _ := runChain(t, g, tt.filters, 20, 21)
			if rets[0] != tt.want || rets[1] != allow {
				t.Errorf("%s, %s: %#x and %#x, want %#x and %#x", name, tt.desc, rets[0], rets[1], tt.want, allow)
			}
		}
	}
}

// Every entry of a table is found, and nothing else.
func TestTable(t *testing.T) {
	table := &Table{Returns: map[uint32]uint32{}, Otherwise: 7}
	var calls []uint32
	for nr := range uint32(700) {
		if nr%2 == 0 && nr < 612 {
			table.Returns[nr] = 0x7fff0000 - nr<<16
		}
		calls = append(calls, nr)
	}
	g := newGuest(t, "linux-3.10-x86_64")
	rets, insns := runChain(t, g, []Filter{{Table: table}}, calls...)
	for i, nr := range calls {
		want, ok := table.Returns[nr]
		if !ok {
			want = 7
		}
		if rets[i] != want {
			t.Errorf("call %d: %#x, want %#x", nr, rets[i], want)
		}
	}
	t.Logf("%d instructions for call 0, %d for call 1", insns[0], insns[1])
}
