package peers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

func needLibseccomp(t testing.TB) *Libseccomp {
	t.Helper()
	lib, err := NewLibseccomp()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Log("libseccomp ", lib.Version)
	return lib
}

// runcReturns is the return value that runc gives to an action.
func runcReturns(action specs.LinuxSeccompAction, errno *uint) uint32 {
	data := uint32(1) // EPERM
	if errno != nil {
		data = uint32(*errno)
	}
	switch action {
	case specs.ActErrno:
		return 0x00050000 | data
	case specs.ActTrace:
		return 0x7ff00000 | data
	}
	return map[specs.LinuxSeccompAction]uint32{
		specs.ActKill: 0, specs.ActKillThread: 0, specs.ActKillProcess: 0x80000000, specs.ActTrap: 0x00030000,
		specs.ActNotify: 0x7fc00000, specs.ActLog: 0x7ffc0000, specs.ActAllow: 0x7fff0000,
	}[action]
}

// narrow are the ABIs whose arguments libseccomp takes for 32 bits wide. For
// x32 that is its own opinion: its registers have 64, as kjit has it.
func narrow(abi *seccompdata.ABI) bool { return abi == seccompdata.X32 }

// compareLibseccomp makes filters of a profile with libseccomp and with kjit, in
// all layouts, and runs them on the boundaries of the policy.
func compareLibseccomp(t *testing.T, lib *Libseccomp, name string, profile *specs.LinuxSeccomp, abis []*seccompdata.ABI) {
	t.Helper()
	text, err := json.Marshal(profile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(name, text, policy.Options{ABIs: abis})
	if err != nil {
		t.Fatal(err)
	}
	for optimize := 1; optimize <= 2; optimize++ {
		theirs, unknown, err := lib.Filter(profile, abis, optimize, runcReturns)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		// The library may be older than kjit's tables.
		q := *p
		q.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r policy.Rule) bool { return slices.Contains(unknown, r.Call) })
		reference, err := bpf.Compile(theirs, bpf.Seccomp, bpf.RulesCurrent)
		if err != nil {
			t.Fatal(err)
		}
		calls := slices.DeleteFunc(q.Boundaries(), func(d seccompdata.Data) bool {
			abi := seccompdata.ABIOf(d.Arch, d.Nr)
			return abi != nil && narrow(abi) && slices.ContainsFunc(d.Args[:], func(arg uint64) bool { return arg>>32 != 0 })
		})
		for _, layout := range policy.Layouts() {
			c, err := policy.Compile(&q, policy.CompileOptions{Layout: layout})
			if err != nil {
				t.Fatal(err)
			}
			ours, err := bpf.Compile(c.Program, bpf.Seccomp, bpf.RulesCurrent)
			if err != nil {
				t.Fatal(err)
			}
			for i := range calls {
				if got, want := ours.Run(&calls[i]).Value, reference.Run(&calls[i]).Value; got != want {
					t.Fatalf("%s, optimization %d, %s: %+v: got %s, libseccomp %s gives %s\n%s", name, optimize, layout, calls[i],
						seccompdata.FormatRet(got), lib.Version, seccompdata.FormatRet(want), text)
				}
			}
		}
	}
}

var abiSets = [][]*seccompdata.ABI{
	{seccompdata.X86_64},
	{seccompdata.I386},
	{seccompdata.X86_64, seccompdata.I386, seccompdata.X32},
	{seccompdata.ARM},
	{seccompdata.AARCH64, seccompdata.ARM},
}

func TestLibseccompOnDockerDefault(t *testing.T) {
	lib := needLibseccomp(t)
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: policy.DockerCapabilities}}}
	profile, err := moby.GetDefaultProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	profile.Architectures = nil // those of the set
	for _, abis := range abiSets {
		compareLibseccomp(t, lib, fmt.Sprint("docker default for ", abis), profile, abis)
	}
}

// randomProfile has rules that libseccomp 2.5.4 gets right, which are not all:
//
//   - Where a name that the ABI has no number for comes first in its order, the
//     filter forgets to load the number of the call, and compares the
//     architecture. So all names have numbers everywhere.
//   - Rules of one call whose conditions are merged in a tree can lose
//     alternatives: of ioctl with arg2 <= 0x200000001, or with arg2 <
//     0x100000001, it does not find 0x100000002. So each call has one conditional rule, or several that compare one argument for
//     equality.
//   - Of rules without conditions for one call it takes the first, or fails with
//     EEXIST. So there is one.
func randomProfile(r *rand.Rand) *specs.LinuxSeccomp {
	actions := []specs.LinuxSeccompAction{specs.ActKillThread, specs.ActKillProcess, specs.ActTrap, specs.ActErrno, specs.ActTrace, specs.ActLog, specs.ActAllow}
	ops := []specs.LinuxSeccompOperator{specs.OpEqualTo, specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpGreaterThan, specs.OpGreaterEqual, specs.OpMaskedEqual}
	names := []string{"read", "write", "prctl", "socket", "bind", "connect", "recvmmsg", "semget", "shmat", "clone", "ioctl", "openat", "kill", "getpid", "exit_group", "no_such_call"}
	word := func() uint64 {
		return []uint64{0, 0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, uint64(r.Uint32())}[r.IntN(9)]
	}
	p := &specs.LinuxSeccomp{DefaultAction: actions[r.IntN(len(actions))]}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+r.IntN(len(names))] {
		rule := specs.LinuxSyscall{Names: []string{name}, Action: actions[r.IntN(len(actions))]}
		switch r.IntN(3) {
		case 0:
			p.Syscalls = append(p.Syscalls, rule)
		case 1:
			for _, index := range r.Perm(6)[:1+r.IntN(3)] {
				arg := specs.LinuxSeccompArg{Index: uint(index), Op: ops[r.IntN(len(ops))], Value: word()<<32 | word()}
				if arg.Op == specs.OpMaskedEqual {
					arg.Value |= 1<<40 | 1 // a mask of 0 asks nothing
					arg.ValueTwo = (word()<<32 | word()) & arg.Value
				}
				rule.Args = append(rule.Args, arg)
			}
			p.Syscalls = append(p.Syscalls, rule)
		case 2:
			index := uint(r.IntN(6))
			for range 1 + r.IntN(20) {
				one := rule
				one.Args = []specs.LinuxSeccompArg{{Index: index, Op: specs.OpEqualTo, Value: word()<<32 | word()}}
				p.Syscalls = append(p.Syscalls, one)
			}
		}
	}
	return p
}

func TestLibseccompOnRandomProfiles(t *testing.T) {
	lib := needLibseccomp(t)
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("KJIT_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("KJIT_SEED=%d", n)
	r := rand.New(rand.NewPCG(n, n))
	for i := range 200 {
		profile := randomProfile(r)
		abis := abiSets[i%len(abiSets)]
		if slices.ContainsFunc(abis, func(abi *seccompdata.ABI) bool { return abi.Bits == 32 || narrow(abi) }) {
			// libseccomp cuts constants to 32 bits for these; kjit warns of them.
			for _, rule := range profile.Syscalls {
				for j := range rule.Args {
					rule.Args[j].Value &= 0xffffffff
					rule.Args[j].ValueTwo &= 0xffffffff
				}
			}
		}
		compareLibseccomp(t, lib, fmt.Sprint("random profile ", i), profile, abis)
	}
}
