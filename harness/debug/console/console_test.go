package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// opener has what the tests name.
type opener struct{ t *testing.T }

func (o opener) Program(_ context.Context, text string) (string, bpf.Program, *bpf.Kind, error) {
	l, err := bpftext.Parse("load bpf", []byte(text))
	if err != nil {
		return "", nil, nil, err
	}
	return "typed", l.Program, nil, nil
}

func (o opener) Inputs(_ context.Context, name string) ([]kernelabi.Input, error) {
	switch name {
	case "three":
		return []kernelabi.Input{kernelabi.NewSkb([]byte{1, 2}), kernelabi.NewSkb([]byte{0, 2}), kernelabi.NewSkb([]byte{0})}, nil
	case "none":
		return nil, nil
	case "calls":
		return []kernelabi.Input{&kernelabi.Syscall{Data: seccompdata.Data{Nr: 39}}}, nil
	}
	return nil, fmt.Errorf("no file %s", name)
}

func (o opener) Target(_ context.Context, name string) (harness.Imager, error) {
	p, err := harness.ProfileByName(name)
	if err != nil {
		return nil, err
	}
	r, err := harness.NewJIT(p)
	if err != nil {
		return nil, err
	}
	o.t.Cleanup(func() { r.Close() })
	return r, nil
}

// open returns a console without a program.
func open(t *testing.T) (*Console, *strings.Builder) {
	t.Helper()
	o := opener{t}
	target, err := o.Target(t.Context(), "linux-3.10-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c, err := New(debug.Config{Target: target}, o, &out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, &out
}

func TestFind(t *testing.T) {
	for _, tt := range []struct{ word, want, err string }{
		{"step", "step", ""},
		{"st", "step", ""}, // the beginning of stepi
		{"stepi", "stepi", ""},
		{"se", "select", ""},
		{"q", "quit", ""},
		{"s", "", `"s" may be select, step, stepi`},
		{"d", "", `"d" may be disassemble, dump, diff`},
		{"steps", "", `no command "steps" (help lists them)`},
	} {
		cmd, err := find("command", commands(), tt.word)
		switch {
		case tt.err != "":
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: error %v, want %s", tt.word, err, tt.err)
			}
		case err != nil || cmd.name != tt.want:
			t.Errorf("%s: %v, %v; want %s", tt.word, cmd, err, tt.want)
		}
	}
	for line, want := range map[string]string{"": "", "st": "step ", "dum": "dump ", "d": "d", "step 2": "step 2", "nothing": "nothing"} {
		if got := Complete(line); got != want {
			t.Errorf("%q is completed to %q, want %q", line, got, want)
		}
	}
}

// byte0 returns the first byte: 0 fails, others pass; the second shows that the
// first can be loaded.
const byte0 = "3,48 0 0 1,48 0 0 0,22 0 0 0"

