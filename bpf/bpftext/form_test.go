package bpftext

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// arp is the example program of the kernel's documentation: keep ARP.
var arp = bpf.Program{{Code: bpf.LdHAbs, K: 12}, {Code: bpf.JeqK, JF: 1, K: 0x806}, {Code: bpf.RetK, K: 0xffffffff}, {Code: bpf.RetK}}

func TestParseFindsTheForm(t *testing.T) {
	d := "(000) ldh      [12]\n(001) jeq      #0x806           jt 2\tjf 3\n(002) ret      #-1\n(003) ret      #0\n"
	dd := "{ 0x28, 0, 0, 0x0000000c },\n{ 0x15, 0, 1, 0x00000806 },\n{ 0x6, 0, 0, 0xffffffff },\n{ 0x6, 0, 0, 0x00000000 },\n"
	comma := "4,40 0 0 12,21 0 1 2054,6 0 0 4294967295,6 0 0 0"
	be := string(must(Format(RawBE, arp)))
	for _, tc := range []struct {
		desc, text string
		form       Form
		comments   []string
		lines      []int
	}{
		{"a listing as tcpdump -d prints it", d, D, nil, []int{1, 2, 3, 4}},
		{"a listing below its command line and a warning, with more text after it",
			"[root@box ~]# tcpdump -d arp\nWarning: assuming Ethernet\n" + d + "$ \n", D, nil, []int{3, 4, 5, 6}},
		{"a listing with CR LF and blanks for tabs", strings.NewReplacer("\n", "\r\n", "\t", "  ").Replace(d), D, nil, []int{1, 2, 3, 4}},
		{"a listing quoted twice in a mail", "> > " + strings.ReplaceAll(strings.TrimSpace(d), "\n", "\n>> ") + "\n", D, nil, []int{1, 2, 3, 4}},
		{"a listing behind a byte order mark", "\xef\xbb\xbf" + d, D, nil, []int{1, 2, 3, 4}},
		{"a listing with comment lines of all three kinds", "; keep ARP\n# of any length\n//and nothing else\n" + d, D,
			[]string{"keep ARP", "of any length", "and nothing else"}, []int{4, 5, 6, 7}},
		{"a listing with remarks and indentation", "  (000) ldh [12] ; type\n  (001) jeq #0x806 jt 2 jf 3 // ARP\n\n(002) ret #4294967295\n(003) ret #0x0", D, nil, []int{1, 2, 4, 5}},

		{"C initialisers as tcpdump -dd prints them", dd, DD, nil, []int{1, 2, 3, 4}},
		{"C initialisers with comment lines", "# keep ARP\n" + dd, DD, []string{"keep ARP"}, []int{2, 3, 4, 5}},
		{"a C array with text around it, on one line, without blanks",
			"#include <linux/filter.h>\nstruct sock_filter f[]={{0x28,0,0,12},{0x15,0,1,0x806},{6,0,0,0xffffffffU},{6,0,0,0}};\nstruct sock_fprog p = { .len = 4, .filter = f };\nint main(void) { return 0; }\n",
			DD, nil, []int{2, 2, 2, 2}},
		{"a C array with comments and without the last comma",
			"static struct sock_filter f[] = {\n  { 0x28, 0, 0, 12 }, // type\n  /* { 0x20, 0, 0, 0 }, */\n  { 0x15,\n 0, 1, 0x806, }, { 6, 0, 0, -1 },\n  { 6, 0, 0, 0 }\n};", DD, nil, []int{2, 4, 5, 6}},
		{"a C array of macros",
			"#define X(a) \\\n  { 1, 2, 3, a }\nstruct sock_filter f[] = {\n\tBPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),\n\tBPF_JUMP(BPF_JMP+BPF_JEQ+BPF_K, 0x806, 0, 1),\n\tBPF_STMT((BPF_RET | BPF_K), -1),\n\tBPF_STMT(BPF_RET, 0),\n};",
			DD, nil, []int{4, 5, 6, 7}},
		{"a C array of symbolic initialisers", "{ BPF_LD|BPF_H|BPF_ABS, 0, 0, 12 }, { .code = BPF_JMP|BPF_JEQ, .jt = 0, .jf = 1, .k = 0x806 }, { BPF_RET, 0, 0, 0xffffffff }, { BPF_RET, 0, 0, 0 }", DD, nil, []int{1, 1, 1, 1}},
		{"bpf_asm -c, where zero is 0000000000", "{ 0x28,  0,  0, 0x0000000c },\n{ 0x15,  0,  1, 0x00000806 },\n{ 0x06,  0,  0, 0xffffffff },\n{ 0x06,  0,  0, 0000000000 },\n", DD, nil, []int{1, 2, 3, 4}},
		{"bpf_dbg dump", "/* { op, jt, jf, k }, */\n" + dd, DD, nil, []int{2, 3, 4, 5}},

		{"decimal numbers as tcpdump -ddd prints them", strings.ReplaceAll(comma, ",", "\n") + "\n", DDD, nil, []int{2, 3, 4, 5}},
		{"decimal numbers with comments, blank lines, a warning and a prompt",
			"; keep ARP\nWarning: assuming Ethernet\n\n" + strings.ReplaceAll(comma, ",", "\n\n") + "\n$ ", DDD, []string{"keep ARP"}, []int{6, 8, 10, 12}},

		{"one line as bpf_asm prints it", comma + ",\n", Comma, nil, []int{1, 1, 1, 1}},
		{"one line without the last comma and wrapped", "# keep ARP\n" + strings.Replace(comma, ",6", ",\n 6", 1), Comma, []string{"keep ARP"}, []int{2, 2, 3, 3}},
		{"a bpf_dbg command at its prompt", "> load bpf " + comma + "\n", Comma, nil, []int{1, 1, 1, 1}},
		{"an iptables rule", "-P INPUT ACCEPT\n-A INPUT -m bpf --bytecode \"" + comma + "\" -j DROP\n", Comma, nil, []int{2, 2, 2, 2}},
		{"a terminal with bpf_asm in it", "$ ./bpf_asm foo\n" + comma + ",\n$ \n", Comma, nil, []int{2, 2, 2, 2}},

		{"ss -0b with its socket lines", "Netid Recv-Q Send-Q Local Address:Port Peer Address:Port\np_raw 0      0                  *:lo               *\n\tbpf filter (4):  0x28 0 0 12, 0x15 0 1 2054, 0x06 0 0 4294967295, 0x06 0 0 0,\np_raw 0 0 *:eth0 *\n", SS, nil, []int{3, 3, 3, 3}},
		{"ss -0b wrapped, without the last comma", "; keep ARP\nbpf filter (4): 0x28 0 0 12,\n 0x15 0 1\n 2054, 0x06 0 0 4294967295, 0x06 0 0 0", SS, []string{"keep ARP"}, []int{2, 3, 4, 4}},

		{"JSON over lines with a comment", "# keep ARP\n[\n [40, 0, 0, 12],\n [21, 0, 1, 2054],\n [6, 0, 0, 4294967295], [6, 0, 0, 0]\n]\n", JSON, []string{"keep ARP"}, []int{3, 4, 5, 5}},
		{"a raw array", string(must(Format(Raw, arp))), Raw, nil, nil},
		{"a raw array that only makes sense in big endian", be, RawBE, nil, nil},

		{"bpf_asm source", "; keep ARP\n\tldh [12]\n\tjne #0x806, drop\n\tret #-1\ndrop:\tret #0\n", Asm, []string{"keep ARP"}, []int{2, 3, 4, 5}},
		{"bpf_asm source that quotes another form in a remark", "ldh [12] ; { 0x28, 0, 0, 12 },\n/* 4 { 6, 0, 0, 0 } */ jeq #0x806, L2, L3\nL2: ret #0xffffffff\nL3:\n ret #0", Asm, nil, []int{1, 2, 3, 5}},
		{"bpf_dbg disassemble", "l0:\tldh [12]\nl1:\tjeq #0x806, l2, l3\nl2:\tret #0xffffffff\nl3:\tret #0\n", Asm, nil, []int{1, 2, 3, 4}},
	} {
		t.Run(tc.desc, func(t *testing.T) {
			got, err := Parse("in", []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&Listing{arp, tc.form, tc.comments, tc.lines}, got); diff != "" {
				t.Error("-want +got:\n", diff)
			}
		})
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func TestParseRefuses(t *testing.T) {
	many := func(head, each string) string { return head + strings.Repeat(each, bpf.MaxInsns+1) }
	const ret = "(000) ret      #0\n"
	for _, tc := range []struct{ desc, text, want string }{
		{"nothing", "", "in: no program found"},
		{"only comments", "; nothing\n", "in: no program found"},
		{"prose", "hello\nworld\n", "in: no program found"},
		{"text of another encoding", "\xff\xfe(\x000\x00", "in: UTF-16 text: save it as UTF-8"},

		{"a listing with a missing number", ret + "(002) ret      #0\n", "in:2: instruction (002): want (001), which is missing"},
		{"a listing with a repeated number", ret + "(001) tax\n(001) tax\n", "in:3: instruction (001) again"},
		{"a listing that does not start at 0", "(001) ret #0", "in:1: instruction (001): want (000)"},
		{"two listings", ret + "\n" + ret, "in:3: instruction (000) again"},
		{"an unknown mnemonic on a numbered line", ret + "(001) jlt #1 jt 2 jf 3", `in:2: unknown instruction "jlt"`},
		{"a line without its first parenthesis", ret + "001) tax\n", "in:2: damaged line"},
		{"a line without its second parenthesis", ret + "(001 tax\n", "in:2: damaged line"},
		{"a last line without any parenthesis", ret + "001 ret #0\n", "in:2: damaged line"},
		{"a line cut short", ret + "(001)\n", "in:2: damaged line"},
		{"a target too far", "(000) jeq #1 jt 257 jf 1", "in:1: jt 257 of instruction 0: want a target from 1 to 256"},
		{"a target backwards", ret + "(001) jeq #1 jt 2 jf 1", "in:2: jf 1 of instruction 1: want a target from 2 to 257"},
		{"a jump without targets", "(000) jeq #1", `in:1: jeq "#1": want an operand and "jt T jf F"`},
		{"a load with targets", "(000) ld [1] jt 1 jf 2", "in:1: ld"},
		{"a constant above 32 bits", "(000) ret #4294967296", "want #k or nothing, numbers of 32 bits"},
		{"a constant below 32 bits", "(000) ret #-2147483649", "want #k or nothing, numbers of 32 bits"},
		{"a hex constant above 32 bits", "(000) ld #0x100000000", "numbers of 32 bits"},
		{"a number in two pieces", "(000) ld [1 2]", "operand"},
		{"an ancillary name that is none", "(000) ld [foo]", "or an ancillary name such as [proto]"},
		{"an ancillary name half in brackets", "(000) ld [proto", "operand"},
		{"more after the operand", "(000) ld [1] 2", "operand"},
		{"an operand where none belongs", "(000) tax #1", "operand"},
		{"unimp with a code that has a name", "(000) unimp 0x94", "in:1: unimp 0x94 stands for mod"},
		{"unimp above 16 bits", "(000) unimp 0x10000", "want a code from 0x0 to 0xffff"},
		{"unimp of a jump without targets", "(000) unimp 0x55", `"jt T jf F"`},

		{"an initialiser of five", "{ 6, 0, 0, 0 },\n{ 6, 0, 0, 0, 1 },", "in:2: \"6, 0, 0, 0, 1\" has 5 fields: want 4"},
		{"an initialiser of three", "{ 6, 0, 0 },", "has 3 fields: want 4"},
		{"an open initialiser", "{ 6, 0, 0, 0 },\n{ 6, 0, 0, 0", "in:2: no \"}\" closes this instruction"},
		{"a last initialiser without its brace", "{ 6, 0, 0, 0 },\n 6, 0, 0, 0 },", "in:2: after instruction 0: want another"},
		{"a middle initialiser without its brace", "{ 6, 0, 0, 0 },\n 6, 0, 0, 0 },\n{ 6, 0, 0, 0 },", "in:3: \",\\n 6, 0, 0, 0 },\" between instructions 0 and 1"},
		{"a first initialiser without its brace", "6, 0, 0, 0 },\n{ 6, 0, 0, 0 },", "in:2: a comma before the first instruction"},
		{"a symbol nobody knows", "{ 0x20, 0, 0, offsetof(struct seccomp_data, nr) },", "k: \"offsetof(struct seccomp_data, nr)\""},
		{"a whole instruction nobody knows", "{ 6, 0, 0, 0 },\n{ LD, 0, 0, 0 },\n{ 6, 0, 0, 0 },", "between instructions 0 and 1"},
		{"a last instruction nobody knows", "{ 6, 0, 0, 0 },\n{ LD, 0, 0, 0 },\n", "in:2: after instruction 0"},
		{"two arrays", "a[] = { { 6, 0, 0, 0 } };\nb[] = { { 6, 0, 0, 0 } };", "in:2: \"};"},
		{"a code above 16 bits", "{ 65536, 0, 0, 0 },", "code \"65536\" does not fit: want 0 to 65535"},
		{"a jt above 8 bits", "{ 21, 256, 0, 0 },", "jt \"256\" does not fit: want 0 to 255"},
		{"a k above 32 bits", "{ 21, 0, 0, 0x100000000 },", "k \"0x100000000\" does not fit"},
		{"a k that looks octal", "{ 21, 0, 0, 08 },", "k: \"08\": want a number"},
		{"fields in another order", "{ .code = 6, .k = 0, .jt = 0, .jf = 0 },", "field .k: want .jt here"},
		{"a macro of three", "BPF_STMT(6, 0, 0)", "has 3 fields: want 2"},

		{"a huge count", "4000000000\n6 0 0 0\n", "in:1: 4000000000 instructions: a program has at most 4096"},
		{"a count above 64 bits", "99999999999999999999\n6 0 0 0\n", "at most 4096"},
		{"a count of zero", "0\n", "in:1: count 0"},
		{"fewer lines than the count", "2\n6 0 0 0\n", "in:2: 1 instructions: want 2, the count"},
		{"more lines than the count", "1\n6 0 0 0\n6 0 0 0\n", "in:3: more instructions than the count, 1"},
		{"a line of three numbers", "1\n6 0 0\n", "in:2: instruction \"6 0 0\" has 3 numbers: want code jt jf k"},
		{"a line of five numbers", "1\n6 0 0 0 0\n", "has 5 numbers"},
		{"text among the lines", "2\n6 0 0 0\nfoo\n6 0 0 0\n", "in:3: instruction \"foo\""},
		{"a decimal code that does not fit", "1\n65536 0 0 0\n", "code is \"65536\": want a decimal number from 0 to 65535"},
		{"a decimal jf that does not fit", "1\n21 0 256 0\n", "jf is \"256\": want a decimal number from 0 to 255"},
		{"a decimal k that does not fit", "1\n6 0 0 4294967296\n", "k is \"4294967296\""},
		{"a hex number among decimal ones", "1\n0x6 0 0 0\n", "code is \"0x6\""},

		{"a huge count on one line", "4000000000,6 0 0 0", "in:1: 4000000000 instructions"},
		{"one line with fewer than the count", "2,6 0 0 0,\n", "1 instructions: want 2"},
		{"one line with more than the count", "1,6 0 0 0,\n6 0 0 0", "in:2: more instructions than the count, 1"},
		{"one line with an empty item", "2,6 0 0 0,,6 0 0 0", "has 0 numbers"},
		{"an open quotation", "--bytecode \"1,6 0 0 0", "in: no \" closes the program"},
		{"two iptables rules", "--bytecode \"1,6 0 0 0\"\n--bytecode \"1,6 0 0 0\"", "more than one --bytecode"},

		{"ss with a huge count", "bpf filter (4000000000):  0x06 0 0 0,", "4000000000 instructions"},
		{"ss with two filters", "bpf filter (1):  0x06 0 0 0,\nbpf filter (1):  0x06 0 0 0,", "in:2: a second bpf filter"},
		{"ss with fewer than the count", "bpf filter (2):  0x06 0 0 0,\n", "1 instructions: want 2"},
		{"ss with more than the count", "bpf filter (1):  0x06 0 0 0, 0x06 0 0 0,\n", "after the 1 instructions"},
		{"ss with a number that does not fit", "bpf filter (1):  0x10006 0 0 0,\n", "code is \"0x10006\""},

		{"JSON that ends early", "[[6,0,0,0],\n", "in:2: the text ends early"},
		{"JSON with three numbers", "[[6,0,0]]", "want [code, jt, jf, k], got 3 numbers"},
		{"JSON with a number that does not fit", "[\n[6,0,0,4294967296]]", "in:2: instruction"},
		{"JSON with more behind it", "[[6,0,0,0]]\n[]", "after the program"},
		{"JSON without instructions", "[]", "no instruction"},
		{"JSON of something else", "[[[1]]]", "want [code, jt, jf, k]"},

		{"binary data of another size", "\x06\x00\x00\x00\x00\x00\x00\x00\x06", "in: 9 bytes of binary data"},

		{"source with a syntax error", "ld [0]\n\nadd 5\n", `in:3: add wants '#' or '%' or 'x' here, got "5"`},
		{"source that ends early", "ldh [12]\nret", `got the end of the program`},
		{"source with an unknown label", "ld [0]\nja foo\nret #0", `in:2: no label "foo" in the program`},
		{"source with a jump too far", "jeq #1, foo\n" + strings.Repeat("tax\n", 256) + "foo: ret #0", `in:1: instruction 0 jumps to "foo", instruction 257`},
		{"source with a jump backwards", "aa: tax\njeq #1, aa\nret #0", "in:2: instruction 1 jumps to \"aa\", instruction 0"},
		{"source with another factor", "ldxb 5*([14]&0xf)", "in:1: 5*([k]&0xf): want 4*([k]&0xf)"},
		{"source with a label that is a reserved name", "jeq #1, L, M\nL: ret #0", `in:1: jeq wants a label here, got "M": A, X and M are registers and memory`},
		{"source that defines one", "ja aa\na: ret #0", `in:2: want an instruction, got "a": A, X and M are registers and memory`},
		{"source with a register where no label may be", "jeq m, L1, L2\nL1: ret #0", `in:1: jeq wants '#' or '%' or 'x' here, got "m"`},
		{"source with a comment behind code", "ld [0]\nret #0 # none\n", `others start with ";"`},

		{"4097 instructions of -d", func() string {
			var b strings.Builder
			for pc := range bpf.MaxInsns + 1 {
				b.WriteString(FormatInstruction(pc, bpf.Instruction{Code: bpf.Tax}) + "\n")
			}
			return b.String()
		}(), "in:4097: more than 4096 instructions"},
		{"4097 instructions of -dd", many("", "{ 6, 0, 0, 0 },\n"), "in:4097: more than 4096 instructions"},
		{"4097 instructions of -ddd", many("4097\n", "6 0 0 0\n"), "in:1: 4097 instructions"},
		{"4097 instructions on one line", many("4097,", "6 0 0 0,"), "in:1: 4097 instructions"},
		{"4097 instructions of ss", many("bpf filter (4097): ", " 0x06 0 0 0,"), "in:1: 4097 instructions"},
		{"4097 instructions of JSON", many("[[6,0,0,0]", ",\n[6,0,0,0]"), "more than 4096 instructions"},
		{"4097 instructions of source", many("", "ret #0\n"), "in:4097: more than 4096 instructions"},
		{"4097 raw instructions", many("", "\x06\x00\x00\x00\x00\x00\x00\x00"), "in: 4097 instructions"},
	} {
		t.Run(tc.desc, func(t *testing.T) {
			l, err := Parse("in", []byte(tc.text))
			var typed *Error
			if !errors.As(err, &typed) {
				t.Fatalf("got %v, error %v, want an *Error", l, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestEveryFormTakesTheLongestProgram(t *testing.T) {
	long := make(bpf.Program, bpf.MaxInsns)
	for pc := range long {
		long[pc] = bpf.Instruction{Code: bpf.RetK, K: uint32(pc)}
	}
	for _, form := range Forms() {
		prog := long
		if form == XT {
			prog = long[:maxXT]
		}
		if err := rereads(prog, form); err != nil {
			t.Errorf("form %s: %v", form, err)
		}
		if _, err := Format(form, append(prog, bpf.Instruction{Code: bpf.RetK})); err == nil {
			t.Errorf("form %s: %d instructions are written, want an error", form, len(prog)+1)
		}
		if _, err := Format(form, nil); err == nil {
			t.Errorf("form %s: an empty program is written, want an error", form)
		}
	}
}

func TestFormatLayout(t *testing.T) {
	for form, want := range map[Form]string{
		D:     "(000) ldh      [12]\n(001) jeq      #0x806           jt 2\tjf 3\n(002) ret      #-1\n(003) ret      #0\n",
		DD:    "{ 0x28, 0, 0, 0x0000000c },\n{ 0x15, 0, 1, 0x00000806 },\n{ 0x6, 0, 0, 0xffffffff },\n{ 0x6, 0, 0, 0x00000000 },\n",
		DDD:   "4\n40 0 0 12\n21 0 1 2054\n6 0 0 4294967295\n6 0 0 0\n",
		Comma: "4,40 0 0 12,21 0 1 2054,6 0 0 4294967295,6 0 0 0,\n",
		XT:    "4,40 0 0 12,21 0 1 2054,6 0 0 4294967295,6 0 0 0",
		AsmC:  "{ 0x28,  0,  0, 0x0000000c },\n{ 0x15,  0,  1, 0x00000806 },\n{ 0x06,  0,  0, 0xffffffff },\n{ 0x06,  0,  0, 0000000000 },\n",
		Asm:   "\tldh [12]\n\tjeq #0x806, L2, L3\nL2:\tret #0xffffffff\nL3:\tret #0x0\n",
		SS:    "\tbpf filter (4):  0x28 0 0 12, 0x15 0 1 2054, 0x06 0 0 4294967295, 0x06 0 0 0,\n",
		JSON:  "[[40,0,0,12],[21,0,1,2054],[6,0,0,4294967295],[6,0,0,0]]\n",
		Raw:   "\x28\x00\x00\x00\x0c\x00\x00\x00\x15\x00\x00\x01\x06\x08\x00\x00\x06\x00\x00\x00\xff\xff\xff\xff\x06\x00\x00\x00\x00\x00\x00\x00",
		RawBE: "\x00\x28\x00\x00\x00\x00\x00\x0c\x00\x15\x00\x01\x00\x00\x08\x06\x00\x06\x00\x00\xff\xff\xff\xff\x00\x06\x00\x00\x00\x00\x00\x00",
	} {
		if diff := cmp.Diff(want, string(must(Format(form, arp)))); diff != "" {
			t.Errorf("form %s, -want +got:\n%s", form, diff)
		}
	}
}

func TestFormNames(t *testing.T) {
	for _, form := range Forms() {
		text, _ := form.MarshalText()
		var got Form
		if err := got.UnmarshalText(text); err != nil || got != form {
			t.Errorf("form %s comes back as %s, error %v", form, got, err)
		}
		if form.About() == "" {
			t.Errorf("form %s says nothing about itself", form)
		}
	}
	if _, err := FormByName("tcpdump"); err == nil || !strings.Contains(err.Error(), "want one of d, dd, ddd") {
		t.Errorf("FormByName of an unknown form: %v", err)
	}
	if _, err := ParseAs(numForms, "in", []byte("1")); err == nil {
		t.Error("ParseAs takes a form that does not exist")
	}
	if _, err := Format(numForms, arp); err == nil {
		t.Error("Format takes a form that does not exist")
	}
}

// TestFilesOfTheFacts reads the program files that come with the facts: three
// texts of each tcpdump program, and seccomp profiles in -ddd and raw form.
func TestFilesOfTheFacts(t *testing.T) {
	const shared = "../../../shared/data/"
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the facts are not there: ", err)
	}
	read := func(name string) *Listing {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		if again := must(Format(l.Form, l.Program)); !bytes.Equal(again, data) {
			t.Errorf("%s: %v", name, differ("written again", string(again), string(data)))
		}
		return l
	}
	files, err := filepath.Glob(shared + "*/*.ddd.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tcpdump files, error %v", err)
	}
	for _, ddd := range files {
		want := ZeroUnused(read(ddd).Program)
		for _, ext := range []string{".d.txt", ".dd.txt"} {
			got := read(strings.TrimSuffix(ddd, ".ddd.txt") + ext)
			if diff := cmp.Diff(want, ZeroUnused(got.Program)); diff != "" {
				t.Errorf("%s and %s differ:\n%s", ddd, ext, diff)
			}
		}
	}
	profiles, err := filepath.Glob(shared + "seccomp/profiles/*")
	if err != nil || len(profiles) == 0 {
		t.Fatalf("no seccomp profiles, error %v", err)
	}
	for _, name := range profiles {
		l := read(name)
		if err := rereads(l.Program, Asm, AsmStrict, D); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if base, ok := strings.CutSuffix(name, ".bpf"); ok {
			if err := sameProgram(name, l.Program, read(base+".ddd").Program); err != nil {
				t.Error(err)
			}
		}
	}
}
