package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/seccompdata"
)

func TestProfileErrors(t *testing.T) {
	const rule = `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"},
		{"names": ["prctl"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 1, "value": 2, "op": "SCMP_CMP_EQ"}]}]}`
	for _, tt := range []struct{ desc, old, new, want string }{
		{"An unknown operator is named, and what there is.", "SCMP_CMP_EQ", "SCMP_CMP_IS", `p: syscalls[1].args[0].op: unknown operator "SCMP_CMP_IS"; known are SCMP_CMP_EQ, SCMP_CMP_GE`},
		{"An unknown action is named.", `["read"], "action": "SCMP_ACT_ALLOW"`, `["read"], "action": "ALLOW"`, `p: syscalls[0].action: unknown action "ALLOW"; known are SCMP_ACT_ALLOW`},
		{"So is an unknown default.", "SCMP_ACT_ERRNO", "SCMP_ACT_DENY", `p: defaultAction: unknown action "SCMP_ACT_DENY"`},
		{"A profile needs a default.", `"defaultAction": "SCMP_ACT_ERRNO", `, "", "p: defaultAction: is missing"},
		{"A rule needs an action.", `, "action": "SCMP_ACT_ALLOW", "args"`, `, "args"`, "p: syscalls[1].action: is missing"},
		{"An unknown ABI is named.", `"syscalls"`, `"architectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X87"], "syscalls"`, `p: architectures[1]: unknown architecture "SCMP_ARCH_X87"`},
		{"ABIs have the names of the specification.", `"syscalls"`, `"architectures": ["amd64"], "syscalls"`, `p: architectures[0]: unknown architecture "amd64"`},
		{"Those of an archMap are looked at, too.", `"syscalls"`, `"archMap": [{"architecture": "SCMP_ARCH_ARM", "subArchitectures": ["SCMP_ARCH_ARMOR"]}], "syscalls"`, `p: archMap[0].subArchitectures[0]: unknown architecture`},
		{"There is one list of ABIs.", `"syscalls"`, `"architectures": ["SCMP_ARCH_X86"], "archMap": [{"architecture": "SCMP_ARCH_ARM"}], "syscalls"`, "p: archMap: stands beside architectures"},
		{"There are six arguments.", `"index": 1`, `"index": 6`, "p: syscalls[1].args[0].index: there is no argument 6"},
		{"A negative value is no value, and the line is named.", `"value": 2`, `"value": -1`, "p:2: syscalls.args.value: number -1 where a number from 0"},
		{"A value beyond 64 bits is none.", `"value": 2`, `"value": 18446744073709551616`, "p:2: syscalls.args.value: number 18446744073709551616"},
		{"A string is no list.", `["read"]`, `"read"`, "p:1: syscalls.names: string where a list is wanted"},
		{"A rule is an object.", `{"names": ["read"], "action": "SCMP_ACT_ALLOW"}`, `null`, "p: syscalls[0]: is null"},
		{"A call has a name.", `["read"]`, `["read", ""]`, "p: syscalls[0].names[1]: is empty"},
		{"There is one way to name calls.", `"names": ["read"]`, `"name": "write", "names": ["read"]`, "p: syscalls[0].name: stands beside names"},
		{"An errno has 16 bits.", `"defaultAction"`, `"defaultErrnoRet": 65536, "defaultAction"`, "p: defaultErrnoRet: 65536 does not fit"},
		{"Text that breaks off is no JSON.", `"op": "SCMP_CMP_EQ"}]}]}`, ``, "p:2: no JSON: it ends too early"},
		{"A comma too many is found.", `"SCMP_ACT_ALLOW"},`, `"SCMP_ACT_ALLOW"},,`, "p:1: no JSON: invalid character ','"},
		{"There is one object.", `}]}]}`, `}]}]} {}`, "p: there is something behind"},
		{"A kernel has two numbers.", `"names": ["read"]`, `"includes": {"minKernel": "4"}, "names": ["read"]`, "invalid kernel version"},
		{"An unknown operator of a rule for others is found.", `"names": ["prctl"]`, `"includes": {"caps": ["CAP_BPF"]}, "names": ["prctl"]`, ""},
	} {
		if !strings.Contains(rule, tt.old) {
			t.Fatal(tt.desc)
		}
		_, err := Parse("p", []byte(strings.Replace(rule, tt.old, tt.new, 1)), Options{})
		var typed *ProfileError
		switch {
		case tt.want == "" && err != nil, tt.want != "" && err == nil:
			t.Errorf("%s got %v", tt.desc, err)
		case tt.want != "" && (!errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s got %q, want %q in a *ProfileError", tt.desc, err, tt.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ desc, rules, want string }{
		{"A call that no ABI has is told.", `{"names": ["read", "raed"], "action": "SCMP_ACT_ALLOW"}`, "unknown raed"},
		{"An unknown field is told.", `{"names": ["read"], "action": "SCMP_ACT_ALLOW", "arg": []}`, "syscalls[0].arg: unknown field: it is ignored; known here are names, name, action"},
		{"A value outside the mask is told, and dropped.", `{"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 15, "valueTwo": 19, "op": "SCMP_CMP_MASKED_EQ"}]}`, "syscalls[0].args[0].valueTwo: 0x13 has bits that are not in the mask 0xf"},
		{"A second value without use is told.", `{"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 15, "valueTwo": 19, "op": "SCMP_CMP_EQ"}]}`, "syscalls[0].args[0].valueTwo: SCMP_CMP_EQ has no second value"},
		{"Two conditions on an argument are told.", `{"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_GT"}, {"index": 0, "value": 9, "op": "SCMP_CMP_LT"}]}`, "syscalls[0].args: several conditions on one argument"},
		{"An errno that nobody returns is told.", `{"names": ["kill"], "action": "SCMP_ACT_ALLOW", "errnoRet": 3}`, "syscalls[0].errnoRet: SCMP_ACT_ALLOW takes no errno"},
		{"So is one that is too large.", `{"names": ["kill"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5000}`, "syscalls[0].errnoRet: 5000 is above 4095"},
		{"A constant that 32 bits do not reach is told.", `{"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 4294967296, "op": "SCMP_CMP_LT"}]}`, "syscalls[0].args[0].value: i386 has 32-bit arguments"},
		{"Conditions that socketcall gets round are told.", `{"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 2, "op": "SCMP_CMP_EQ"}]}`, "syscalls[0].names[0]: i386 programs can call socket through socketcall"},
		{"Rules that hold at once are told.", `{"names": ["kill"], "action": "SCMP_ACT_LOG", "args": [{"index": 0, "value": 5, "op": "SCMP_CMP_LT"}]}, {"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]}`, "syscalls[0] and syscalls[1], both for kill: both can hold, and then the first decides"},
		{"Rules that do not are not.", `{"names": ["kill"], "action": "SCMP_ACT_LOG", "args": [{"index": 0, "value": 5, "op": "SCMP_CMP_LT"}]}, {"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 5, "op": "SCMP_CMP_EQ"}]}`, ""},
		{"A rule without conditions hides others.", `{"names": ["kill"], "action": "SCMP_ACT_LOG"}, {"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 5, "op": "SCMP_CMP_EQ"}]}`, "the one without conditions decides"},
		{"A rule with the default action is none.", `{"names": ["kill"], "action": "SCMP_ACT_KILL", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]}, {"names": ["kill"], "action": "SCMP_ACT_ALLOW"}`, "the one with the default action is without effect"},
		{"A rule without calls is told.", `{"names": [], "action": "SCMP_ACT_ALLOW"}`, "syscalls[0]: it names no call"},
		{"A usual rule is not.", `{"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "comment": "both"}`, ""},
		{"A call that a rule for others names as well is told.", `{"names": ["raed"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_BPF"]}}, {"names": ["raed"], "action": "SCMP_ACT_ALLOW"}`, "unknown raed"},
		{"A rule for others warns of nothing.", `{"names": ["raed"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_BPF"]}}`, ""},
	} {
		p, err := Parse("p", fmt.Appendf(nil, `{"defaultAction": "SCMP_ACT_KILL", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"], "syscalls": [%s]}`, tt.rules), Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.desc, err)
			continue
		}
		var got []string
		for _, name := range p.Unknown {
			got = append(got, "unknown "+name)
		}
		for _, w := range p.Warnings {
			got = append(got, w.String())
		}
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s got %q, want %q", tt.desc, got, tt.want)
		}
		agrees(t, p, CompileOptions{}, p.Boundaries())
	}
}

