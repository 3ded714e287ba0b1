package policy

import (
	"runtime"
	"testing"

	elastic "github.com/elastic/go-seccomp-bpf"
	xbpf "golang.org/x/net/bpf"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// elasticABI is the ABI that elastic's module assembles for: the one it runs on.
func elasticABI(t testing.TB) *seccompdata.ABI {
	switch runtime.GOARCH {
	case "amd64":
		return seccompdata.X86_64
	case "386":
		return seccompdata.I386
	case "arm":
		return seccompdata.ARM
	}
	t.Skip("skipped: elastic's assembler does not assemble for the ABIs of kjit on ", runtime.GOARCH)
	return nil
}

func assembleElastic(t testing.TB, p elastic.Policy) *bpf.Machine {
	t.Helper()
	insns, err := p.Assemble()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := xbpf.Assemble(insns)
	if err != nil {
		t.Fatal(err)
	}
	var prog bpf.Program
	for _, ins := range raw {
		prog = append(prog, bpf.Instruction{Code: ins.Op, JT: ins.Jt, JF: ins.Jf, K: ins.K})
	}
	return machine(t, prog)
}

// elasticRet is the return value that elastic makes of an action.
func elasticRet(a elastic.Action) uint32 {
	if a == elastic.ActionErrno {
		return uint32(a) | uint32(seccompdata.EPERM)
	}
	return uint32(a)
}

// Filters of names alone say the same as those of elastic's assembler. Its own
// ways are told to ours: a foreign architecture gets the default, x32 ENOSYS.
// One remains: to elastic number -1 is an x32 call.
func TestElasticAgrees(t *testing.T) {
	abi := elasticABI(t)
	r := seed(t)
	actions := []elastic.Action{elastic.ActionKillThread, elastic.ActionKillProcess, elastic.ActionTrap, elastic.ActionErrno, elastic.ActionTrace, elastic.ActionLog, elastic.ActionAllow}
	numbers := abi.Numbers()
	for range 30 {
		theirs := elastic.Policy{DefaultAction: actions[r.IntN(len(actions))]}
		ours := &Policy{Name: "names", ABIs: []*seccompdata.ABI{abi}, Default: elasticRet(theirs.DefaultAction)}
		r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		left := numbers
		for range 1 + r.IntN(4) {
			n := r.IntN(len(left)/2 + 1)
			group := elastic.SyscallGroup{Action: actions[r.IntN(len(actions))]}
			for _, nr := range left[:n] {
				name, _ := abi.Call(nr)
				if seccompdata.Since(abi, nr).AtLeast(6, 16) {
					continue // newer than elastic's table
				}
				group.Names = append(group.Names, name)
				ours.Rules = append(ours.Rules, Rule{ABI: abi, Nr: nr, Call: name, Ret: elasticRet(group.Action)})
			}
			left = left[n:]
			theirs.Syscalls = append(theirs.Syscalls, group)
		}
		compareElastic(t, ours, assembleElastic(t, theirs))
	}
}

func compareElastic(t *testing.T, ours *Policy, theirs *bpf.Machine) {
	t.Helper()
	calls := ours.Boundaries()
	for _, layout := range Layouts() {
		c, err := Compile(ours, CompileOptions{Layout: layout, BadArch: ours.Default, X32: X32Enosys})
		if err != nil {
			t.Fatal(err)
		}
		m := machine(t, c.Program)
		for i := range calls {
			if calls[i].Nr == 0xffffffff && calls[i].Arch == seccompdata.ArchX86_64 {
				continue
			}
			if got, want := m.Run(&calls[i]).Value, theirs.Run(&calls[i]).Value; got != want {
				t.Fatalf("%s: %+v: got %s, elastic gives %s", layout, calls[i], seccompdata.FormatRet(got), seccompdata.FormatRet(want))
			}
		}
	}
}

// Comparisons of 64-bit arguments are elastic's.
func TestElasticComparesTheSame(t *testing.T) {
	abi := elasticABI(t)
	if abi.Bits == 32 {
		t.Skip("skipped: elastic looks at the high words of 32-bit arguments, which are always 0")
	}
	r := seed(t)
	ops := map[Op]elastic.Operation{EQ: elastic.Equal, NE: elastic.NotEqual, GT: elastic.GreaterThan, GE: elastic.GreaterOrEqual, LT: elastic.LessThan, LE: elastic.LessOrEqual}
	for op, theirs := range ops {
		for range 20 {
			value := words[r.IntN(len(words))]<<32 | words[r.IntN(len(words))]
			nr, _ := abi.Number("prctl")
			ours := &Policy{Name: "prctl", ABIs: []*seccompdata.ABI{abi}, Default: elasticRet(elastic.ActionErrno), Rules: []Rule{{
				ABI: abi, Nr: nr, Call: "prctl", Ret: uint32(elastic.ActionAllow), Conditions: []Condition{{Arg: 2, Op: op, Value: value}},
			}}}
			compareElastic(t, ours, assembleElastic(t, elastic.Policy{DefaultAction: elastic.ActionErrno, Syscalls: []elastic.SyscallGroup{{
				Action: elastic.ActionAllow, NamesWithCondtions: []elastic.NameWithConditions{{
					Name: "prctl", Conditions: elastic.ArgumentConditions{{Argument: 2, Operation: theirs, Value: value}},
				}},
			}}}))
		}
	}
}
