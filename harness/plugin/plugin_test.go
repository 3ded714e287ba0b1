package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestBehaviours(t *testing.T) {
	const quick = 2 * time.Second // enough to be started on a busy machine
	for _, tt := range []struct {
		desc      string
		behaviour string
		prog      bpf.Program // nil: ret #7
		limit     time.Duration
		kind      harness.Kind
		want      string // of the outcome, a regular expression
		verdict   harness.Verdict
	}{
		{"A plugin that works gives values.", "works", nil, 0, harness.Value, `^7$`, harness.Agree},
		{"A program that fills the pipe several times arrives.", "works", long(), 0, harness.Value, `^7$`, harness.Agree},
		{"One that does not answer has a time limit.", "sleeps", nil, quick, harness.Failed, `no answer within 2s`, harness.Diverge},
		{"One that does not read has a time limit too.", "does not read", long(), quick, harness.Failed, `no answer within 2s`, harness.Diverge},
		{"A crash is told with the last words, made harmless.", "exits", nil, 0, harness.Failed,
			`^no outcome \(it ended \(exit status 3\) without an answer; on standard error: first \| \?\[31mit is too late\)$`, harness.Diverge},
		{"A signal is told.", "signal", nil, 0, harness.Failed, `it ended \(signal: terminated\)`, harness.Diverge},
		{"Of many last words the first and the last are shown.", "panics", nil, 0, harness.Failed,
			`it ended \(exit status 2\) .*on standard error: panic: no rule \| goroutine 1.* \| \.\.\. \| `, harness.Diverge},
		{"An endless line ends.", "endless line", nil, 0, harness.Failed, `line of more than 4 MiB`, harness.Diverge},
		{"Half a line is no answer.", "half an answer", nil, 0, harness.Failed, `it ended \(exit status 0\) without an answer`, harness.Diverge},
		{"One that closes its output is not waited for.", "closes its output", nil, time.Minute, harness.Failed, `it closed its output`, harness.Diverge},
		{"What it writes to standard error never blocks it.", "much on standard error", nil, 0, harness.Value, `^7$`, harness.Agree},
		{"A child that keeps the output open ends with it.", "leaves a child", nil, quick, harness.Failed, `no answer within 2s; on standard error: child \d+`, harness.Diverge},
		{"An image has a limit.", "large image", nil, 0, harness.Failed, `the image has 1048577 bytes: want 1 to 1048576`, harness.Diverge},
		{"Garbage is quoted.", "answer Segmentation \x1b]0;fault", nil, 0, harness.Failed, `not as the protocol has it: .*"Segmentation \\x1b\]0;fault"`, harness.Diverge},
		{"An empty line is no answer.", "answer ", nil, 0, harness.Failed, `it ends too early`, harness.Diverge},
		{"A list is no answer.", "answer [1]", nil, 0, harness.Failed, `not as the protocol has it`, harness.Diverge},
		{"null is no answer.", "answer null", nil, 0, harness.Failed, `the answer has no id`, harness.Diverge},
		{"Deep nesting is no answer.", "answer " + strings.Repeat("[", 20000), nil, 0, harness.Failed, `not as the protocol has it`, harness.Diverge},
		{"Hex has hex digits.", `answer {"id":ID,"image":"0g"}`, nil, 0, harness.Failed, `'g' is not a hex digit`, harness.Diverge},
		{"Hex has whole bytes.", `answer {"id":ID,"image":"c3c"}`, nil, 0, harness.Failed, `half a byte is missing`, harness.Diverge},
		{"An image has code.", `answer {"id":ID,"image":""}`, nil, 0, harness.Failed, `the image has 0 bytes`, harness.Diverge},
		{"The id is that of the request.", `answer {"id":77,"image":"c3"}`, nil, 0, harness.Failed, `the answer is to request 77, the question was 1`, harness.Diverge},
		{"An id is not negative.", `answer {"id":-1,"image":"c3"}`, nil, 0, harness.Failed, `not as the protocol has it`, harness.Diverge},
		{"A line has one answer.", `answer {"id":ID,"image":"c3"}{}`, nil, 0, harness.Failed, `more than one value on the line`, harness.Diverge},
		{"A misspelt field is found.", `answer {"id":ID,"image":"c3","pcmap":[]}`, nil, 0, harness.Failed, `unknown field "pcmap"`, harness.Diverge},
		{"An answer says something.", `answer {"id":ID}`, nil, 0, harness.Failed, `no image, no refusal and no error`, harness.Diverge},
		{"An answer does not say two things.", `answer {"id":ID,"image":"c3","refusal":{"reason":"x"}}`, nil, 0, harness.Failed, `an image and a refusal`, harness.Diverge},
		{"A map covers the program.", `answer {"id":ID,"image":"c3","pc_map":[0]}`, nil, 0, harness.Failed, `pc_map has 1 offsets: want 2`, harness.Diverge},
		{"A map ascends.", `answer {"id":ID,"image":"90c3","pc_map":[1,0]}`, nil, 0, harness.Failed, `pc_map\[1\] is 0`, harness.Diverge},
		{"A map stays in the image.", `answer {"id":ID,"image":"c3","pc_map":[0,2]}`, nil, 0, harness.Failed, `pc_map\[1\] is 2`, harness.Diverge},
		{"What it refers to is a symbol.", `answer {"id":ID,"image":"c3","externs":{"printk":"0x10"}}`, nil, 0, harness.Failed, `refers to printk, which is no symbol of profile linux-3.10-x86_64`, harness.Diverge},
		{"What it refers to is where the symbol is.", `answer {"id":ID,"image":"c3","externs":{"cpu_number":"0x10"}}`, nil, 0, harness.Failed, `cpu_number at 0x10, it is at 0xb0a0`, harness.Diverge},
		{"A refusal is no failure.", `answer {"id":ID,"refusal":{"reason":"later","pc":0}}`, nil, 0, harness.Refused, `^refused$`, harness.NotRun},
		{"A refusal is about the program.", `answer {"id":ID,"refusal":{"reason":"later","pc":1}}`, nil, 0, harness.Failed, `refuses instruction 1 of a program of 1`, harness.Diverge},
		{"An error that it reports is a failure.", `answer {"id":ID,"error":{"reason":"no memory"}}`, nil, 0, harness.Failed, `it reports an error: no memory`, harness.Diverge},
		{"A program that the kernel's checker rejects is not sent.", "exits", bpf.Program{{Code: bpf.LdImm}}, 0, harness.Rejected, `^rejected$`, harness.NotRun},

		{"Code that is wrong is a value.", `answer {"id":ID,"image":"31c0c3"}`, nil, 0, harness.Value, `^0$`, harness.Diverge},
		{"Code that faults is a fault.", `answer {"id":ID,"image":"0f0b"}`, nil, 0, harness.Fault, `^fault: invalid opcode`, harness.Diverge},
		{"Code that ends in the middle of an instruction is a fault.", `answer {"id":ID,"image":"b807"}`, nil, 0, harness.Fault, `^fault: `, harness.Diverge},
		{"Code that loops is a timeout.", `answer {"id":ID,"image":"ebfe"}`, nil, 0, harness.Timeout, `^timeout$`, harness.Diverge},
		{"Code that writes to the sk_buff is a fault.", `answer {"id":ID,"image":"880731c0c3"}`, nil, 0, harness.Fault, `^fault: .*write`, harness.Diverge},
		{"Code that calls what is nowhere is a fault.", `answer {"id":ID,"image":"e80000001031c0c3"}`, nil, 0, harness.Fault, `^fault: `, harness.Diverge},
		{"Code that loses the caller's rbx breaks a promise.", `answer {"id":ID,"image":"31dbb807000000c3"}`, nil, 0, harness.Value, `^7 \(rbx changed\)$`, harness.Diverge},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			t.Parallel()
			if tt.prog == nil {
				tt.prog = ret(7)
			}
			r := open(t, tt.behaviour, tt.limit)
			got := outcome(t, r, tt.prog)
			if got.Kind != tt.kind || !regexp.MustCompile(tt.want).MatchString(got.Long()) {
				t.Errorf("got %s %q, want %s %s", got.Kind, got.Long(), tt.kind, tt.want)
			}
			want, err := harness.NewInterpreter(r.Profile()).Run(tt.prog, bpf.Socket, onePacket, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := harness.Compare(want[0], got); v != tt.verdict {
				t.Errorf("judged as %s, want %s", v, tt.verdict)
			}
		})
	}
}

