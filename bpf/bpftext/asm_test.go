package bpftext

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// TestAssemble is the grammar of bpf_asm where the recorded runs do not reach:
// one line of source, and the instructions or the line of the error.
func TestAssemble(t *testing.T) {
	for _, tc := range []struct{ desc, src, want string }{
		{"several instructions on a line", "ld #1 tax ret a", "3,0 0 0 1,7 0 0 0,22 0 0 0,"},
		{"an instruction over several lines, with a number sign alone on one", "ld\n[\n12\n]\nret\n#\n0", "2,32 0 0 12,6 0 0 0,"},
		{"an immediate over several lines", "ld\n #1\nret\n a", "2,0 0 0 1,22 0 0 0,"},
		{"numbers that touch words", "ret #12ret #0xaret #0b1", "3,6 0 0 12,6 0 0 10,6 0 0 1,"},
		{"a number that ends where it must", "ret #12tax", "2,6 0 0 12,7 0 0 0,"},
		{"a binary number", "ret #0b101", "1,6 0 0 5,"},
		{"an octal number and one that is none", "ret #017 ret #08", "error 1"},
		{"a hex number above 64 bits", "ret #0xfffffffffffffffff0", "1,6 0 0 4294967295,"},
		{"a decimal number above 63 bits", "ret #9999999999999999999", "1,6 0 0 4294967295,"},
		{"a decimal number below 63 bits", "ret #-9999999999999999999", "1,6 0 0 0,"},
		{"a sign before hex", "ret #-0x1", "error 1"},
		{"a sign before zero", "ret #-0", "error 1"},
		{"upper case everywhere", "LDXB 4*([14]&0XF)\nLD %X\n", "error 2"},
		{"a register with a percent sign", "jeq %x,aa,bb\naa: ld [%x + 4]\nbb: ret %a", "3,29 0 1 0,64 0 0 4,22 0 0 0,"},
		{"an extension after a number sign", "ld #vlan_tpid\nldh #Type\nldb #rand\nldx #len\nret a", "5,32 0 0 4294963260,40 0 0 4294963204,48 0 0 4294963256,129 0 0 0,22 0 0 0,"},
		{"the length in a half word", "ldh len", "error 1"},
		{"an extension in X", "ldx proto", "error 1"},
		{"ldi with and without a number sign", "ldi #3 ldi 4 ldxi 5 ldxi #6 ret a", "5,0 0 0 3,0 0 0 4,1 0 0 5,1 0 0 6,22 0 0 0,"},
		{"MSH with other numbers", "ldxb 4*([14]&15)\nret a", "2,177 0 0 14,22 0 0 0,"},
		{"MSH with wrong numbers", "ldxb 4*([14]&7)\nret a", "error 1"},
		{"a number sign at the start of a line", "ld\n#1\nret a", "error 3"},
		{"an extension alone on a line after a number sign", "ld\n#len\nret a", "2,128 0 0 0,22 0 0 0,"},
		{"a comment before the first instruction", "/* a\n** b */ ; c\n# d\nret a", "1,22 0 0 0,"},
		{"an open comment", "ret a /* b", "error 1"},
		{"a label that is a name of libpcap's", "ja random\nrandom: ret a", "2,5 0 0 0,22 0 0 0,"},
		{"a label that is a mnemonic", "ja ret\nret: ret a", "error 1"},
		{"labels that differ in case", "ja aa\nAA: tax\naa: ret a", "3,5 0 0 1,7 0 0 0,22 0 0 0,"},
		{"a label twice: the first counts", "ja aa\naa: tax\naa: ret a", "3,5 0 0 0,7 0 0 0,22 0 0 0,"},
		{"ja backwards", "aa: tax\nja aa\nret a", "3,7 0 0 0,5 0 0 4294967294,22 0 0 0,"},
		{"a label at the end", "ja aa\naa:", "error 2"},
		{"two labels in a row", "aa: bb: ret a", "error 1"},
		{"an else that is no label", "jeq #1,aa,5\naa: ret a", "error 1"},
		{"a comma too many", "jlt #1,aa,\naa: ret a", "error 1"},
		{"the longest conditional jump", "jeq #1,aa\n" + strings.Repeat("tax\n", 255) + "aa: ret a", ""},
		{"no semantic checks", "st M[16]\ndiv #0\nlsh #32\nret x", "4,2 0 0 16,52 0 0 0,100 0 0 32,14 0 0 0,"},
		{"a carriage return", "ret a\r\n", "error 1"},
	} {
		t.Run(tc.desc, func(t *testing.T) {
			got := ""
			l, err := ParseAs(AsmStrict, "src", []byte(tc.src))
			var at *Error
			switch {
			case errors.As(err, &at):
				got = fmt.Sprintf("error %d", at.Line)
			case err != nil:
				t.Fatal(err)
			default:
				got = strings.TrimSpace(string(must(Format(Comma, l.Program))))
			}
			if tc.want == "" && err == nil {
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

// TestLiberties shows each thing that form asm takes and bpf_asm does not.
func TestLiberties(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range []struct {
		src, want string
		liberty   liberty
	}{
		{"ld [x+14]\nldh [%x-4]\nret a", "3,64 0 0 14,72 0 0 4294967292,22 0 0 0,", tightIndex},
		{"ld vlanp\nldh random\nldb xor_x\nret a", "4,32 0 0 4294963248,40 0 0 4294963256,48 0 0 4294963240,22 0 0 0,", pcapExtension},
		{"jeq #1,L,K\nL: ret #1\nK: ret #0", "3,21 0 1 1,6 0 0 1,6 0 0 0,", shortLabel},
		{"// hello\nret a // bye", "1,22 0 0 0,", slashComment},
		{"#\n# hello\n#\nret a", "1,22 0 0 0,", loneHash},
		{"/** hello **/\nret a", "1,22 0 0 0,", starComment},
		{"> ret a\r\n", "1,22 0 0 0,", mailAndEditors},
	} {
		if _, err := ParseAs(AsmStrict, "src", []byte(tc.src)); err == nil {
			t.Errorf("%q: bpf_asm's grammar takes it", tc.src)
		}
		l, taken, err := parseAsm("src", []byte(tc.src), false)
		if err != nil {
			t.Errorf("%q: %v", tc.src, err)
			continue
		}
		if got := strings.TrimSpace(string(must(Format(Comma, l.Program)))); got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.src, got, tc.want)
		}
		if diff := cmp.Diff([]Liberty{Liberties[tc.liberty-1]}, taken.named()); diff != "" {
			t.Errorf("%q: liberties, -want +got:\n%s", tc.src, diff)
		}
		seen[Liberties[tc.liberty-1].Syntax] = true
	}
	for _, l := range Liberties {
		if !seen[l.Syntax] {
			t.Errorf("liberty %q has no case", l.Syntax)
		}
	}
}

func TestAsmHasNoWordsFor(t *testing.T) {
	ret := bpf.Instruction{Code: bpf.RetK}
	for _, tc := range []struct {
		desc string
		prog bpf.Program
		want FormatError
	}{
		{"a code that nobody knows", bpf.Program{ret, {Code: 0x106}}, FormatError{Asm, 1, "bpf_asm has no instruction for code 0x106"}},
		{"a conditional jump behind the end", bpf.Program{{Code: bpf.JeqK, JF: 1}, ret}, FormatError{Asm, 0, "jump to 2, outside the program: bpf_asm has no label for it"}},
		{"ja behind the end", bpf.Program{ret, {Code: bpf.Ja}}, FormatError{Asm, 1, "jump to 2, outside the program: bpf_asm has no label for it"}},
		{"ja before the start", bpf.Program{{Code: bpf.Ja, K: 0xfffffffe}, ret}, FormatError{Asm, 0, "jump to -1, outside the program: bpf_asm has no label for it"}},
	} {
		text, err := Format(Asm, tc.prog)
		var got *FormatError
		if !errors.As(err, &got) {
			t.Errorf("%s: got %q, error %v, want a *FormatError", tc.desc, text, err)
		} else if diff := cmp.Diff(tc.want, *got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.desc, diff)
		}
	}
}

// seed returns KJIT_SEED or a random number, and says which.
func seed(t testing.TB) uint64 {
	s := rand.Uint64()
	if env := os.Getenv("KJIT_SEED"); env != "" {
		var err error
		if s, err = strconv.ParseUint(env, 0, 64); err != nil {
			t.Fatalf("KJIT_SEED=%s: %v", env, err)
		}
	}
	t.Logf("KJIT_SEED=%d", s)
	return s
}

// randomProgram is a program of known codes whose jumps stay inside and may,
// with ja, go backwards. Unused fields hold numbers too.
func randomProgram(r *rand.Rand) bpf.Program {
	var codes []uint16
	for code := range asmByCode {
		codes = append(codes, code)
	}
	slices.Sort(codes) // for the seed to mean something
	prog := make(bpf.Program, 1+r.IntN(300))
	for pc := range prog {
		left := min(len(prog)-pc-1, 256)
		code := codes[r.IntN(len(codes))]
		if bpf.IsCondJump(code) && left == 0 {
			code = bpf.RetA
		}
		ins := bpf.Instruction{Code: code, JT: uint8(r.Uint32()), JF: uint8(r.Uint32()), K: r.Uint32() >> r.IntN(32)}
		switch {
		case bpf.IsCondJump(code):
			ins.JT, ins.JF = uint8(r.IntN(left)), uint8(r.IntN(left))
		case code == bpf.Ja:
			ins.K = uint32(r.IntN(len(prog)) - pc - 1)
		case code == bpf.LdWAbs || code == bpf.LdHAbs || code == bpf.LdBAbs:
			if r.IntN(2) == 0 {
				ins.K = bpf.ADOff + uint32(r.IntN(80))
			}
		}
		prog[pc] = ins
	}
	return prog
}

func TestRandomProgramsSurviveEveryForm(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 0))
	for range 200 {
		prog := randomProgram(r)
		if err := rereads(prog, DD, DDD, Comma, AsmC, SS, JSON, Raw, RawBE); err != nil {
			t.Fatal(err)
		}
		if err := rereads(ZeroUnused(prog), Asm, AsmStrict); err != nil {
			t.Fatal(err)
		}
		checkListing(t, prog)
	}
}

// checkListing writes -d text and reads it back: the program must be the same
// up to what -d does not print, and the text must be the same.
func checkListing(t *testing.T, prog bpf.Program) {
	t.Helper()
	text := must(Format(D, prog))
	l, err := ParseAs(D, "own listing", text)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(prog)
	for pc := range want {
		want[pc] = printed(want[pc])
	}
	if diff := cmp.Diff(want, l.Program); diff != "" {
		t.Fatal("-want +got:\n", diff)
	}
	if err := differ("-d", string(must(Format(D, l.Program))), string(text)); err != nil {
		t.Fatal(err)
	}
}