func TestCommands(t *testing.T) {
	// Both sides return 0, with different A until then.
	const onTheWay = "load pcap three\njit mutant:x86-and-imm16\nload bpf 5,0 0 0 4294967295,84 0 0 4294906420,21 0 1 1,6 0 0 0,6 0 0 0\n"
	const begin = "load pcap three\nload bpf " + byte0 + "\n"
	for _, tt := range []struct {
		desc, script string
		want         []string // of the last command, in this order
		err          string
	}{
		{"Commands that need a program say so.", "step", nil, "line 1: step: no program loaded: load bpf PROGRAM"},
		{"A program without packets gets some.", "load bpf " + byte0, []string{"typed: 3 instructions, on", "of kjit's own: none were named", "(000) ldb      [1]"}, ""},
		{"Packets may come first.", "load pcap three\nload bpf " + byte0, []string{"on 3 packets\n", "packet 1, 2 bytes: the interpreter returns 1, the code returns 1: agree"}, ""},
		{"A step goes on by one.", begin + "step", []string{"(001) ldb      [0]", "A:     00000002 2            00000002 2\n"}, ""},
		{"Steps may be several.", begin + "step +2", []string{"(002) ret"}, ""},
		{"And back.", begin + "step 3\nst -2", []string{"(001) ldb"}, ""},
		{"The end is told.", begin + "step 3", []string{"pc:    returned 1\ncode:  returns 1\n"}, ""},
		{"A native step goes on in the code.", begin + "stepi", []string{"(000) ldb", "; calls sk_load_byte_positive_offset; in the code of instruction 0"}, ""},
		{"What a routine did is told.", begin + "stepi 2", []string{"(001) ldb", "sk_load_byte_positive_offset left rax 0x2"}, ""},
		{"What is no number is an error.", begin + "step far", nil, `line 3: step far: "far" is no number: want how many`},
		{"A packet is selected.", begin + "select 2\nrun 1", []string{"bpf passes:0 fails:1\n", "agrees on all of them"}, ""},
		{"One that there is not is an error.", begin + "select 4", nil, "no input 4: there are 1 to 3"},
		{"A run is one of all packets.", begin + "run", []string{"bpf passes:1 fails:2\nlinux-3.10-x86_64 agrees on all of them\n"}, ""},
		{"Who differs only on the way returns the same.", onTheWay + "run", []string{"bpf passes:0 fails:3\nmutant:x86-and-imm16 returns the same on 3 of them, but differs on the way: 1, 2, 3\n"}, ""},
		{"The packet's line says so.", onTheWay + "diff", []string{"packet 1, 2 bytes: the interpreter returns 0, the code returns 0: agree, but differ on the way (until divergence shows where)\n"}, ""},
		{"It stops at breakpoints, of every packet.", begin + "breakpoint 1\nrun\nrun", []string{"breakpoint in packet 2\npc:    (001)"}, ""},
		{"Also at the first instruction of the next.", begin + "breakpoint 0\nrun", []string{"breakpoint in packet 2\npc:    (000)"}, ""},
		{"Packets that end before it are passed.", begin + "breakpoint 1\nselect 3\nrun", []string{"bpf passes:0 fails:1"}, ""},
		{"How many may be told.", begin + "run 2", []string{"bpf passes:1 fails:1"}, ""},
		{"None is too few.", begin + "run 0", nil, "want how many packets, 1 at least"},
		{"Breakpoints are listed.", begin + "breakpoint 2\nbreakpoint @0\nbreakpoint", []string{"(002) ret\n@0  push %rbp\n"}, ""},
		{"And forgotten.", begin + "break 2\nbreak reset\nbreak", []string{"no breakpoints\n"}, ""},
		{"A breakpoint where no instruction is is an error.", begin + "breakpoint 3", nil, "no instruction 3: the program has 0 to 2"},
		{"So is one inside a native one.", begin + "breakpoint @2", nil, "no instruction starts at 0x2"},
		{"And one nowhere.", begin + "breakpoint @x", nil, "@x: want an offset in the code in hex, such as @2b"},
		{"And one that is a word.", begin + "breakpoint here", nil, "want a PC, an @OFFSET of the code, or reset"},
		{"An instruction is run to.", begin + "until 2", []string{"(002) ret"}, ""},
		{"A native one too.", begin + "until @0", []string{"code:  @0  push %rbp  ; in no instruction's code"}, ""},
		{"Words for places may be short.", begin + "until en", []string{"returned 1"}, ""},
		{"Other words are errors.", begin + "until dawn", nil, `no place "dawn"`},
		{"Until what is to be said.", begin + "until", nil, "until what: a PC,"},
		{"There is no divergence.", begin + "until divergence", []string{"no divergence on packets 1 to 3\n"}, ""},
		{"The place is kept then.", begin + "step\nuntil divergence\nregisters", []string{"(001) ldb", "rax    0000000000000002*"}, ""},
		{"Packets are shown, the last load in brackets.", begin + "step 2\npacket", []string{"len: 2, last load: 1 byte at 0\n    0:[01]02 "}, ""},
		{"A listing has the cursor, breakpoints and what was executed.", begin + "break 2\nstep\ndisassemble", []string{"  + (000) ldb", ">   (001) ldb", " *  (002) ret"}, ""},
		{"With the code.", begin + "step\ndisassemble native", []string{"  +   @0    55                    push %rbp", "  + (000) ldb", ">   (001) ldb"}, ""},
		{"Nothing else can be listed.", begin + "disassemble all", nil, "want native, or nothing"},
		{"A program is written in numbers.", begin + "dump", []string{"3\n48 0 0 1\n48 0 0 0\n22 0 0 0\n"}, ""},
		{"Differences are none.", begin + "diff", []string{"no difference here that the program reads", "packet 1: no divergence", "agree"}, ""},
		{"Where nothing can be compared that is said.", begin + "stepi\ndiff", []string{"the code is in the middle of an instruction's"}, ""},
		{"Another JIT keeps packet and breakpoints.", begin + "select 2\nbreak 1\njit linux-4.5-armv7\nbreak\nuntil break", []string{"breakpoint in packet 2\npc:    (001)"}, ""},
		{"Its name is told.", begin + "jit", []string{"linux-3.10-x86_64\n"}, ""},
		{"One that there is not is an error.", begin + "jit linux-0.1", nil, "linux-0.1"},
		{"A program that the kernel refuses is an error.", begin + "load bpf 1,0 0 0 0", nil, "instruction 0"},
		{"Other packets keep breakpoints.", begin + "break 1\nload pcap three\nbreak", []string{"(001) ldb"}, ""},
		{"No packets are one.", begin + "load pcap none", nil, "none: no packets in it"},
		{"System calls are no packets.", begin + "load pcap calls", nil, "calls: inputs for a seccomp filter, and typed is a socket filter"},
		{"What is loaded is bpf or pcap.", begin + "load elf x", nil, `cannot load "elf"`},
		{"And which must be said.", begin + "load pcap", nil, "want load bpf PROGRAM, or load pcap FILE"},
		{"A filter of system calls comes after them.", "load pcap calls\nload bpf 2,32 0 0 0,22 0 0 0", []string{"on 1 system call\n", "has no code of it: not compiled", "system call 1, 64 bytes: the interpreter returns 39\n"}, ""},
		{"It has no code to step.", "load pcap calls\nload bpf 2,32 0 0 0,22 0 0 0\nstepi", nil, "there is no code: not compiled"},
		{"A JIT that compiles it has.", "load pcap calls\nload bpf 2,32 0 0 0,22 0 0 0\njit linux-4.5-armv7\nstep", []string{"A:     00000027 39           00000027 39"}, ""},
		{"Help tells of one command.", "help run", []string{"run [N]\n    to a breakpoint"}, ""},
		{"Comments and empty lines are nothing.", "# comment\n\nhelp quit", []string{"quit\n    end\n"}, ""},
		{"Nothing comes after quit.", "quit\nnonsense", nil, ""},
	} {
		c, out := open(t)
		var last string
		err := func() error {
			for n, line := range strings.Split(tt.script, "\n") {
				out.Reset()
				if err := c.Run(t.Context(), strings.NewReader(strings.Repeat("\n", n)+line)); err != nil {
					return err
				}
				if last = out.String(); line == "quit" {
					return nil
				}
			}
			return nil
		}()
		if tt.err != "" {
			var failed *Error
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.err) || failed.Line != 1+strings.Count(tt.script, "\n") {
				t.Errorf("%s The error is %v, want %q on the last line", tt.desc, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %v", tt.desc, err)
			continue
		}
		rest := last
		for _, want := range tt.want {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%s No %q in\n%s", tt.desc, want, last)
				break
			}
			rest = after
		}
	}
}