func TestHello(t *testing.T) {
	for _, tt := range []struct {
		desc, behaviour, profile string
		want                     string // of the error; "": none
	}{
		{"A good introduction.", "hello " + goodHello, "", ""},
		{"A profile of its own.", `hello {"id":0,"protocol":1,"name":"arm","archs":["armv5","armv7"],"profile":"linux-4.5-armv7"}`, "", ""},
		{"The user's profile comes first.", `hello {"id":0,"protocol":1,"name":"arm","archs":["armv5"],"profile":"no-such-kernel"}`, "linux-3.12-armv5", ""},
		{"An unknown profile.", `hello {"id":0,"protocol":1,"name":"arm","archs":["armv5"],"profile":"no-such-kernel"}`, "", `no profile "no-such-kernel"`},
		{"Another architecture.", "hello " + goodHello, "linux-3.12-armv5", `it emits code for \["x86_64"\], profile linux-3.12-armv5 is for armv5`},
		{"Another protocol.", `hello {"id":0,"protocol":2,"name":"x","archs":["x86_64"]}`, "", `it speaks protocol 2, kjit speaks 1`},
		{"A name that does something to the terminal.", `hello {"id":0,"protocol":1,"name":"\u001b[2J","archs":["x86_64"]}`, "", `its name is "\\x1b\[2J"`},
		{"No architecture.", `hello {"id":0,"protocol":1,"name":"x"}`, "", `it names no architecture`},
		{"Words.", "hello welcome", "", `not as the protocol has it`},
		{"An error.", `hello {"id":0,"error":{"reason":"no key"}}`, "", `it reports an error: no key`},
		{"A crash.", "exits before hello", "", `it ended \(exit status 9\) without an answer; on standard error: no licence`},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			t.Parallel()
			var o Options
			if tt.profile != "" {
				p, err := kernelabi.ProfileByName(tt.profile)
				if err != nil {
					t.Fatal(err)
				}
				o.Profile = p
			}
			r, err := New(context.Background(), command(t, tt.behaviour), o)
			if err == nil {
				r.Close()
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error())):
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestNoSuchCommand(t *testing.T) {
	if _, err := New(context.Background(), []string{"./no-such-plugin"}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
}

// One process serves many programs, and a crash costs one of them.
func TestRestart(t *testing.T) {
	r := open(t, "exits at k = 1", 0)
	pid := r.process.cmd.Process.Pid
	got := func(k uint32) string { return outcome(t, r, ret(k)).String() }
	if a, b := got(5), got(6); a != "5" || b != "6" || r.process.cmd.Process.Pid != pid {
		t.Errorf("got %s, %s in process %d, want 5, 6 in %d", a, b, r.process.cmd.Process.Pid, pid)
	}
	if a, b := got(1), got(7); a != "failed" || b != "7" {
		t.Errorf("got %s, %s, want a failure and 7", a, b)
	}
	if pid == r.process.cmd.Process.Pid {
		t.Error("no other process was started")
	}
	r.process.end(0) // the death of a process between two programs is noticed
	if a, b := got(8), got(9); a != "failed" || b != "9" {
		t.Errorf("got %s, %s, want a failure and 9", a, b)
	}
}

func TestAnswerTooMuch(t *testing.T) {
	r := open(t, "two answers", 0)
	outcome(t, r, ret(1))
	if got := outcome(t, r, ret(2)).Why; got != "the answer is to request 1, the question was 2" {
		t.Error(got)
	}
}

func TestErrorsThatItReportsDoNotEndIt(t *testing.T) {
	r := open(t, `answer {"id":ID,"error":{"reason":"no"}}`, 0)
	pid := r.process.cmd.Process.Pid
	for k := range uint32(2 * maxFailures) {
		if got := outcome(t, r, ret(k)).Why; got != "it reports an error: no" {
			t.Error(got)
		}
	}
	if r.process.cmd.Process.Pid != pid {
		t.Error("it was started again")
	}
}

// A plugin that never works is not started for ever.
func TestGiveUp(t *testing.T) {
	r := open(t, "exits", 0)
	for k := range uint32(maxFailures) {
		if got := outcome(t, r, ret(k)).Why; !strings.HasPrefix(got, "it ended (exit status 3)") {
			t.Error(got)
		}
	}
	if got := outcome(t, r, ret(99)).Why; got != "given up after 3 failures in a row" || r.process != nil {
		t.Error(got)
	}
}

func TestAnotherPluginAfterARestart(t *testing.T) {
	r := open(t, "other name each time", 0)
	outcome(t, r, ret(1))
	if got := outcome(t, r, ret(2)).Why; got != "started again, it says that it is something else" || r.process != nil {
		t.Error(got)
	}
}

// A replay of many batches asks for the image once; that a program fails once
// is also remembered.
func TestAskedOncePerProgram(t *testing.T) {
	r := open(t, "works", 0)
	for range 3 {
		outcome(t, r, ret(1))
	}
	if r.id != 1 {
		t.Errorf("asked %d times", r.id)
	}
	bad := open(t, "exits", 0)
	outcome(t, bad, ret(1))
	outcome(t, bad, ret(1))
	if bad.failures != 1 {
		t.Errorf("%d failures", bad.failures)
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := New(ctx, command(t, "sleeps"), Options{Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := r.process
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	if _, err := r.Run(ret(1), bpf.Socket, onePacket, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if p.cmd.ProcessState == nil {
		t.Error("the process was not ended")
	}
}

// What a plugin has started ends with it.
func TestNoOrphans(t *testing.T) {
	r := open(t, "leaves a child", 2*time.Second)
	why := outcome(t, r, ret(1)).Why
	m := regexp.MustCompile(`child (\d+)`).FindStringSubmatch(why)
	if m == nil {
		t.Fatal(why)
	}
	proc := "/proc/" + m[1]
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("no /proc here to look for the child in")
	}
	for range 100 {
		stat, err := os.ReadFile(filepath.Join(proc, "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("child %s still runs", m[1])
}

func TestCloseTwice(t *testing.T) {
	r := open(t, "works", 0)
	outcome(t, r, ret(1))
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestParseCommand(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string // nil: an error
	}{
		{"./plugin", []string{"./plugin"}},
		{" ./plugin  -v\t3 ", []string{"./plugin", "-v", "3"}},
		{`sh -c 'exec "$0" 2>log' ./plugin`, []string{"sh", "-c", `exec "$0" 2>log`, "./plugin"}},
		{`"with blank"/x a""b ''`, []string{"with blank/x", "ab", ""}},
		{`./plugin "it's" '"'`, []string{"./plugin", "it's", `"`}},
		{"", nil},
		{"  ", nil},
		{"''", nil},
		{"a 'b", nil},
	} {
		got, err := ParseCommand(tt.line)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want != nil) {
			t.Errorf("%q: error %v (-want +got):\n%s", tt.line, err, diff)
		}
		if again, err := ParseCommand(FormatCommand(got)); tt.want != nil && (err != nil || !slices.Equal(again, got)) {
			t.Errorf("%q is written %q, which is %q (%v)", tt.line, FormatCommand(got), again, err)
		}
	}
}
