package bpf_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

func mustCompile(tb testing.TB, prog bpf.Program, kind bpf.Kind, rules bpf.Rules) *bpf.Machine {
	tb.Helper()
	m, err := bpf.Compile(prog, kind, rules)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// ended is the Result of a return.
func ended(value uint32, executed, pc int) bpf.Result {
	return bpf.Result{Ending: bpf.Ending{Value: value}, Executed: executed, PC: pc, ShiftPC: -1}
}

func shifted(value uint32, executed, pc, shiftPC int) bpf.Result {
	r := ended(value, executed, pc)
	r.ShiftPC = shiftPC
	return r
}

func divZero(executed, pc int) bpf.Result {
	r := ended(0, executed, pc)
	r.DivZero = true
	return r
}

func loadFailed(value uint32, executed, pc int) bpf.Result {
	r := ended(value, executed, pc)
	r.LoadFailed = true
	return r
}

// TestSemantics states the language, one point a row. The packet is 00 01 .. 2f
// of which the first 32 bytes are linear.
func TestSemantics(t *testing.T) {
	headlen := 32
	bytes := &packet{Headlen: &headlen, Skb: map[string]int{
		"protocol": 0x0800, "pkt_type": 3, "mark": 0x1234aaaa, "hash": 0x1234aaab, "queue_mapping": 123,
		"ifindex": 577, "dev_type": 588, "cpu": 2, "vlan_tci": 0xffff, "vlan_present": 1, "vlan_proto": 0x8100,
	}}
	for i := range 48 {
		bytes.Packet = append(bytes.Packet, byte(i))
	}
	noDevice := &packet{Packet: bytes.Packet}
	call := &systemCall{Nr: -1, Arch: 0xc000003e, IP: 0x7fff12345678, Args: []hexWord{0x1122334455667788}}
	old := bpf.RulesLinux3_10

	for _, test := range []struct {
		desc  string
		prog  bpf.Program
		kind  bpf.Kind
		rules bpf.Rules
		in    bpf.Input
		want  bpf.Result
	}{
		{"A is 0 at entry", bpf.Program{retA}, 0, old, bytes, ended(0, 1, 0)},
		{"X is 0 at entry", bpf.Program{op(bpf.LdImm, 7), txa, retA}, 0, old, bytes, ended(0, 3, 2)},
		{"K is unsigned", bpf.Program{op(bpf.RetK, 0xffffffff)}, 0, old, bytes, ended(0xffffffff, 1, 0)},

		{"words are big endian", bpf.Program{op(bpf.LdWAbs, 1), retA}, 0, old, bytes, ended(0x01020304, 2, 1)},
		{"halves are big endian", bpf.Program{op(bpf.LdHAbs, 3), retA}, 0, old, bytes, ended(0x0304, 2, 1)},
		{"bytes are loaded alone", bpf.Program{op(bpf.LdBAbs, 9), retA}, 0, old, bytes, ended(9, 2, 1)},
		{"a load replaces all of A", bpf.Program{op(bpf.LdImm, 0xffffffff), op(bpf.LdBAbs, 1), retA}, 0, old, bytes, ended(1, 3, 2)},
		{"the last linear word is loaded", bpf.Program{op(bpf.LdWAbs, 28), retA}, 0, old, bytes, ended(0x1c1d1e1f, 2, 1)},
		{"a word may cross into a fragment", bpf.Program{op(bpf.LdWAbs, 29), retA}, 0, old, bytes, ended(0x1d1e1f20, 2, 1)},
		{"a half may cross into a fragment", bpf.Program{op(bpf.LdHAbs, 31), retA}, 0, old, bytes, ended(0x1f20, 2, 1)},
		{"a byte may be in a fragment", bpf.Program{op(bpf.LdBAbs, 32), retA}, 0, old, bytes, ended(0x20, 2, 1)},
		{"the last word of the packet is loaded", bpf.Program{op(bpf.LdWAbs, 44), retA}, 0, old, bytes, ended(0x2c2d2e2f, 2, 1)},
		{"a word half behind the end returns 0", bpf.Program{op(bpf.LdImm, 5), op(bpf.LdWAbs, 45), retA}, 0, old, bytes, loadFailed(0, 2, 1)},
		{"a byte behind the end returns 0", bpf.Program{op(bpf.LdImm, 5), op(bpf.LdBAbs, 48), retA}, 0, old, bytes, loadFailed(0, 2, 1)},
		{"X + k wraps at 32 bits", bpf.Program{op(bpf.LdxImm, 0xfffffffe), op(bpf.LdHInd, 6), retA}, 0, old, bytes, ended(0x0405, 3, 2)},
		{"words are loaded from X + k", bpf.Program{op(bpf.LdxImm, 3), op(bpf.LdWInd, 5), retA}, 0, old, bytes, ended(0x08090a0b, 3, 2)},
		{"bytes are loaded from X + k", bpf.Program{op(bpf.LdxImm, 30), op(bpf.LdBInd, 5), retA}, 0, old, bytes, ended(35, 3, 2)},
		{"MSH gives four times the low nibble", bpf.Program{op(bpf.LdxMsh, 0x1e), txa, retA}, 0, old, bytes, ended(56, 3, 2)},
		{"MSH keeps A", bpf.Program{op(bpf.LdImm, 77), op(bpf.LdxMsh, 40), retA}, 0, old, bytes, ended(77, 3, 2)},
		{"MSH reads fragments", bpf.Program{op(bpf.LdxMsh, 40), txa, retA}, 0, old, bytes, ended(32, 3, 2)},
		{"MSH behind the end returns 0", bpf.Program{op(bpf.LdxMsh, 48), ret}, 0, old, bytes, loadFailed(0, 1, 0)},
		{"SKF_LL_OFF counts from the link header", bpf.Program{op(bpf.LdHAbs, bpf.LLOff+12), retA}, 0, old, bytes, ended(0x0c0d, 2, 1)},
		{"SKF_NET_OFF counts from the network header", bpf.Program{op(bpf.LdBAbs, bpf.NetOff+1), retA}, 0, old, bytes, ended(15, 2, 1)},
		{"MSH takes negative offsets", bpf.Program{op(bpf.LdxMsh, bpf.NetOff), txa, retA}, 0, old, bytes, ended(56, 3, 2)},
		{"X + k may be negative", bpf.Program{op(bpf.LdxImm, bpf.LLOff), op(bpf.LdWInd, 4), retA}, 0, old, bytes, ended(0x04050607, 3, 2)},
		{"X + k is never ancillary", bpf.Program{op(bpf.LdxImm, 20), op(bpf.LdWInd, bpf.ADOff), retA}, 0, old, bytes, loadFailed(0, 2, 1)},
		{"below SKF_LL_OFF there is nothing", bpf.Program{op(bpf.LdBAbs, bpf.LLOff-1), retA}, 0, old, bytes, loadFailed(0, 1, 0)},
		{"LEN counts the fragments", bpf.Program{ldLen, retA}, 0, old, bytes, ended(48, 2, 1)},
		{"LDX LEN loads X", bpf.Program{ldxLen, txa, retA}, 0, old, bytes, ended(48, 3, 2)},

		{"an ancillary load gives metadata", bpf.Program{op(bpf.LdWAbs, bpf.ExtMark.K()), retA}, 0, old, bytes, ended(0x1234aaaa, 2, 1)},
		{"its size does not matter", bpf.Program{op(bpf.LdBAbs, bpf.ExtRxhash.K()), retA}, 0, old, bytes, ended(0x1234aaab, 2, 1)},
		{"netlink attributes see A and X", bpf.Program{op(bpf.LdxImm, 7), op(bpf.LdImm, 2), op(bpf.LdHAbs, bpf.ExtNlattr.K()), retA}, 0, old, bytes, ended(2019, 4, 3)},
		{"an ancillary load may end the program with a value", bpf.Program{op(bpf.LdImm, 9), op(bpf.LdWAbs, bpf.ExtIfindex.K()), ret}, 0, old, noDevice, loadFailed(9, 2, 1)},
		{"the XOR of 2012 changes A", bpf.Program{op(bpf.LdImm, 10), op(bpf.LdxImm, 300), op(bpf.LdWAbs, bpf.ExtXorX.K()), retA}, 0, old, bytes, ended(10^300, 4, 3)},
		{"what 3.0 does not know is a load from nowhere", bpf.Program{op(bpf.LdWAbs, bpf.ExtXorX.K()), ret}, 0, bpf.RulesLinux3_0, bytes, loadFailed(0, 1, 0)},

		{"addition wraps", bpf.Program{op(bpf.LdImm, 0xffffffff), op(bpf.AddK, 3), retA}, 0, old, bytes, ended(2, 3, 2)},
		{"division is unsigned", bpf.Program{op(bpf.LdImm, 0xfffffffe), op(bpf.DivK, 2), retA}, 0, old, bytes, ended(0x7fffffff, 3, 2)},
		{"modulo is unsigned", bpf.Program{op(bpf.LdImm, 0xffffffff), op(bpf.ModK, 10), retA}, 0, old, bytes, ended(5, 3, 2)},
		{"division by X = 0 returns 0", bpf.Program{op(bpf.LdImm, 9), op(bpf.DivX, 0), ret}, 0, old, bytes, divZero(2, 1)},
		{"modulo by X = 0 returns 0", bpf.Program{op(bpf.LdImm, 9), op(bpf.ModX, 0), ret}, 0, old, bytes, divZero(2, 1)},
		{"negation is arithmetic", bpf.Program{op(bpf.LdImm, 1), neg, retA}, 0, old, bytes, ended(0xffffffff, 3, 2)},
		{"the least number is its own negative", bpf.Program{op(bpf.LdImm, 0x80000000), neg, retA}, 0, old, bytes, ended(0x80000000, 3, 2)},
		{"right shifts are logical", bpf.Program{op(bpf.LdImm, 0x80000000), op(bpf.RshK, 31), retA}, 0, old, bytes, ended(1, 3, 2)},
		{"a count of 33 in X counts as 1 and is reported", bpf.Program{op(bpf.LdImm, 3), op(bpf.LdxImm, 33), op(bpf.LshX, 0), retA}, 0, old, bytes, shifted(6, 4, 3, 2)},
		{"a count of 31 in X is not reported", bpf.Program{op(bpf.LdImm, 3), op(bpf.LdxImm, 31), op(bpf.LshX, 0), retA}, 0, old, bytes, ended(0x80000000, 4, 3)},
		{"the first odd shift is reported", bpf.Program{op(bpf.LdxImm, 32), op(bpf.RshX, 0), op(bpf.LshX, 0), ret}, 0, old, bytes, shifted(1, 4, 3, 1)},
		{"an odd shift that is jumped over is not reported", bpf.Program{op(bpf.LdxImm, 32), op(bpf.Ja, 1), op(bpf.LshX, 0), ret}, 0, old, bytes, ended(1, 3, 3)},
		{"an odd constant count is reported where old rules take it", bpf.Program{op(bpf.LdImm, 1), op(bpf.LshK, 36), retA}, 0, old, bytes, shifted(16, 3, 2, 1)},
		{"an odd shift is reported when the program fails, too", bpf.Program{op(bpf.LdxImm, 32), op(bpf.RshX, 0), op(bpf.LdBAbs, 99), ret}, 0, old, bytes,
			bpf.Result{Ending: bpf.Ending{LoadFailed: true}, Executed: 3, PC: 2, ShiftPC: 1}},

		{"stores keep A and cells keep values", bpf.Program{op(bpf.LdImm, 7), op(bpf.St, 15), op(bpf.AddK, 1), tax, op(bpf.Stx, 0), op(bpf.LdMem, 15), op(bpf.LdxMem, 0), op(bpf.MulX, 0), retA}, 0, old, bytes, ended(56, 9, 8)},

		{"JGT is unsigned", bpf.Program{op(bpf.LdImm, 0x80000000), jmp(bpf.JgtK, 1, 1, 0), ret, op(bpf.RetK, 2)}, 0, old, bytes, ended(2, 3, 3)},
		{"JGT is false for the equal", bpf.Program{jmp(bpf.JgtK, 0, 1, 0), ret, op(bpf.RetK, 2)}, 0, old, bytes, ended(1, 2, 1)},
		{"JGE is true for the equal", bpf.Program{jmp(bpf.JgeX, 0, 1, 0), ret, op(bpf.RetK, 2)}, 0, old, bytes, ended(2, 2, 2)},
		{"JSET is true if any bit is common", bpf.Program{op(bpf.LdImm, 6), jmp(bpf.JsetK, 12, 1, 0), ret, op(bpf.RetK, 2)}, 0, old, bytes, ended(2, 3, 3)},
		{"a failed load does not reach the comparison behind it", bpf.Program{op(bpf.LdHAbs, 47), jmp(bpf.JeqK, 0, 0, 1), ret, ret}, 0, old, bytes, loadFailed(0, 1, 0)},
		{"a load from a fragment does", bpf.Program{op(bpf.LdHAbs, 40), jmp(bpf.JeqK, 0x2829, 1, 0), ret, op(bpf.RetK, 2)}, 0, old, bytes, ended(2, 3, 3)},
		{"a jump may lead between a load and its comparison", bpf.Program{op(bpf.LdImm, 5), op(bpf.Ja, 1), op(bpf.LdBAbs, 5), jmp(bpf.JeqK, 5, 0, 1), op(bpf.RetK, 3), ret}, 0, old, bytes, ended(3, 4, 4)},
		{"a run of comparisons ends where one is equal", bpf.Program{op(bpf.LdBAbs, 3), jmp(bpf.JeqK, 1, 3, 0), jmp(bpf.JeqK, 2, 2, 0), jmp(bpf.JeqK, 3, 2, 0), ret, op(bpf.RetK, 2), op(bpf.RetK, 3)}, 0, old, bytes, ended(3, 5, 6)},
		{"a run of comparisons falls through if none is", bpf.Program{op(bpf.LdBAbs, 9), jmp(bpf.JeqK, 1, 3, 0), jmp(bpf.JeqK, 2, 2, 0), jmp(bpf.JeqK, 3, 2, 0), ret, op(bpf.RetK, 2), op(bpf.RetK, 3)}, 0, old, bytes, ended(1, 5, 4)},

		{"seccomp words are in host order", bpf.Program{op(bpf.LdWAbs, 16), retA}, bpf.Seccomp, old, call, ended(0x55667788, 2, 1)},
		{"the number may be negative", bpf.Program{op(bpf.LdWAbs, 0), retA}, bpf.Seccomp, old, call, ended(0xffffffff, 2, 1)},
		{"seccomp data has 64 bytes", bpf.Program{ldxLen, ldLen, op(bpf.AddX, 0), retA}, bpf.Seccomp, old, call, ended(128, 4, 3)},
	} {
		t.Run(test.desc, func(t *testing.T) {
			m := mustCompile(t, test.prog, test.kind, test.rules)
			if diff := cmp.Diff(test.want, m.Run(test.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			compareRuns(t, test.prog, test.kind, test.rules, test.in)
		})
	}
}

// compareRuns runs a program that the checker accepts in every way there is
// here, and demands one result.
func compareRuns(t *testing.T, prog bpf.Program, kind bpf.Kind, rules bpf.Rules, in bpf.Input) bpf.Result {
	t.Helper()
	m := mustCompile(t, prog, kind, rules)
	want := slowRun(prog, kind, rules, in)
	got := m.Run(in)
	if got != want {
		t.Fatalf("got %+v, the slow interpreter %+v\nprogram %v\ninput %+v", got, want, prog, in)
	}
	var path []int
	traced := m.Trace(in, func(s bpf.State) { path = append(path, s.PC) })
	if traced != want || len(path) != want.Executed || path[len(path)-1] != want.PC {
		t.Fatalf("traced %+v on the path %v, want %+v\nprogram %v\ninput %+v", traced, path, want, prog, in)
	}
	g := bpf.Flow(prog)
	if longest, ok := g.LongestPath(); !ok || want.Executed > longest {
		t.Fatalf("%d executed, the longest path has %d, %v\nprogram %v", want.Executed, longest, ok, prog)
	}
	for i, pc := range path {
		if !g.Reachable(pc) || i > 0 && pc <= path[i-1] {
			t.Fatalf("the path %v at instruction %d: unreachable or backward\nprogram %v", path, pc, prog)
		}
	}
	return got
}

// TestRandomPrograms compares with the slow interpreter.
func TestRandomPrograms(t *testing.T) {
	for _, kind := range []bpf.Kind{bpf.Socket, bpf.Seccomp} {
		for _, rules := range []bpf.Rules{bpf.RulesLinux3_0, bpf.RulesLinux3_10, bpf.RulesCurrent} {
			if kind == bpf.Seccomp && rules.NoSeccomp {
				continue
			}
			t.Run(kind.String()+"/"+rules.Name, func(t *testing.T) {
				m := &programMaker{Rand: rand.New(rand.NewPCG(seed(t), 1)), kind: kind, rules: rules}
				m.skip = func(ins bpf.Instruction) bool { return !rules.Accepts(ins.Code, kind) }
				ends := map[bpf.Ending]int{}
				for range 1500 {
					prog := m.program(2 + m.IntN(60))
					for range 4 {
						r := compareRuns(t, prog, kind, rules, m.input())
						ends[bpf.Ending{DivZero: r.DivZero, LoadFailed: r.LoadFailed}]++
					}
				}
				if len(ends) < 3 && kind == bpf.Socket || len(ends) < 2 {
					t.Errorf("the programs end in too few ways: %v", ends)
				}
			})
		}
	}
}

// TestLoadsBeforeTests runs every load with every comparison behind it, with and
// without AND, which the interpreter takes as one step, over packets that end in
// all places.
func TestLoadsBeforeTests(t *testing.T) {
	whole := hexBytes{9, 0x81, 0x42, 0x23, 0x94, 5, 0x66, 0x87, 0xe8, 9, 10, 11, 12}
	const mask = 0xf0f0f0f3
	type start struct {
		x    bpf.Instruction
		load uint16
		off  uint32
	}
	var starts []start
	for _, load := range []uint16{bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs} {
		starts = append(starts, start{tax, load, 1})
	}
	for _, load := range []uint16{bpf.LdWInd, bpf.LdHInd, bpf.LdBInd} {
		starts = append(starts, start{op(bpf.LdxImm, 2), load, 1}, start{op(bpf.LdxMsh, 0), load, 1<<32 - 4*9 + 1})
	}
	for _, s := range starts {
		begin := bpf.Program{s.x, op(s.load, s.off)}
		loaded := mustCompile(t, append(slices.Clone(begin), retA), bpf.Socket, bpf.RulesCurrent).Run(&packet{Packet: whole}).Value
		for _, and := range []bool{false, true} {
			value := loaded
			begin := slices.Clone(begin)
			if and {
				begin = append(begin, op(bpf.AndK, mask))
				value &= mask
			}
			for _, test := range []uint16{bpf.JeqK, bpf.JgtK, bpf.JgeK, bpf.JsetK} {
				for _, k := range []uint32{value, ^value, value + 1, value - 1} {
					for _, jumps := range [][2]uint8{{0, 0}, {0, 2}, {2, 0}, {1, 2}} {
						prog := append(slices.Clone(begin), bpf.Instruction{Code: test, JT: jumps[0], JF: jumps[1], K: k},
							bpf.Instruction{Code: bpf.JeqK, JF: 1, K: value}, op(bpf.RetK, 7), retA)
						for size := range len(whole) + 1 {
							headlen := size / 2
							compareRuns(t, prog, bpf.Socket, bpf.RulesCurrent, &packet{Packet: whole[:size]})
							compareRuns(t, prog, bpf.Socket, bpf.RulesCurrent, &packet{Packet: whole[:size], Headlen: &headlen})
						}
					}
				}
			}
		}
	}
}

// TestXnet compares with the VM of golang.org/x/net/bpf. What it does not have
// or does otherwise is left out: NEG, LDX LEN, ancillary loads and negative
// offsets; shifts by more than 31, and X + k that wraps.
func TestXnet(t *testing.T) {
	m := &programMaker{Rand: rand.New(rand.NewPCG(seed(t), 2)), rules: bpf.RulesCurrent}
	m.skip = func(ins bpf.Instruction) bool {
		switch ins.Code {
		case bpf.Neg, bpf.LdxLen:
			return true
		case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdWInd, bpf.LdHInd, bpf.LdBInd, bpf.LdxMsh:
			return ins.K >= bpf.LLOff-1
		}
		return false
	}
	compared := 0
	for range 3000 {
		prog := m.program(2 + m.IntN(60))
		vm, err := xnet(prog)
		if err != nil {
			t.Fatalf("%v\nprogram %v", err, prog)
		}
		machine := mustCompile(t, prog, bpf.Socket, bpf.RulesCurrent)
		for range 4 {
			in := &packet{Packet: m.packet().Packet}
			wraps := false
			got := machine.Trace(in, func(s bpf.State) {
				switch ins := prog[s.PC]; ins.Code {
				case bpf.LdWInd, bpf.LdHInd, bpf.LdBInd:
					wraps = wraps || uint64(ins.K)+uint64(s.X) >= uint64(bpf.LLOff)
				}
			})
			if wraps || got.ShiftPC >= 0 {
				continue
			}
			compared++
			if want, err := vm.Run(in.Packet); err != nil || uint32(want) != got.Value {
				t.Fatalf("got %+v, x/net/bpf %#x, %v\nprogram %v\npacket %x", got, want, err, prog, []byte(in.Packet))
			}
		}
	}
	if compared < 5000 {
		t.Errorf("only %d of 12000 runs could be compared", compared)
	}
}

// TestRuntimeRecords compares with what Linux 6.18 returned.
func TestRuntimeRecords(t *testing.T) {
	type record struct {
		Name  string
		Insns bpf.Program
		systemCall
		Ret      uint32
		Executed int
		DivZero  bool
	}
	test := func(t *testing.T, path string) {
		for _, r := range records[record](t, path) {
			got := compareRuns(t, r.Insns, bpf.Seccomp, bpf.RulesCurrent, &r.systemCall)
			if got.Value != r.Ret || got.Executed != r.Executed || got.DivZero != r.DivZero {
				t.Errorf("%s: got %+v, want %#x after %d, by division %v", r.Name, got, r.Ret, r.Executed, r.DivZero)
			}
		}
	}
	bothData(t, "runtime.jsonl", test, "seccomp/runtime.jsonl")
}

// readDecimal reads the -ddd form of tcpdump: a count, then code jt jf k.
func readDecimal(t *testing.T, path string) bpf.Program {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var prog bpf.Program
	for line := range strings.Lines(string(text)) {
		var fields []uint32
		for _, word := range strings.Fields(line) {
			n, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			fields = append(fields, uint32(n))
		}
		if len(fields) == 4 {
			prog = append(prog, jmp(uint16(fields[0]), fields[3], uint8(fields[1]), uint8(fields[2])))
		}
	}
	return prog
}

// TestVectors compares with verdicts of seccomp filters.
func TestVectors(t *testing.T) {
	type record struct {
		Filter string
		systemCall
		Ret      uint32
		Executed int
		PC       int
	}
	test := func(t *testing.T, path string) {
		machines := map[string]*bpf.Machine{}
		profiles := path[:strings.LastIndex(path, "/")] + "/profiles/"
		for _, r := range records[record](t, path) {
			m := machines[r.Filter]
			if m == nil {
				m = mustCompile(t, readDecimal(t, profiles+r.Filter+".ddd"), bpf.Seccomp, bpf.RulesCurrent)
				machines[r.Filter] = m
			}
			if got, want := m.Run(&r.systemCall), ended(r.Ret, r.Executed, r.PC); got != want {
				t.Errorf("%s, nr %d, args %x: got %+v, want %+v", r.Filter, r.Nr, r.Args, got, want)
			}
		}
	}
	bothData(t, "vectors.jsonl", test, "seccomp/vectors.jsonl")
}

// TestMutantRecords compares with the right results of programs on which some
// kernel's JIT was wrong.
func TestMutantRecords(t *testing.T) {
	type record struct {
		Name    string
		Program bpf.Program
		packet
		Want hexWord
	}
	test := func(t *testing.T, path string) {
		for _, r := range records[record](t, path) {
			if tci, ok := r.Skb["vlan_tci"]; ok { // these kernels keep "there is a tag" in bit 12
				r.Skb["vlan_tci"], r.Skb["vlan_present"] = tci&^0x1000, tci>>12&1
			}
			got := compareRuns(t, r.Program, bpf.Socket, bpf.RulesLinux3_10, &r.packet)
			if got.Value != uint32(r.Want) {
				t.Errorf("%s: got %+v, want %#x", r.Name, got, r.Want)
			}
		}
	}
	bothData(t, "mutants.jsonl", test, "jit-goldens/mutants.jsonl")
}

// TestProgramRecords compares with what five kernels refuse and what their
// images return: tcpdump expressions, seccomp filters and small programs.
func TestProgramRecords(t *testing.T) {
	type record struct {
		programRecord
		KnownDivergence bool     `json:"known_divergence"`
		ImageResults    []uint32 `json:"image_results"`
	}
	test := func(t *testing.T, path string) {
		for _, r := range records[record](t, path) {
			const einval = 22
			if err := bpf.Check(r.Program, r.Kind, bpf.RulesCurrent); (err != nil) != (r.Errno == einval) {
				t.Errorf("%s: got %v, want errno %d", r.Name, err, r.Errno)
			}
			for n, in := range r.Inputs {
				got := compareRuns(t, r.Program, r.Kind, bpf.RulesCurrent, in.Input)
				if got.Value != r.Results[n] {
					t.Errorf("%s, input %d: got %+v, want %#x", r.Name, n, got, r.Results[n])
				}
				if r.KnownDivergence && r.ImageResults[n] != r.Results[n] && got.ShiftPC < 0 {
					t.Errorf("%s, input %d: the image returns %#x, but no odd shift is reported", r.Name, n, r.ImageResults[n])
				}
			}
		}
	}
	bothData(t, "programs.jsonl", test,
		"kernel-images/6.18-x86_64.jsonl", "kernel-images/6.1-amd64.jsonl",
		"kernel-images/6.1-armv5.jsonl", "kernel-images/6.1-armv6.jsonl", "kernel-images/6.1-armv7.jsonl")
}

func TestTraceStates(t *testing.T) {
	prog := bpf.Program{op(bpf.LdHAbs, 0), jmp(bpf.JeqK, 0x0102, 1, 0), ret, tax, op(bpf.Stx, 2), neg, retA}
	m := mustCompile(t, prog, bpf.Socket, bpf.RulesCurrent)
	var got []bpf.State
	m.Trace(&packet{Packet: hexBytes{1, 2}}, func(s bpf.State) { got = append(got, s) })
	stored := [bpf.MemWords]uint32{2: 0x0102}
	want := []bpf.State{
		{PC: 0}, {PC: 1, A: 0x0102}, {PC: 3, A: 0x0102}, {PC: 4, A: 0x0102, X: 0x0102},
		{PC: 5, A: 0x0102, X: 0x0102, M: stored}, {PC: 6, A: 0xfffffefe, X: 0x0102, M: stored},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// linearOnly is a packet that must not be asked for what is linear.
type linearOnly struct {
	*packet
	t *testing.T
}

func (p linearOnly) Load(off uint32, size int) (uint32, bool) {
	p.t.Errorf("Load(%d, %d) was called for linear bytes", off, size)
	return 0, false
}

func TestLinearLoadsDoNotCallLoad(t *testing.T) {
	in := linearOnly{&packet{Packet: hexBytes{1, 2, 3, 4, 5}}, t}
	last := map[uint16]uint32{
		bpf.LdWAbs: 1, bpf.LdHAbs: 3, bpf.LdBAbs: 4, bpf.LdWInd: 1, bpf.LdHInd: 3, bpf.LdBInd: 4, bpf.LdxMsh: 4,
	}
	for code, off := range last {
		for _, next := range []uint16{bpf.JeqK, bpf.JsetK, bpf.Neg} {
			prog := bpf.Program{op(code, off), op(next, 9), retA}
			if r := mustCompile(t, prog, bpf.Socket, bpf.RulesCurrent).Run(in); r.LoadFailed {
				t.Errorf("code %#x, then %#x: %+v", code, next, r)
			}
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	headlen := 4
	in := &packet{Packet: make(hexBytes, 64), Headlen: &headlen}
	prog := bpf.Program{ldLen, op(bpf.St, 3), op(bpf.LdWAbs, 9), op(bpf.LdxMsh, 0), op(bpf.LdHInd, 9),
		op(bpf.LdWAbs, bpf.ExtMark.K()), op(bpf.LdMem, 3), op(bpf.LdBAbs, 99), retA}
	m := mustCompile(t, prog, bpf.Socket, bpf.RulesCurrent)
	if n := testing.AllocsPerRun(100, func() { m.Run(in) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

// TestMachineIsShared lets goroutines run, trace, and spoil what they got.
func TestMachineIsShared(t *testing.T) {
	prog := bpf.Program{op(bpf.LdBAbs, 0), op(bpf.St, 1), op(bpf.LdBAbs, 1), tax, op(bpf.LdMem, 1), op(bpf.MulX, 0), retA}
	m := mustCompile(t, prog, bpf.Socket, bpf.RulesCurrent)
	prog[0] = ret // the machine has its own copy
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			in := &packet{Packet: hexBytes{byte(i), 7}}
			want := ended(uint32(7*i), 7, 6)
			for range 200 {
				m.Program()[3] = ret
				if got := m.Run(in); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if got := m.Trace(in, func(bpf.State) {}); got != want {
					t.Errorf("traced %+v, want %+v", got, want)
				}
			}
		})
	}
	group.Wait()
}