func TestDivergences(t *testing.T) {
	c, out := open(t)
	// and #0xffff0000 is wrong where the packet's word has bits of 0x200.
	script := `load bpf 3,32 0 0 0,84 0 0 4294901760,22 0 0 0
jit mutant:x86-and-imm16
load pcap words
`
	c.Open = words{opener{t}}
	if err := c.Run(t.Context(), strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range []string{"until divergence", "step -1", "until divergence", "until divergence", "until divergence", "select 1", "run"} {
		out.Reset()
		if _, err := c.Do(t.Context(), line); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		got = append(got, first)
	}
	want := []string{
		"packet 2: at instruction 1: after it A is 0x200, the interpreter has 0x0",
		"pc:    (001) and      #0xffff0000",
		"packet 2: at instruction 1: after it A is 0x200, the interpreter has 0x0",
		"packet 4: at instruction 1: after it A is 0x10200, the interpreter has 0x10000",
		"no other divergence up to packet 4",
		"pc:    (000) ld       [0]",
		"bpf passes:1 fails:3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "mutant:x86-and-imm16 diverges on 2 of them: 2, 4") {
		t.Errorf("the run says\n%s", out.String())
	}
	// What failed changes nothing.
	before := c.Session()
	if _, err := c.Do(t.Context(), "load bpf 1,0 0 0 0"); err == nil || c.Session() != before {
		t.Errorf("a program that is refused replaces the one before: %v", err)
	}
}

// words has four packets of a word each.
type words struct{ opener }

func (words) Inputs(context.Context, string) ([]kernelabi.Input, error) {
	var inputs []kernelabi.Input
	for _, w := range []uint32{0, 0x200, 0x100, 0x10300} {
		inputs = append(inputs, kernelabi.NewSkb([]byte{byte(w >> 24), byte(w >> 16), byte(w >> 8), byte(w)}))
	}
	return inputs, nil
}

func TestJSON(t *testing.T) {
	c, out := open(t)
	c.JSON, c.Echo = true, true
	if err := c.Run(t.Context(), strings.NewReader("load bpf 3,0 0 0 4294967295,84 0 0 4294901760,22 0 0 0\nload pcap three\njit mutant:x86-and-imm16\nuntil divergence\nuntil end")); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	var at, end answer
	for i, a := range []*answer{&at, &end} {
		if err := json.Unmarshal([]byte(lines[3+i]), a); err != nil {
			// The outcome has no reader: only the writing is of interest.
			var fields map[string]any
			if err := json.Unmarshal([]byte(lines[3+i]), &fields); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := at.State
	if at.Type != "debug" || at.Command != "until divergence" || s.Packet != 1 || *s.PC != 2 || s.A != 0xffff0000 || *s.Native.A != 0xffff0200 ||
		s.Native.Registers["rax"] != "0xffff0200" || s.Differ[0] != (difference{"A", true, "A is 0xffff0200, the interpreter has 0xffff0000"}) || *s.Diverge.PC != 1 {
		t.Errorf("until divergence: %s", lines[3])
	}
	if s := end.State; s.PC != nil || s.Native.Offset != nil {
		t.Errorf("at the end: %s", lines[4])
	}
}

// The example of the help texts is one that works.
func TestExample(t *testing.T) {
	c, out := open(t)
	lines := strings.Split(Example, "\n")
	var got strings.Builder
	for _, line := range lines {
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if first, _, _ := strings.Cut(out.String(), "\n"); first != line {
				t.Errorf("the example says %q, the console %q", line, first)
			}
			continue
		}
		command, _, _ = strings.Cut(command, "   ")
		out.Reset()
		if _, err := c.Do(t.Context(), command); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		got.WriteString(out.String())
	}
	for _, want := range []string{"(001) and      #0xffff0000", "and $0x200,%ax"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in the example's output", want)
		}
	}
}
