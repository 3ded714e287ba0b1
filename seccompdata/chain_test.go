package seccompdata

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// returns is a filter that says the same to every call.
func returns(t testing.TB, ret uint32) *Filter {
	t.Helper()
	return mustFilter(t, bpf.Program{{Code: bpf.RetK, K: ret}})
}

func mustFilter(t testing.TB, prog bpf.Program) *Filter {
	t.Helper()
	f, err := NewFilter("", prog)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustChain(t testing.TB, oldestFirst ...*Filter) Chain {
	t.Helper()
	c, err := NewChain(oldestFirst...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChain(t *testing.T) {
	const errno1, errno2, allow, log, trap, kill = 0x50001, 0x50002, uint32(Allow), uint32(Log), 0x30000, uint32(KillProcess)
	for _, tt := range []struct {
		desc   string
		rets   []uint32 // oldest first
		kernel Kernel
		want   uint32
		filter int
	}{
		{"No filter allows.", nil, CurrentKernel, allow, -1},
		{"Where all allow, none decides.", []uint32{allow, allow | 1}, CurrentKernel, allow, -1},
		{"Of equal actions the newest one's data stays.", []uint32{errno1, errno2}, CurrentKernel, errno2, 1},
		{"An older stronger action wins.", []uint32{trap, errno2}, CurrentKernel, trap, 0},
		{"The strongest may be in the middle.", []uint32{errno1, kill, trap}, CurrentKernel, kill, 1},
		{"Before 4.14 KILL_PROCESS was KILL: the newest stays.", []uint32{kill, 5}, Kernel{4, 4}, 5, 1},
		{"LOG is stronger than ALLOW.", []uint32{log, allow}, CurrentKernel, log, 0},
		{"A known action beats an unknown one with a larger number.", []uint32{0x60000, errno1}, CurrentKernel, errno1, 1},
	} {
		var filters []*Filter
		for _, ret := range tt.rets {
			filters = append(filters, returns(t, ret))
		}
		got := mustChain(t, filters...).Run(&Data{}, tt.kernel)
		if got.Ret != tt.want || got.Filter != tt.filter || got.Executed != len(tt.rets) || len(got.Verdicts) != len(tt.rets) {
			t.Errorf("%s got %+v", tt.desc, got)
		}
		for i, ret := range tt.rets {
			if got.Verdicts[i].Ret != ret {
				t.Errorf("%s the verdict of filter %d is %#x", tt.desc, i, got.Verdicts[i].Ret)
			}
		}
	}
}

// uretprobe and uprobe pass filters that deny everything.
func TestExempt(t *testing.T) {
	chain := mustChain(t, returns(t, uint32(KillProcess)))
	for _, tt := range []struct {
		desc   string
		call   Data
		kernel Kernel
		want   bool
	}{
		{"uretprobe passes since 6.14.", Data{Nr: 335, Arch: ArchX86_64}, Kernel{6, 14}, true},
		{"Before it did not.", Data{Nr: 335, Arch: ArchX86_64}, Kernel{6, 13}, false},
		{"uprobe passes since 6.18.", Data{Nr: 336, Arch: ArchX86_64}, Kernel{6, 18}, true},
		{"Before it did not.", Data{Nr: 336, Arch: ArchX86_64}, Kernel{6, 17}, false},
		{"The neighbours do not pass.", Data{Nr: 334, Arch: ArchX86_64}, CurrentKernel, false},
		{"Nor does what is behind them.", Data{Nr: 337, Arch: ArchX86_64}, CurrentKernel, false},
		{"On i386 the numbers are other calls.", Data{Nr: 335, Arch: ArchI386}, CurrentKernel, false},
		{"With x32's bit they are others, too.", Data{Nr: 335 | X32Bit, Arch: ArchX86_64}, CurrentKernel, false},
	} {
		got := chain.Run(&tt.call, tt.kernel)
		if got.Exempt != tt.want || (got.Ret == uint32(Allow)) != tt.want || tt.want && got.Verdicts != nil {
			t.Errorf("%s got %+v", tt.desc, got)
		}
		abi := NewCache(chain, X86_64, tt.kernel)
		if abi.Has(tt.call.Arch, tt.call.Nr) != tt.want {
			t.Errorf("%s but not in the cache", tt.desc)
		}
	}
}

// The limit counts what is there and the new filter, but not its own overhead.
func TestPathLimit(t *testing.T) {
	allow := returns(t, uint32(Allow)) // counts 5
	filler := mustFilter(t, longest(bpf.LdWAbs))
	if filler.Converted != 4095+3+1 {
		t.Fatalf("the filler counts %d", filler.Converted)
	}
	chain := mustChain(t, filler, filler, filler, filler, filler, filler, filler)
	used := 7 * (filler.Converted + 4)
	if chain.Path() != used {
		t.Fatalf("%d used, want %d", chain.Path(), used)
	}
	for n := 0; ; n++ {
		next, err := chain.Attach(Attached{Filter: allow})
		fits := chain.Path()+allow.Converted <= MaxPath
		var refused *AttachError
		switch {
		case fits != (err == nil):
			t.Fatalf("after %d used: %v", chain.Path(), err)
		case err == nil:
			chain = next
			continue
		case !errors.As(err, &refused) || refused.Errno != ENOMEM || next != chain:
			t.Errorf("got %v", err)
		}
		break
	}
	if _, err := NewChain(filler, filler, filler, filler, filler, filler, filler, filler); err == nil {
		t.Error("eight fillers fit")
	}
}

// longest is a program of 4096 instructions that each count one.
func longest(code uint16) bpf.Program {
	prog := make(bpf.Program, bpf.MaxInsns-1, bpf.MaxInsns)
	for i := range prog {
		prog[i].Code = code
	}
	return append(prog, bpf.Instruction{Code: bpf.RetA})
}

func TestDescendsFrom(t *testing.T) {
	f := returns(t, uint32(Allow))
	base := mustChain(t, f)
	one, _ := base.Attach(Attached{Filter: f})
	two, _ := base.Attach(Attached{Filter: f})
	for _, tt := range []struct {
		desc         string
		chain, other Chain
		want         bool
	}{
		{"Every chain comes from none.", base, Chain{}, true},
		{"A chain comes from itself.", one, one, true},
		{"A chain comes from what it was made of.", one, base, true},
		{"Not the other way round.", base, one, false},
		{"Equal filters attached apart are others.", one, two, false},
		{"None comes from no chain.", Chain{}, base, false},
	} {
		if tt.chain.DescendsFrom(tt.other) != tt.want {
			t.Errorf("%s but it is not so", tt.desc)
		}
	}
}

func TestFilterPath(t *testing.T) {
	f := mustFilter(t, pairs(3))
	for nr, want := range map[uint32][]int{0: {0, 1, 3, 4, 5}, 2: {0, 1, 3, 4, 6, 8, 9}, 7: {0, 1, 3, 4, 6, 8, 10}} {
		call := &Data{Nr: nr, Arch: ArchX86_64}
		if diff := cmp.Diff(want, f.Path(call)); diff != "" {
			t.Errorf("call %d: %s", nr, diff)
		}
		if v := f.Run(call); v.Executed != len(want) || v.PC != want[len(want)-1] {
			t.Errorf("call %d: %+v", nr, v)
		}
	}
}
