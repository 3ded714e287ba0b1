package bpf_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// Instructions of the tables in these tests.
var (
	ret    = bpf.Instruction{Code: bpf.RetK, K: 1}
	retA   = bpf.Instruction{Code: bpf.RetA}
	ldLen  = bpf.Instruction{Code: bpf.LdLen}
	ldxLen = bpf.Instruction{Code: bpf.LdxLen}
	tax    = bpf.Instruction{Code: bpf.Tax}
	txa    = bpf.Instruction{Code: bpf.Txa}
	neg    = bpf.Instruction{Code: bpf.Neg}
)

func op(code uint16, k uint32) bpf.Instruction { return bpf.Instruction{Code: code, K: k} }

func jmp(code uint16, k uint32, jt, jf uint8) bpf.Instruction {
	return bpf.Instruction{Code: code, K: k, JT: jt, JF: jf}
}

func TestCheck(t *testing.T) {
	const ok = "" // the program is accepted
	none := bpf.Rules{}
	for _, test := range []struct {
		desc  string
		prog  bpf.Program
		kind  bpf.Kind
		rules bpf.Rules
		pc    int
		want  string
	}{
		{"a return alone is a program", bpf.Program{ret}, bpf.Socket, none, 0, ok},
		{"an empty program is refused as a whole", bpf.Program{}, bpf.Socket, none, -1,
			"the program is empty, Linux takes 1 to 4096 instructions"},
		{"4096 instructions are accepted", repeat(ret, 4096), bpf.Socket, none, 0, ok},
		{"4097 instructions are too many", repeat(ret, 4097), bpf.Socket, none, -1,
			"the program has 4097 instructions, Linux takes at most 4096"},
		{"a program must end in a return", bpf.Program{ret, ldLen}, bpf.Socket, none, 1,
			"instruction 1: the last instruction is no return"},
		{"code after a return may be unreachable", bpf.Program{ret, ldLen, ret}, bpf.Socket, none, 0, ok},
		{"RET X was never accepted", bpf.Program{op(bpf.RetX, 0)}, bpf.Socket, none, 0,
			"instruction 0: code 0x0e is no instruction"},
		{"codes are compared in all their 16 bits", bpf.Program{op(0x106, 0)}, bpf.Socket, none, 0,
			"instruction 0: code 0x106 is no instruction"},
		{"seccomp filters load words only", bpf.Program{op(bpf.LdHAbs, 0), ret}, bpf.Seccomp, none, 0,
			"instruction 0: code 0x28 is not allowed in seccomp filters"},
		{"seccomp filters have no MOD", bpf.Program{op(bpf.ModK, 3), ret}, bpf.Seccomp, none, 0,
			"instruction 0: code 0x94 is not allowed in seccomp filters"},

		{"a jump may go to the last instruction", bpf.Program{op(bpf.Ja, 1), ret, ret}, bpf.Socket, none, 0, ok},
		{"a jump may not go behind the last instruction", bpf.Program{ldLen, op(bpf.Ja, 1), ret}, bpf.Socket, none, 1,
			"instruction 1: jump goes to 3, the program has 3 instructions"},
		{"a jump to itself is refused", bpf.Program{op(bpf.Ja, 0xffffffff), ret}, bpf.Socket, none, 0,
			"instruction 0: jump goes back to 0, Linux takes forward jumps only"},
		{"a jump back as libpcap's protochain has it is refused", bpf.Program{ldLen, tax, op(bpf.Ja, 0xfffffffd), ret}, bpf.Socket, none, 2,
			"instruction 2: jump goes back to 0, Linux takes forward jumps only"},
		{"the most distant jump back is refused", bpf.Program{op(bpf.Ja, 0x80000000), ret}, bpf.Socket, none, 0,
			"instruction 0: jump goes back to -2147483647, Linux takes forward jumps only"},
		{"a taken branch may not leave the program", bpf.Program{jmp(bpf.JeqK, 0, 1, 0), ret}, bpf.Socket, none, 0,
			"instruction 0: jump goes to 2, the program has 2 instructions"},
		{"an untaken branch may not leave the program", bpf.Program{jmp(bpf.JsetX, 0, 0, 9), ret}, bpf.Socket, none, 0,
			"instruction 0: jump goes to 10, the program has 2 instructions"},

		{"division by a constant 0 is refused", bpf.Program{op(bpf.DivK, 0), ret}, bpf.Socket, none, 0,
			"instruction 0: division by the constant 0"},
		{"modulo by a constant 0 is refused", bpf.Program{op(bpf.ModK, 0), ret}, bpf.Socket, none, 0,
			"instruction 0: division by the constant 0"},
		{"division by X is not looked at", bpf.Program{op(bpf.DivX, 0), ret}, bpf.Socket, none, 0, ok},
		{"shifts by 31 are accepted", bpf.Program{op(bpf.LshK, 31), op(bpf.RshK, 31), ret}, bpf.Socket, none, 0, ok},
		{"shifts by 32 are refused today", bpf.Program{op(bpf.RshK, 32), ret}, bpf.Socket, bpf.RulesCurrent, 0,
			"instruction 0: shift by 32, the most is 31"},
		{"shifts by any count were accepted before 4.5", bpf.Program{op(bpf.LshK, 0xffffffff), ret}, bpf.Socket, bpf.RulesLinux3_10, 0, ok},

		{"there are sixteen cells", bpf.Program{op(bpf.St, 15), op(bpf.St, 16), ret}, bpf.Socket, none, 1,
			"instruction 1: there is no M[16], the cells are M[0] to M[15]"},
		{"a cell must be stored before it is loaded", bpf.Program{op(bpf.St, 1), op(bpf.LdMem, 2), ret}, bpf.Socket, none, 1,
			"instruction 1: M[2] is loaded, but not stored on every path to here"},
		{"a cell stored on one of two paths is not stored",
			bpf.Program{jmp(bpf.JeqK, 0, 1, 0), op(bpf.Stx, 3), op(bpf.LdxMem, 3), ret}, bpf.Socket, none, 2,
			"instruction 2: M[3] is loaded, but not stored on every path to here"},
		{"a cell stored on both paths is stored",
			bpf.Program{jmp(bpf.JeqK, 0, 2, 0), op(bpf.St, 3), op(bpf.Ja, 1), op(bpf.Stx, 3), op(bpf.LdMem, 3), retA}, bpf.Socket, none, 0, ok},
		{"behind a jump everything counts as stored", bpf.Program{op(bpf.Ja, 1), op(bpf.LdMem, 9), ret}, bpf.Socket, none, 0, ok},
		{"behind a return only what was stored before it", bpf.Program{ret, op(bpf.LdMem, 9), ret}, bpf.Socket, none, 1,
			"instruction 1: M[9] is loaded, but not stored on every path to here"},
		{"the wrong field comes before the wrong cell", bpf.Program{op(bpf.LdMem, 9), op(bpf.DivK, 0), ret}, bpf.Socket, none, 1,
			"instruction 1: division by the constant 0"},
		{"fields that are not used may hold anything", bpf.Program{jmp(bpf.Tax, 99, 200, 200), jmp(bpf.RetA, 5, 9, 9)}, bpf.Socket, none, 0, ok},

		{"the last ancillary load of today is known", bpf.Program{op(bpf.LdBAbs, bpf.ExtVlanTPID.K()), ret}, bpf.Socket, bpf.RulesCurrent, 0, ok},
		{"an unknown ancillary load is refused", bpf.Program{op(bpf.LdWAbs, 0xfffff040), ret}, bpf.Socket, bpf.RulesCurrent, 0,
			"instruction 0: linux has no ancillary load 64"},
		{"an ancillary load between two is refused", bpf.Program{op(bpf.LdWAbs, 0xfffff001), ret}, bpf.Socket, none, 0,
			"instruction 0: linux has no ancillary load 1"},
		{"only absolute loads are ancillary", bpf.Program{op(bpf.LdWInd, 0xfffff040), op(bpf.LdxMsh, 0xffffffff), ret}, bpf.Socket, none, 0, ok},
		{"3.10 knows the payload offset", bpf.Program{op(bpf.LdWAbs, bpf.ExtPayOffset.K()), ret}, bpf.Socket, bpf.RulesLinux3_10, 0, ok},
		{"3.10 does not know random numbers", bpf.Program{op(bpf.LdWAbs, bpf.ExtRandom.K()), ret}, bpf.Socket, bpf.RulesLinux3_10, 0,
			"instruction 0: linux-3.10 has no ancillary load 56"},
		{"3.0 lets unknown ancillary loads through", bpf.Program{op(bpf.LdWAbs, 0xfffff040), ret}, bpf.Socket, bpf.RulesLinux3_0, 0, ok},
		{"3.0 has no MOD", bpf.Program{op(bpf.ModX, 0), ret}, bpf.Socket, bpf.RulesLinux3_0, 0,
			"instruction 0: code 0x9c is unknown to linux-3.0 (MOD and XOR came with 3.7)"},
		{"3.0 has no XOR", bpf.Program{op(bpf.XorK, 1), ret}, bpf.Socket, bpf.RulesLinux3_0, 0,
			"instruction 0: code 0xa4 is unknown to linux-3.0 (MOD and XOR came with 3.7)"},
		{"3.10 has XOR", bpf.Program{op(bpf.XorX, 0), ret}, bpf.Socket, bpf.RulesLinux3_10, 0, ok},
		{"3.0 has no seccomp filters", bpf.Program{ret}, bpf.Seccomp, bpf.RulesLinux3_0, -1,
			"linux-3.0 has no seccomp filters"},

		{"the last word of the data may be loaded", bpf.Program{op(bpf.LdWAbs, 60), ret}, bpf.Seccomp, none, 0, ok},
		{"behind the data there is nothing", bpf.Program{op(bpf.LdWAbs, 64), ret}, bpf.Seccomp, none, 0,
			"instruction 0: load at 64, struct seccomp_data has 64 bytes"},
		{"seccomp filters have no ancillary loads", bpf.Program{op(bpf.LdWAbs, bpf.ExtCPU.K()), ret}, bpf.Seccomp, none, 0,
			"instruction 0: load at 4294963236, struct seccomp_data has 64 bytes"},
		{"seccomp filters load aligned words", bpf.Program{op(bpf.LdWAbs, 6), ret}, bpf.Seccomp, none, 0,
			"instruction 0: load at 6, seccomp filters load at multiples of 4"},
	} {
		t.Run(test.desc, func(t *testing.T) {
			err := bpf.Check(test.prog, test.kind, test.rules)
			if test.want == ok {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var check *bpf.CheckError
			if !errors.As(err, &check) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if diff := cmp.Diff(test.want, check.Error()); diff != "" || check.PC != test.pc {
				t.Errorf("PC = %d, want %d; message (-want +got):\n%s", check.PC, test.pc, diff)
			}
			if _, err := bpf.Compile(test.prog, test.kind, test.rules); !errors.As(err, &check) || err.Error() != test.want {
				t.Errorf("Compile: got %v, want %q", err, test.want)
			}
		})
	}
}

func repeat(ins bpf.Instruction, n int) bpf.Program {
	prog := make(bpf.Program, n)
	for pc := range prog {
		prog[pc] = ins
	}
	return prog
}

// TestRules pins what Rules say apart from the checker.
func TestRules(t *testing.T) {
	for _, test := range []struct {
		desc  string
		rules bpf.Rules
		known int // ancillary loads
		codes int // of socket filters
		calls int // of seccomp filters
	}{
		{"3.0 has neither MOD, XOR, seccomp nor the later ancillary loads", bpf.RulesLinux3_0, 10, 45, 0},
		{"3.10 has all but two ancillary loads", bpf.RulesLinux3_10, 14, 49, 41},
		{"today's Linux has all", bpf.RulesCurrent, 16, 49, 41},
		{"no rules are today's", bpf.Rules{}, 16, 49, 41},
	} {
		t.Run(test.desc, func(t *testing.T) {
			known, codes, calls := 0, 0, 0
			for ext := range bpf.Extension(256) {
				if test.rules.Knows(ext) {
					known++
				}
			}
			for code := range 1 << 16 {
				if test.rules.Accepts(uint16(code), bpf.Socket) {
					codes++
				}
				if test.rules.Accepts(uint16(code), bpf.Seccomp) {
					calls++
				}
			}
			if known != test.known || codes != test.codes || calls != test.calls {
				t.Errorf("%d ancillary loads, %d codes, %d in seccomp; want %d, %d, %d",
					known, codes, calls, test.known, test.codes, test.calls)
			}
		})
	}
}

// errno is what attaching the program gives, with rules of today.
func errno(prog bpf.Program, kind bpf.Kind) int {
	if bpf.Check(prog, kind, bpf.RulesCurrent) != nil {
		return 22 // EINVAL
	}
	return 0
}

// TestCheckerRecords compares the checker with what Linux 6.18 said.
func TestCheckerRecords(t *testing.T) {
	type record struct {
		Name         string
		Insns        bpf.Program
		Repeat       *bpf.Instruction
		Count        int
		SeccompErrno int `json:"seccomp_errno"`
		SocketErrno  int `json:"socket_errno"`
	}
	test := func(t *testing.T, path string) {
		for _, r := range records[record](t, path) {
			if r.Repeat != nil {
				r.Insns = repeat(*r.Repeat, r.Count)
			}
			if got := errno(r.Insns, bpf.Socket); got != r.SocketErrno {
				t.Errorf("%s: socket: errno %d, want %d: %v", r.Name, got, r.SocketErrno, r.Insns)
			}
			if got := errno(r.Insns, bpf.Seccomp); got != r.SeccompErrno {
				t.Errorf("%s: seccomp: errno %d, want %d: %v", r.Name, got, r.SeccompErrno, r.Insns)
			}
		}
	}
	bothData(t, "checker.jsonl", test, "seccomp/checker.jsonl")
}

// TestOpcodeRecords compares with what Linux 6.18 said to {st M[0]; code; ret}.
func TestOpcodeRecords(t *testing.T) {
	type record struct {
		Code         uint16
		SeccompErrno int `json:"seccomp_errno"`
		SocketErrno  int `json:"socket_errno"`
	}
	test := func(t *testing.T, path string) {
		for _, r := range records[record](t, path) {
			ins := op(r.Code, 0)
			if ins.Class() == bpf.ClassAlu {
				ins.K = 1
			}
			prog := bpf.Program{op(bpf.St, 0), ins, ret}
			if got := errno(prog, bpf.Socket); got != r.SocketErrno {
				t.Errorf("code %#x: socket: errno %d, want %d", r.Code, got, r.SocketErrno)
			}
			if got := errno(prog, bpf.Seccomp); got != r.SeccompErrno {
				t.Errorf("code %#x: seccomp: errno %d, want %d", r.Code, got, r.SeccompErrno)
			}
		}
	}
	bothData(t, "opcodes.jsonl", test, "seccomp/opcodes.jsonl")
}

// TestGoldenPrograms compares with the checkers of the kernels whose JITs made
// the golden images: "einval" is a refusal, every other result is none.
func TestGoldenPrograms(t *testing.T) {
	type record struct {
		Name    string
		Kernel  string
		Kind    bpf.Kind
		Program bpf.Program
		Result  string
	}
	rules := map[string]bpf.Rules{
		"linux-3.0.1": bpf.RulesLinux3_0, "linux-3.10.99": bpf.RulesLinux3_10,
		"linux-3.12.9": bpf.RulesLinux3_10, "linux-4.5": bpf.RulesCurrent,
		"published": bpf.RulesLinux3_0,
	}
	test := func(t *testing.T, path string) {
		for _, r := range records[record](t, path) {
			kernel, ok := rules[r.Kernel]
			if !ok {
				t.Fatalf("%s: no rules for %q", r.Name, r.Kernel)
			}
			err := bpf.Check(r.Program, r.Kind, kernel)
			if refused := r.Result == "einval"; (err != nil) != refused {
				t.Errorf("%s, %s: got %v, want refused = %v", r.Kernel, r.Name, err, refused)
			}
		}
	}
	bothData(t, "goldens.jsonl", test, "jit-goldens/x86_64.jsonl", "jit-goldens/arm.jsonl")
}
