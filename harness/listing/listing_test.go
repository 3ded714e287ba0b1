package listing

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

func image(t *testing.T, profile, code string, pcmap ...int) *kernelabi.Image {
	t.Helper()
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	return &kernelabi.Image{Code: b, Base: 0xffffffffa0000000, Profile: p, PCMap: pcmap, Insns: 2, Pass: 3}
}

func TestSideBySide(t *testing.T) {
	prog := bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.RetA}}
	img := image(t, "linux-3.10-x86_64", "4889e5"+"b807000000"+"eb00"+"c306", 3, 8, 12)
	for _, tt := range []struct {
		desc string
		only func(int, int) bool
		mark func(int) bool
		want []string
	}{
		{"Each BPF instruction stands above its own code, the prologue first.", nil, nil, []string{
			"(entry)",
			"       0:  4889e5                    mov %rsp,%rbp",
			"(000) ld       #0x7",
			"       3:  b807000000                mov $0x7,%eax",
			"(001) ret",
			"       8:  eb00                      jmp 0xa",
			"       a:  c3                        retq",
			"       b:  06                        (bad)",
		}},
		{"One instruction can be shown alone, with a mark.", func(pc, _ int) bool { return pc == 0 }, func(off int) bool { return off == 3 }, []string{
			"(000) ld       #0x7",
			"=>     3:  b807000000                mov $0x7,%eax",
		}},
	} {
		var b bytes.Buffer
		SideBySide(&b, prog, img, tt.only, tt.mark)
		if d := cmp.Diff(tt.want, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, d)
		}
	}
}

func TestDisassemble(t *testing.T) {
	for _, tt := range []struct{ desc, profile, code, want string }{
		{"A call is shown with the symbol it goes to.", "linux-3.0-x86_64", "e8ac00a5e1", ""},
		{"ARM code is disassembled as ARM.", "linux-4.5-armv7", "0700a0e3", "mov r0, #7"},
		{"A branch is shown with the offset it goes to.", "linux-4.5-armv7", "000000aa" + "0000a0e1" + "1eff2fe1", "bge 0x8"},
		{"A branch may go backwards.", "linux-4.5-armv7", "feffffea", "b 0x0"},
		{"A constant of the literal pool is told.", "linux-4.5-armv5", "00309fe5" + "1eff2fe1" + "78563412", "ldr r3, [pc]  @ 0x12345678"},
		{"A cut instruction is bad, not out of bounds.", "linux-4.5-armv7", "0700", "(bad)"},
		{"A cut x86 instruction is bad, byte by byte.", "linux-3.10-x86_64", "b807", "(bad)"},
	} {
		img := image(t, tt.profile, tt.code)
		if tt.want == "" {
			addr := img.Profile.Symbols["sk_load_word"]
			rel := uint32(addr - (img.Base + 5))
			img.Code = []byte{0xe8, byte(rel), byte(rel >> 8), byte(rel >> 16), byte(rel >> 24)}
			tt.want = "callq sk_load_word"
		}
		if got := Disassemble(img); len(got) == 0 || got[0].Text != tt.want {
			t.Errorf("%s got %v, want %q first", tt.desc, got, tt.want)
		}
	}
}

func TestKernelLog(t *testing.T) {
	var b bytes.Buffer
	if err := KernelLog(&b, image(t, "linux-3.10-x86_64", strings.Repeat("90", 17))); err != nil {
		t.Fatal(err)
	}
	want := "flen=2 proglen=17 pass=3 image=ffffffffa0000000\n" +
		"JIT code: ffffffffa0000000:" + strings.Repeat(" 90", 16) + "\n" +
		"JIT code: ffffffffa0000010: 90\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
