package seccompdata

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

var allowAll = bpf.Program{{Code: bpf.RetK, K: uint32(Allow)}}

// outcome is what came of attaching in a few words.
func outcome(err error) string {
	var refused *AttachError
	var tsync *TSyncError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &refused):
		return refused.Errno.String()
	case errors.As(err, &tsync) && tsync.ESRCH:
		return ESRCH.String()
	case errors.As(err, &tsync):
		return fmt.Sprint(tsync.Thread)
	}
	return err.Error()
}

func TestSetFilter(t *testing.T) {
	long := append(longest(bpf.LdWAbs), bpf.Instruction{Code: bpf.RetA})
	privileged := Thread{NoNewPrivs: true}
	for _, tt := range []struct {
		desc   string
		caller Thread
		kernel Kernel
		prog   bpf.Program
		flags  Flag
		want   string
	}{
		{"With no_new_privs a filter is taken.", privileged, CurrentKernel, allowAll, 0, "0"},
		{"CAP_SYS_ADMIN does as well.", Thread{SysAdmin: true}, CurrentKernel, allowAll, 0, "0"},
		{"Without either it is not.", Thread{}, CurrentKernel, allowAll, 0, "EACCES"},
		{"An empty filter is invalid even without privileges.", Thread{}, CurrentKernel, nil, 0, "EINVAL"},
		{"So is one of 4097 instructions.", Thread{}, CurrentKernel, long, 0, "EINVAL"},
		{"Privileges are looked at before the program.", Thread{}, CurrentKernel, bpf.Program{{Code: bpf.LdHAbs}, {Code: bpf.RetA}}, 0, "EACCES"},
		{"A load that seccomp does not have is invalid.", privileged, CurrentKernel, bpf.Program{{Code: bpf.LdHAbs}, {Code: bpf.RetA}}, 0, "EINVAL"},
		{"An unknown flag is invalid.", privileged, CurrentKernel, allowAll, 1 << 6, "EINVAL"},
		{"Flags are looked at before privileges.", Thread{}, CurrentKernel, allowAll, 1 << 31, "EINVAL"},
		{"All flags that go together are taken.", privileged, CurrentKernel, allowAll, 63, "0"},
		{"LOG was unknown before 4.14.", privileged, Kernel{4, 13}, allowAll, FlagLog, "EINVAL"},
		{"NEW_LISTENER and TSYNC both return something.", privileged, CurrentKernel, allowAll, FlagNewListener | FlagTSync, "EINVAL"},
		{"With TSYNC_ESRCH they go together.", privileged, CurrentKernel, allowAll, FlagNewListener | FlagTSync | FlagTSyncESRCH, "0"},
		{"TSYNC_ESRCH was unknown before 5.7.", privileged, Kernel{5, 6}, allowAll, FlagTSync | FlagTSyncESRCH, "EINVAL"},
		{"WAIT_KILLABLE_RECV is for listeners.", privileged, CurrentKernel, allowAll, FlagWaitKillable, "EINVAL"},
		{"With one it is taken.", privileged, CurrentKernel, allowAll, FlagWaitKillable | FlagNewListener, "0"},
		{"In strict mode there are no filters.", Thread{NoNewPrivs: true, Mode: ModeStrict}, CurrentKernel, allowAll, 0, "EINVAL"},
	} {
		caller := tt.caller
		p := &Process{Host: &Host{Kernel: tt.kernel}, Threads: []*Thread{&caller}}
		got := outcome(p.SetFilter(&caller, "", tt.prog, tt.flags))
		if got != tt.want {
			t.Errorf("%s got %s", tt.desc, got)
		}
		if attached := caller.Chain.Len() == 1; attached != (tt.want == "0") || attached != (caller.Mode == ModeFilter) {
			t.Errorf("%s afterwards: %+v", tt.desc, caller)
		}
	}
}

// TestTSync runs scripts: "clone B A" starts B as a copy of A, "set A FLAGS" has
// A attach a filter, and the result is what the last one gave with the number of
// filters of each thread.
func TestTSync(t *testing.T) {
	for _, tt := range []struct{ desc, script, want string }{
		{"A thread without filters is taken along.", "clone 2 1; set 1 1", "0: 1 1"},
		{"So is one whose filters the caller inherited.", "set 1 0; clone 2 1; set 1 0; set 1 1", "0: 3 3"},
		{"One with a filter of its own is in the way.", "clone 2 1; set 2 0; set 1 1", "2: 0 1"},
		{"Equal filters that were attached apart are others.", "clone 2 1; set 1 0; set 2 0; set 1 1", "2: 1 1"},
		{"One that has more than the caller is in the way.", "set 1 0; clone 2 1; set 2 0; set 1 1", "2: 1 2"},
		{"The first one in the way is told.", "clone 2 1; clone 3 1; set 3 0; set 2 0; set 1 1", "2: 0 1 1"},
		{"TSYNC_ESRCH tells no number.", "clone 2 1; set 2 0; set 1 17", "ESRCH: 0 1"},
		{"After syncing, threads share what they have.", "clone 2 1; set 1 1; set 2 1", "0: 2 2"},
		{"A second listener is refused.", "set 1 8; set 1 8", "EBUSY: 1"},
		{"A listener that was inherited counts.", "set 1 8; clone 2 1; set 2 8", "EBUSY: 1 1"},
		{"A listener and others go together.", "set 1 8; set 1 0", "0: 2"},
	} {
		p := &Process{Host: &Host{Kernel: CurrentKernel}, Threads: []*Thread{{ID: 1, NoNewPrivs: true}}}
		thread := func(id int) *Thread { return p.Threads[id-1] }
		var result string
		for _, step := range strings.Split(tt.script, "; ") {
			var what string
			var id, with int
			if _, err := fmt.Sscan(step, &what, &id, &with); err != nil {
				t.Fatal(err)
			}
			if what == "clone" {
				p.Clone(thread(with), id)
				continue
			}
			result = outcome(p.SetFilter(thread(id), "", allowAll, Flag(with))) + ":"
		}
		for _, th := range p.Threads {
			result += fmt.Sprint(" ", th.Chain.Len())
		}
		if result != tt.want {
			t.Errorf("%s got %s, want %s", tt.desc, result, tt.want)
		}
	}
}

