package seccompdata

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAction(t *testing.T) {
	for text, want := range map[string]Action{
		"ALLOW": Allow, "allow": Allow, "SECCOMP_RET_TRAP": Trap, "SCMP_ACT_ERRNO": Errno, "scmp_act_notify": UserNotif,
		"KILL": KillThread, "SCMP_ACT_KILL": KillThread, "KILL_PROCESS": KillProcess, "log": Log, "TRACE": Trace,
	} {
		if got, err := ParseAction(text); err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	if _, err := ParseAction("DENY"); err == nil || !strings.Contains(err.Error(), "KILL_PROCESS, KILL_THREAD, TRAP, ERRNO") {
		t.Errorf("an unknown action gives %v", err)
	}
}

func TestParseRet(t *testing.T) {
	for text, want := range map[string]uint32{
		"ERRNO 38": 0x50026, "errno(1)": 0x50001, "ERRNO:0x26": 0x50026, "ERRNO=1": 0x50001, "ALLOW": 0x7fff0000,
		"0x7fff0001": 0x7fff0001, "0": 0, "KILL_PROCESS": 0x80000000, "ERRNO": 0x50000, "TRACE 65535": 0x7ff0ffff,
	} {
		if got, err := ParseRet(text); err != nil || got != want {
			t.Errorf("%s is %#x, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "ERRNO 65536", "ERRNO x", "ERRNO -1", "NOTHING 1", "0x100000000"} {
		if ret, err := ParseRet(text); err == nil {
			t.Errorf("%q is %#x", text, ret)
		}
	}
	for _, ret := range []uint32{0, 0x50026, 0x7fff0000, 0x7ff00007, 0x80000000} {
		if again, err := ParseRet(FormatRet(ret)); err != nil || again != ret {
			t.Errorf("%s is %#x, %v", FormatRet(ret), again, err)
		}
	}
}

// Today's order has KILL_PROCESS first and unknown actions by their number.
func TestOrder(t *testing.T) {
	strongestFirst := []uint32{
		0x80000000, 0x80010000, 0xffff0000, 0x00000000, 0x00010000, 0x00030000, 0x00040000, 0x00050000, 0x00060000,
		0x7fc00000, 0x7fc10000, 0x7ff00000, 0x7ffc0000, 0x7ffd0000, 0x7fff0000,
	}
	for i, a := range strongestFirst {
		for j, b := range strongestFirst {
			if got := Stronger(a|1, b|2, CurrentKernel); got != (i < j) {
				t.Errorf("%#x stronger than %#x: %v", a, b, got)
			}
		}
	}
	if diff := cmp.Diff([]Action{KillProcess, KillThread, Trap, Errno, UserNotif, Trace, Log, Allow}, Actions()); diff != "" {
		t.Error(diff)
	}
}

// Before 4.14 the highest bit was not looked at.
func TestOrderOf44(t *testing.T) {
	old := Kernel{4, 4}
	for _, tt := range []struct {
		desc string
		a, b uint32
		want bool
	}{
		{"KILL_PROCESS is no stronger than KILL.", 0x80000000, 0, false},
		{"KILL is no stronger than KILL_PROCESS.", 0, 0x80000000, false},
		{"With the highest bit an action is what it is without.", 0x80050000, 0x7fff0000, true},
		{"ALLOW with the highest bit is as weak as ALLOW.", 0xffff0000, 0x7fff0000, false},
		{"TRAP is stronger than ERRNO.", 0x30000, 0x50000, true},
		{"Data says nothing.", 0x50001, 0x50002, false},
	} {
		if Stronger(tt.a, tt.b, old) != tt.want {
			t.Errorf("%s but it is not so", tt.desc)
		}
	}
}

func TestEffect(t *testing.T) {
	kill := Effect{Kind: EffectSignal, Signal: 31}
	killAll := Effect{Kind: EffectSignal, Signal: 31, WholeProcess: true}
	errno := func(n LinuxErrno) Effect { return Effect{Kind: EffectErrno, Errno: n} }
	for _, tt := range []struct {
		desc   string
		ret    uint32
		kernel Kernel
		want   Effect
	}{
		{"ALLOW runs the call.", 0x7fff0000, CurrentKernel, Effect{Kind: EffectRan}},
		{"So does ALLOW with data.", 0x7fff0001, CurrentKernel, Effect{Kind: EffectRan}},
		{"LOG runs the call.", 0x7ffc0007, CurrentKernel, Effect{Kind: EffectRan}},
		{"LOG was unknown to 4.4, and killed.", 0x7ffc0000, Kernel{4, 4}, kill},
		{"ERRNO 0 returns 0.", 0x50000, CurrentKernel, Effect{Kind: EffectValue}},
		{"Errors are at most 4095.", 0x5ffff, CurrentKernel, errno(4095)},
		{"Nobody listens.", 0x7fc00000, CurrentKernel, errno(ENOSYS)},
		{"USER_NOTIF was unknown before 5.0.", 0x7fc00000, Kernel{4, 19}, kill},
		{"Nobody traces.", 0x7ff00005, CurrentKernel, errno(ENOSYS)},
		{"TRAP is a signal.", 0x30009, CurrentKernel, kill},
		{"KILL_THREAD ends the thread.", 5, CurrentKernel, kill},
		{"KILL_PROCESS ends all.", 0x80000005, CurrentKernel, killAll},
		{"4.4 took KILL_PROCESS for KILL.", 0x80000000, Kernel{4, 4}, kill},
		{"4.4 took the highest bit away.", 0xffff0000, Kernel{4, 4}, Effect{Kind: EffectRan}},
		{"An unknown action ends the process.", 0x60000, CurrentKernel, killAll},
		{"Before 5.10 it ended the thread.", 0x60000, Kernel{5, 9}, kill},
	} {
		if diff := cmp.Diff(tt.want, EffectOf(tt.ret, tt.kernel)); diff != "" {
			t.Errorf("%s %s", tt.desc, diff)
		}
	}
}
