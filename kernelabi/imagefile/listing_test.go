package imagefile

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListing(t *testing.T) {
	type function struct {
		Name, Code  string
		Printed     uint64
		Insns, Pass int
		Line        int
	}
	const (
		tool = "   0:\tpush   %rbp\n\t55\n   1:\tmov    %rsp,%rbp\n\t48 89 e5\n   4:\tret\n\tc3\n"
		bare = "   0:\tpush   %rbp\n   1:\tmov    %rsp,%rbp\n"
		dump = "   0:\t55                   \tpush   %rbp\n   1:\t48 b8 88 77 66 55 44 \tmovabs $0x1122334455667788,%rax\n   8:\t33 22 11 \n   b:\tc3                   \tret\n"
		arm  = "   0:\te92d4bf0 \tpush\t{r4, r5}\n   4:\te8bd8bf0 \tpop\t{r4, pc}\n"
	)
	for _, tt := range []struct {
		desc, text string
		want       []function
		errs       []string
	}{
		{"bpftool, one function.", tool, []function{{"", "554889e5c3", 0, 0, 0, 1}}, nil},
		{"bpftool, several functions, with prototypes and lines of source.",
			"int f(struct xdp_md * ctx):\nbpf_prog_6deef7357e7b4530_f:\n; return XDP_PASS;\n" + tool + "\nint g():\n0xffffffffc0201000:\n" + tool,
			[]function{{"bpf_prog_6deef7357e7b4530_f", "554889e5c3", 0, 0, 0, 4}, {"0xffffffffc0201000", "554889e5c3", 0xffffffffc0201000, 0, 0, 13}}, nil},
		{"bpf_jit_disasm.", "70 bytes emitted from JIT compiler (pass:3, flen:6)\nffffffffa0069c8f + <x>:\n" + tool,
			[]function{{"x", "554889e5c3", 0xffffffffa0069c8f, 6, 3, 3}}, nil},
		{"objdump; long instructions go on in the next line.", "\nx.bin:     file format binary\n\n\nDisassembly of section .data:\n\n0000000000000000 <.data>:\n" + dump,
			[]function{{".data", "5548b88877665544332211c3", 0, 0, 0, 8}}, nil},
		{"objdump writes ARM code as words.", arm, []function{{"", "f04b2de9f08bbde8", 0, 0, 0, 1}}, nil},
		{"Bytes and instruction on a line, as people write them.", "0: 55 push %rbp\n1: 48 89 e5 mov %rsp,%rbp\n", []function{{"", "554889e5", 0, 0, 0, 1}}, nil},
		{"Addresses in place of offsets.", strings.NewReplacer("   0:", "ffffffffc0201000:", "   1:", "ffffffffc0201001:", "   4:", "ffffffffc0201004:").Replace(tool),
			[]function{{"", "554889e5c3", 0xffffffffc0201000, 0, 0, 1}}, nil},
		{"Lines end as on other systems.", strings.ReplaceAll(tool, "\n", "\r\n"), []function{{"", "554889e5c3", 0, 0, 0, 1}}, nil},
		{"A second function without a name.", tool + tool, []function{{"", "554889e5c3", 0, 0, 0, 1}, {"", "554889e5c3", 0, 0, 0, 7}}, nil},
		{"Without bytes it says how to get them.", bare, nil, []string{"f:1: the instruction at 0x0 has no bytes: dump with the word opcodes (bpftool prog dump jited id N opcodes; "}},
		{"The last instruction needs its bytes too.", strings.TrimSuffix(tool, "\tc3\n"), nil, []string{"f:5: the instruction at 0x4 has no bytes"}},
		{"A function with a fault does not hide the others.", "a:\n" + bare + "b:\n" + tool, []function{{"b", "554889e5c3", 0, 0, 0, 5}}, []string{"f:2: the instruction at 0x0 has no bytes"}},
		{"A missing line is noticed.", strings.Replace(tool, "   1:\tmov    %rsp,%rbp\n\t48 89 e5\n", "", 1), nil, []string{"f:3: the instruction is at 0x4, behind the one before it is 0x1"}},
		{"A beginning that is cut off is noticed.", strings.Replace(tool, "   0:\tpush   %rbp\n\t55\n", "", 1), nil, []string{"f:1: the function begins at 0x1"}},
		{"A text without instructions is an error.", "hello\n", nil, []string{"f: there are no instructions"}},
	} {
		entries, err := ReadListing("f", []byte(tt.text))
		var got []function
		for _, e := range entries {
			got = append(got, function{e.Name, hex.EncodeToString(e.Code), e.Printed, e.Insns, e.Pass, e.Line})
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || tt.errs == nil && err != nil {
			t.Errorf("%s\nerror %v (-want +got):\n%s", tt.desc, err, diff)
		}
		for _, want := range tt.errs {
			var typed *Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\ngot error %v, want %q", tt.desc, err, want)
			}
		}
		if form := Detect([]byte(tt.text)); form != Listing && tt.text != "hello\n" {
			t.Errorf("%s is taken for %s", tt.desc, form)
		}
	}
}

func FuzzListing(f *testing.F) {
	f.Add([]byte("f:\n   0:\tpush   %rbp\n\t55\n   1:\t48 89 e5 \tmov    %rsp,%rbp\n"))
	f.Add([]byte("2 bytes emitted from JIT compiler (pass:3, flen:6)\nffffffffa0069c8f + <x>:\n ffffffffa0069c8f:\te92d4bf0 \tpush\n"))
	f.Fuzz(func(t *testing.T, data []byte) { sane(t, ReadListing, data) })
}