// Syncing copies no_new_privs, and never takes it away.
func TestTSyncPrivileges(t *testing.T) {
	a, b, c := &Thread{ID: 1, NoNewPrivs: true}, &Thread{ID: 2}, &Thread{ID: 3, Mode: ModeStrict}
	p := &Process{Host: &Host{Kernel: CurrentKernel}, Threads: []*Thread{a, b, c}}
	if got := outcome(p.SetFilter(a, "", allowAll, FlagTSync)); got != "3" || b.NoNewPrivs {
		t.Errorf("a thread in strict mode: %s", got)
	}
	p.Threads = p.Threads[:2]
	if err := p.SetFilter(a, "", allowAll, FlagTSync); err != nil || !b.NoNewPrivs || b.Mode != ModeFilter || b.Chain != a.Chain {
		t.Errorf("%v; %+v", err, b)
	}
	admin := &Thread{ID: 4, SysAdmin: true}
	p.Threads = []*Thread{admin, b}
	b.Chain, b.Mode = Chain{}, ModeDisabled
	if err := p.SetFilter(admin, "", allowAll, FlagTSync); err != nil || !b.NoNewPrivs || admin.NoNewPrivs {
		t.Errorf("%v; %+v", err, b)
	}
}

// fakeJIT compiles to code that returns a value of its own, or fails.
type fakeJIT struct {
	ret uint32
	err error
}

func (j *fakeJIT) Compile(*Filter) (Code, error) { return j, j.err }
func (j *fakeJIT) Dump() string                  { return "image\n" }
func (j *fakeJIT) Run(*Data) (uint32, uint64, error) {
	return j.ret, 7, nil
}

// TestKnob: who runs, and what is logged.
func TestKnob(t *testing.T) {
	declined, broken := &DeclinedError{"too long"}, errors.New("broken")
	for _, tt := range []struct {
		desc     string
		knob     Knob
		jit      Compiler
		alwaysOn bool
		want     string // "interpreter", "code", or the error
		log      string
	}{
		{"With 0 filters are interpreted.", KnobInterpreter, &fakeJIT{}, false, "interpreter", ""},
		{"With 1 they are compiled.", KnobJIT, &fakeJIT{}, false, "code", ""},
		{"With 2 the image is logged.", KnobJITAndLog, &fakeJIT{}, false, "code", "image\n"},
		{"Without a JIT the knob says nothing.", KnobJITAndLog, nil, false, "interpreter", ""},
		{"What is declined is interpreted, and not logged.", KnobJITAndLog, &fakeJIT{err: declined}, false, "interpreter", ""},
		{"Or refused.", KnobJIT, &fakeJIT{err: declined}, true, "ENOTSUPP", ""},
		{"A kernel without an interpreter compiles with 0.", KnobInterpreter, &fakeJIT{}, true, "code", ""},
		{"A broken compiler is an error of its own.", KnobJIT, &fakeJIT{err: broken}, false, "compiling f: broken", ""},
	} {
		var log strings.Builder
		h := &Host{Kernel: CurrentKernel, Knob: tt.knob, JIT: tt.jit, AlwaysOn: tt.alwaysOn, Log: func(s string) { log.WriteString(s) }}
		caller := &Thread{NoNewPrivs: true}
		err := (&Process{Host: h, Threads: []*Thread{caller}}).SetFilter(caller, "f", allowAll, 0)
		got := outcome(err)
		if err == nil {
			got = "interpreter"
			if caller.Chain.Filters()[0].Code != nil {
				got = "code"
			}
		}
		if diff := cmp.Diff([]string{tt.want, tt.log}, []string{got, log.String()}); diff != "" {
			t.Errorf("%s %s", tt.desc, diff)
		}
	}
}

// RunCode asks the code where there is some.
func TestRunCode(t *testing.T) {
	var c Chain
	for _, code := range []Code{nil, &fakeJIT{ret: 0x50005}, &fakeJIT{ret: 0x50006}} {
		var err error
		if c, err = c.Attach(Attached{Filter: returns(t, uint32(Allow)), Code: code}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.RunCode(&Data{}, CurrentKernel)
	want := Decision{Ret: 0x50006, Filter: 2, PC: -1, Executed: 15, Verdicts: []Verdict{
		{uint32(Allow), 0, 1}, {0x50005, -1, 7}, {0x50006, -1, 7},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