// Which rules a container gets: conditions on capabilities, kernels and machines.
func TestConditionsOnContainers(t *testing.T) {
	const profile = `{"defaultAction": "SCMP_ACT_ERRNO",
		"archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X32"]}, {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]}],
		"syscalls": [
			{"names": ["read"], "action": "SCMP_ACT_ALLOW"},
			{"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
			{"names": ["chroot"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_CHROOT", "CAP_SYS_ADMIN"]}},
			{"names": ["clone3"], "action": "SCMP_ACT_ALLOW", "excludes": {"caps": ["CAP_SYS_BOOT", "CAP_SYS_ADMIN"]}},
			{"names": ["capget"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["arm64", "arm"]}},
			{"names": ["capset"], "action": "SCMP_ACT_ALLOW", "excludes": {"arches": ["amd64"], "minKernel": "6.0"}},
			{"name": "mount", "action": "SCMP_ACT_ALLOW", "excludes": {"minKernel": "5.0"}}
		]}`
	admin := []string{"CAP_SYS_CHROOT", "CAP_SYS_ADMIN"}
	for _, tt := range []struct {
		desc string
		o    Options
		abis string
		want string
	}{
		{"By default it is Docker's container on x86_64 with a new kernel.", Options{}, "[x86_64 x32]", "clone3 ptrace read"},
		{"A rule needs all its capabilities.", Options{Capabilities: admin[:1]}, "[x86_64 x32]", "clone3 ptrace read"},
		{"With them it is there, and one of them excludes another.", Options{Capabilities: admin}, "[x86_64 x32]", "chroot ptrace read"},
		{"No capabilities are not Docker's.", Options{Capabilities: []string{}}, "[x86_64 x32]", "clone3 ptrace read"},
		{"A kernel can be too old.", Options{Kernel: seccompdata.Kernel{Major: 4, Minor: 7}}, "[x86_64 x32]", "clone3 mount read"},
		{"The first that is new enough is taken.", Options{Kernel: seccompdata.Kernel{Major: 4, Minor: 8}}, "[x86_64 x32]", "clone3 mount ptrace read"},
		{"An exclusion begins with a kernel, too.", Options{Kernel: seccompdata.Kernel{Major: 5, Minor: 0}}, "[x86_64 x32]", "clone3 ptrace read"},
		{"The machine chooses the ABIs, and rules.", Options{Native: seccompdata.AARCH64, Kernel: seccompdata.Kernel{Major: 5, Minor: 19}}, "[aarch64 arm]", "capget capset clone3 ptrace read"},
		{"A machine that is not in the map has its own ABI alone.", Options{Native: seccompdata.I386}, "[i386]", "clone3 ptrace read"},
		{"The first of given ABIs is the machine's.", Options{ABIs: []*seccompdata.ABI{seccompdata.ARM}}, "[arm]", "capget clone3 ptrace read"},
	} {
		p, err := Parse("p", []byte(profile), tt.o)
		if err != nil {
			t.Fatal(err)
		}
		var calls []string
		for _, r := range p.Rules {
			calls = append(calls, r.Call)
		}
		slices.Sort(calls)
		if got := strings.Join(slices.Compact(calls), " "); got != tt.want || fmt.Sprint(p.ABIs) != tt.abis {
			t.Errorf("%s got %v with %s, want %s with %s", tt.desc, p.ABIs, got, tt.abis, tt.want)
		}
	}
}

