package judge

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

func program(t *testing.T, source string) bpf.Program {
	t.Helper()
	l, err := bpftext.Parse("source", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return l.Program
}

func jit(t *testing.T, name string) harness.Runner {
	t.Helper()
	p, err := harness.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := harness.NewJIT(p, emulator.WithBudget(1<<14))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestJudge(t *testing.T) {
	const negMsh = "ret #0\njeq x, l1, l2\nldxb 4*([0x80000000]&0xf)\nl2: ret a\nl1: ret #0"
	any := func(string) bool { return true }
	for _, tt := range []struct {
		desc, jit, source string
		options           Options
		want              string // rule and kind, "" for none
	}{
		{"What agrees is no divergence.", "linux-3.10-x86_64", "ld #5\nret a", Options{}, ""},
		{"A wrong value, at the instruction that computes it.", "linux-3.0-x86_64", "ld #-1\nand #0xffff1234\nadd #1\nret a", Options{}, "and-k.value"},
		{"A wrong value in a cell.", "mutant:arm-scratch-byte-offset", "ld #-1\nst M[1]\nld #0\nst M[0]\nld M[1]\nret a", Options{}, "st.value"},
		{"What the prologue leaves wrong.", "linux-4.5-armv7", "ld len\njeq #999, l1, l2\nl1: tax\nl2: txa\nret a", Options{}, "entry-x.value"},
		{"A fault.", "mutant:arm-msh-negative", "ldxb 4*([0xfff00000]&0xf)\ntxa\nret a", Options{}, "ldx-msh.fault"},
		{"A wrong ancillary load.", "mutant:arm-vlan-mask", "ld vlan_tci\nret a", Options{}, "vlan_tci.value"},
		{"A loop.", "mutant:x86-div0-ret0-end", "ld len\njeq #8, l2, l1\nl1: ret #0\nl2: ldx #0\ndiv x\nret #5", Options{}, "div-x.timeout"},
		{"A program that the JIT leaves to the interpreter is none.", "linux-3.10-x86_64", "ld nla\nret a", Options{}, ""},
		{"But if that is what counts.", "linux-3.10-x86_64", "ld nla\nret a", Options{Refuses: any}, "no-rule-for-nla.refusal"},
		{"A JIT that gives up counts.", "linux-3.0-x86_64", negMsh, Options{}, "fatal-error.refusal"},
		{"A program that the checker refuses is none.", "linux-3.0-x86_64", "mod #3\nret a", Options{Refuses: any}, ""},
		{"A shift by 32 and more does not count.", "linux-4.5-armv7", "ld #3\nldx #32\nlsh x\nret a", Options{}, ""},
		{"But if it is asked for.", "linux-4.5-armv7", "ld #3\nldx #32\nlsh x\nret a", Options{Undefined: true}, "lsh-x.undefined"},
		{"What goes wrong before such a shift counts.", "linux-3.0-x86_64", "ld #-1\nand #0xffff1234\nldx #32\nlsh x\nret a", Options{}, "and-k.value"},
	} {
		j := New(jit(t, tt.jit), tt.options)
		prog, skb := program(t, tt.source), kernelabi.NewSkb([]byte{1, 2, 3, 4, 5, 6, 7, 8})
		skb.VlanTCI = 0x2123
		d, err := j.Judge(prog, skb)
		if err != nil {
			t.Errorf("%s %v", tt.desc, err)
			continue
		}
		got := ""
		if d != nil {
			got = d.Rule + "." + string(d.Kind)
			if d.Runner != tt.jit || !j.Shows(d.Signature)(prog, skb) {
				t.Errorf("%s %s does not show itself", tt.desc, d.Signature)
			}
			for _, other := range []Signature{{d.Runner, "tax", d.Kind}, {d.Runner, d.Rule, Failed}} {
				if j.Shows(other)(prog, skb) {
					t.Errorf("%s it shows %s as well", tt.desc, other)
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s got %q, want %q", tt.desc, got, tt.want)
		}
		j.Close()
	}
}

// Imported images have no map: what is to blame is the machine instruction.
func TestJudgeImage(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-6.18-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ desc, code, want string }{
		{"A store to the packet.", "488b87c8000000c60001c3", "native-movb.fault"},
		{"Another value.", "b805000000c3", "unknown.value"},
		{"A register that is not kept.", "31db31c0c3", "unknown.broken"},
		{"A loop.", "ebfe", "native-jmp.timeout"},
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		r, err := harness.NewImage("image:test", &kernelabi.Image{Code: code, Base: p.Base, Profile: p}, emulator.WithBudget(1<<10))
		if err != nil {
			t.Fatal(err)
		}
		j := New(r, Options{})
		d, err := j.Judge(bpf.Program{{Code: bpf.RetK}}, kernelabi.NewSkb(make([]byte, 60)))
		if err != nil || d == nil || d.Rule+"."+string(d.Kind) != tt.want {
			t.Errorf("%s got %+v, %v, want %s", tt.desc, d, err, tt.want)
		}
		j.Close()
		r.Close()
	}
}

func TestSignatureNames(t *testing.T) {
	seen := map[string]Signature{}
	for _, tt := range []struct {
		s    Signature
		name string // "": any that is fit
	}{
		{Signature{"linux-3.0-x86_64", "and-k", Value}, "linux-3.0-x86_64.and-k.value"},
		{Signature{"mutant:arm-rsh0", "rsh-k", Fault}, "mutant-arm-rsh0.rsh-k.fault"},
		{Signature{"mutant:arm-rsh0@linux-4.5-armv7", "rsh-k", Fault}, "mutant-arm-rsh0@linux-4.5-armv7.rsh-k.fault"},
		{Signature{"exec:my JIT", "vlan_tci", Value}, ""},
		{Signature{"exec:my-JIT", "vlan_tci", Value}, ""},
		{Signature{"exec:../../etc/passwd", "vlan_tci", Value}, ""},
		{Signature{".hidden", "", Value}, ""},
		{Signature{"", "\x00", "é"}, ""},
		{Signature{strings.Repeat("long", 100), strings.Repeat("x", 500), Value}, ""},
		{Signature{strings.Repeat("long", 101), strings.Repeat("x", 500), Value}, ""},
	} {
		name := tt.s.String()
		if tt.name != "" && name != tt.name {
			t.Errorf("%+v is %s, want %s", tt.s, name, tt.name)
		}
		if len(name) > 130 || name[0] == '.' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.@") != "" {
			t.Errorf("%+v is %q", tt.s, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%+v and %+v are both %s", tt.s, other, name)
		}
		seen[name] = tt.s
	}
}

// Every instruction that Linux takes has a rule with a name of its own.
func TestRules(t *testing.T) {
	seen := map[string]uint16{}
	for code := range uint16(0x100) {
		if !bpf.RulesCurrent.Accepts(code, bpf.Socket) {
			continue
		}
		name := RuleOf(bpf.Instruction{Code: code}, bpf.Socket)
		if other, taken := seen[name]; taken || name == unknownRule || slug(name) != name {
			t.Errorf("code %#x is %q, and so is %#x", code, name, other)
		}
		seen[name] = code
	}
	for n := range bpf.Extension(bpf.NumExtensions) {
		ext := 4 * n
		for _, code := range []uint16{bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs} {
			if name := RuleOf(bpf.Instruction{Code: code, K: ext.K()}, bpf.Socket); name != ext.String() {
				t.Errorf("%s is %s", ext, name)
			}
		}
	}
	if name := RuleOf(bpf.Instruction{Code: bpf.LdWAbs}, bpf.Seccomp); name != "ld-data" {
		t.Errorf("a load of a seccomp filter is %s", name)
	}
}