// Facts that the Docker default profile is known for (Linux 6.18 said so where
// the ABI runs there).
func TestDockerGoldens(t *testing.T) {
	p := docker(t, Options{}, seccompdata.X86_64, seccompdata.I386, seccompdata.X32)
	const allow, eperm, nosys = 0x7fff0000, 0x50001, 0x50026
	for _, tt := range []struct {
		desc string
		arch uint32
		nr   uint32
		arg  uint64
		want uint32
	}{
		{"socket of AF_INET", seccompdata.ArchX86_64, 41, 2, allow},
		{"socket of AF_ALG", seccompdata.ArchX86_64, 41, 38, eperm},
		{"socket of AF_VSOCK", seccompdata.ArchX86_64, 41, 40, eperm},
		{"socket with something in the high word, though the kernel reads an int", seccompdata.ArchX86_64, 41, 0x100000002, eperm},
		{"personality of 0xffffffff", seccompdata.ArchX86_64, 135, 0xffffffff, allow},
		{"personality of -1 with its sign extended", seccompdata.ArchX86_64, 135, 0xffffffffffffffff, eperm},
		{"x32 getpid", seccompdata.ArchX86_64, 0x40000027, 0, allow},
		{"i386 socketcall", seccompdata.ArchI386, 102, 1, allow},
		{"i386 socket of AF_ALG", seccompdata.ArchI386, 359, 38, eperm},
		{"anything of ARM", seccompdata.ArchARM, 20, 0, 0},
		{"clone3", seccompdata.ArchX86_64, 435, 0, nosys},
		{"number 500", seccompdata.ArchX86_64, 500, 0, eperm},
		{"number -1", seccompdata.ArchX86_64, 0xffffffff, 0, eperm},
		{"ptrace", seccompdata.ArchX86_64, 101, 0, allow},
	} {
		d := seccompdata.Data{Nr: tt.nr, Arch: tt.arch, Args: [6]uint64{tt.arg}}
		if got := p.Verdict(&d, CompileOptions{}).Ret; got != tt.want {
			t.Errorf("%s gets %s, want %s", tt.desc, seccompdata.FormatRet(got), seccompdata.FormatRet(tt.want))
		}
	}
	if len(p.Unknown) != 1 || p.Unknown[0] != "riscv_hwprobe" {
		t.Errorf("unknown are %q", p.Unknown)
	}
}

// Several conditions on one argument: kill a process above 1 and up to 100.
func TestSameArgument(t *testing.T) {
	const profile = `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [
		{"index": 0, "value": 1, "op": "SCMP_CMP_GT"}, {"index": 0, "value": 100, "op": "SCMP_CMP_LE"}, {"index": 1, "value": 15, "op": "SCMP_CMP_EQ"}]}]}`
	type args struct{ pid, signal uint64 }
	for _, tt := range []struct {
		desc    string
		same    SameArg
		allowed []args
		denied  []args
	}{
		{"runc takes each condition alone, so that anything goes.", SameArgOr, []args{{50, 15}, {1, 9}, {500, 9}, {0, 0}}, nil},
		{"By the specification all have to hold.", SameArgAnd, []args{{50, 15}, {2, 15}, {100, 15}}, []args{{1, 15}, {101, 15}, {50, 9}, {0, 15}, {1 << 32, 15}}},
	} {
		p, err := Parse("p", []byte(profile), Options{SameArg: tt.same})
		if err != nil {
			t.Fatal(err)
		}
		for want, calls := range map[uint32][]args{uint32(seccompdata.Allow): tt.allowed, 0x50001: tt.denied} {
			for _, a := range calls {
				d := seccompdata.Data{Nr: 62, Arch: seccompdata.ArchX86_64, Args: [6]uint64{a.pid, a.signal}}
				if got := p.Verdict(&d, CompileOptions{}).Ret; got != want {
					t.Errorf("%s kill%v gets %s", tt.desc, a, seccompdata.FormatRet(got))
				}
			}
		}
		agrees(t, p, CompileOptions{}, p.Boundaries())
	}
}

// A whole config.json brings its capabilities along.
func TestConfigJSON(t *testing.T) {
	const config = `{"ociVersion": "1.2.0",
		"process": {"capabilities": {"bounding": ["CAP_SYS_BOOT"]}},
		"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
			{"names": ["reboot"], "action": "SCMP_ACT_ALLOW"},
			{"names": ["chroot"], "action": "SCMP_ACT_WRONG"}]}}}`
	_, err := Parse("config.json", []byte(config), Options{})
	if err == nil || !strings.Contains(err.Error(), "linux.seccomp.syscalls[1].action") {
		t.Errorf("got %v", err)
	}
	good := strings.Replace(config, `SCMP_ACT_WRONG"`, `SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_CHROOT"]}`, 1)
	p, err := Parse("config.json", []byte(good), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{{ABI: seccompdata.X86_64, Nr: 169, Call: "reboot", Ret: 0x7fff0000, Where: "linux.seccomp.syscalls[0]"}}
	if diff := cmp.Diff(want, p.Rules, cmp.Comparer(func(x, y *seccompdata.ABI) bool { return x == y })); diff != "" {
		t.Error(diff)
	}
	if _, err := Parse("config.json", []byte(`{"linux": {}}`), Options{}); err == nil || !strings.Contains(err.Error(), "no seccomp profile") {
		t.Errorf("got %v", err)
	}
}

func TestCapabilities(t *testing.T) {
	for _, tt := range []struct{ desc, text, want string }{
		{"Names may lack their CAP_.", "sys_admin,CAP_KILL", "CAP_KILL CAP_SYS_ADMIN"},
		{"A minus takes away.", "default,-mknod,-kill,-chown", "CAP_AUDIT_WRITE CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_SETFCAP CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_CHROOT"},
		{"None is an empty list.", "none", ""},
	} {
		got, err := ParseCapabilities(tt.text)
		if err != nil || got == nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s got %q, %v", tt.desc, got, err)
		}
	}
	if all, err := ParseCapabilities("all"); len(all) != 41 || err != nil {
		t.Errorf("%d capabilities, %v", len(all), err)
	}
	if _, err := ParseCapabilities("sys_amdin"); err == nil || !strings.Contains(err.Error(), `"sys_amdin"`) {
		t.Errorf("got %v", err)
	}
}
