package kernelabi

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

func image(t *testing.T, profile, code string, base uint64) *Image {
	t.Helper()
	p, err := ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(code, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return &Image{Code: b, Base: base, BaseKnown: true, Profile: p}
}

func TestReferences(t *testing.T) {
	const x86, v5, v7 = "linux-6.1-x86_64", "linux-6.1-armv5", "linux-6.1-armv7"
	for _, tt := range []struct {
		desc, profile, code string
		want                []Reference
	}{
		{"Jumps inside are none.", x86, "eb 00 74 fe c3", nil},
		{"A jump to the end leaves the image.", x86, "eb 01 c3", []Reference{{0, "jmp 0x1003", false, 0x1003, true}}},
		{"A call is relative to its end.", x86, "90 e8 fb 0f 00 00", []Reference{{1, "call 0x2001", true, 0x2001, true}}},
		{"A conditional jump may leave.", x86, "0f 84 00 01 00 00", []Reference{{0, "je 0x1106", false, 0x1106, true}}},
		{"A call through a constant register.", x86, "48 b8 78 56 34 12 ff ff ff ff ff d0", []Reference{{10, "call RAX, which is 0xffffffff12345678", true, 0xffffffff12345678, false}}},
		{"A call through another register is not known.", x86, "48 b8 78 56 34 12 ff ff ff ff ff d1", nil},
		{"endbr64 and shlx are instructions.", x86, "f3 0f 1e fa c4 e2 f9 f7 c0 c3", nil},
		{"blx through a literal.", v5, "00 60 9f e5 36 ff 2f e1 53 26 c0 d8", []Reference{{4, "BLX R6, which is 0xd8c02653", true, 0xd8c02653, false}}},
		{"blx through movw and movt.", v7, "28 66 0c e3 b2 60 4c e3 36 ff 2f e1", []Reference{{8, "BLX R6, which is 0xc0b2c628", true, 0xc0b2c628, false}}},
		{"bl is relative to 8 bytes on.", v7, "3e 00 00 eb", []Reference{{0, "BL 0x1100", true, 0x1100, true}}},
		{"Words of the pool are no code.", v5, "00 00 9f e5 1e ff 2f e1 ff ff ff ff", nil},
	} {
		got, err := image(t, tt.profile, tt.code, 0x1000).References()
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s error %v (-want +got):\n%s", tt.desc, err, diff)
		}
	}
}

func TestCodeErrors(t *testing.T) {
	for _, tt := range []struct {
		desc, profile, code, want string
		offset                    int
	}{
		{"Bytes that are no instruction are shown.", "linux-6.1-x86_64", "90 06 c3", "06 c3 is not decoded: this is no code for that processor, or an instruction that kjit does not know", 1},
		{"An image cut in an instruction.", "linux-6.1-x86_64", "90 e8 00 00", "the image ends inside an instruction", 1},
		{"A word that is no instruction.", "linux-6.1-armv7", "00 00 a0 e1 ff ff ff ff", "0xffffffff is not decoded: ", 4},
		{"An image cut in a word.", "linux-6.1-armv7", "00 00 a0 e1 00", "the image ends inside an instruction", 4},
	} {
		_, err := image(t, tt.profile, tt.code, 0x1000).References()
		var typed *CodeError
		if !errors.As(err, &typed) || typed.Offset != tt.offset || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v", tt.desc, err)
		}
	}
}

func TestResolveNamesWhatIsMissing(t *testing.T) {
	img := image(t, "linux-6.1-x86_64", "90 e8 fb 0f 00 00 c3", 0x1000)
	_, err := NewSymbolTable(map[string]uint64{"f": 0x2002}).Resolve(img)
	var typed *UnresolvedError
	if !errors.As(err, &typed) || typed.Target != 0x2001 || typed.Offset != 1 || !strings.Contains(err.Error(), "image+0x1: call 0x2001: no symbol is at 0x2001") {
		t.Errorf("got %v", err)
	}
	img.BaseKnown = false
	if _, err := NewSymbolTable(nil).Resolve(img); err == nil || !strings.Contains(err.Error(), "give the image's base") {
		t.Errorf("got %v", err)
	}
}

func TestLacks(t *testing.T) {
	const movw, udiv, rev = "01 00 00 e3", "11 f1 30 e7", "30 0f bf e6"
	for _, tt := range []struct {
		profile, code string
		want          []string
	}{
		{"linux-6.1-armv5", movw + rev + udiv, []string{"movw", "rev", "udiv"}},
		{"linux-6.1-armv6", movw + rev + udiv, []string{"movw", "udiv"}},
		{"linux-6.1-armv7", movw + rev + udiv, nil},
		{"linux-4.5-armv7", udiv, []string{"udiv"}},
		{"linux-6.18-x86_64", "c4 e2 f9 f7 c0", nil},
	} {
		got, err := image(t, tt.profile, tt.code, 0x1000).Lacks()
		if err != nil || strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%s lacks %q of %s (%v), want %q", tt.profile, got, tt.code, err, tt.want)
		}
	}
}

func TestSolveBaseErrors(t *testing.T) {
	const helper8, helper32 = 0xffffffffb1403510, 0xffffffffb14036d0
	symbols := NewSymbolTable(map[string]uint64{"bpf_skb_load_helper_8": helper8, "bpf_skb_load_helper_32": helper32})
	prog := bpf.Program{{Code: bpf.LdBAbs}, {Code: bpf.RetA}}
	one := image(t, "linux-6.1-x86_64", "e8 00 00 00 00 c3", 0)
	one.Code[4] = 0x40 // the target is outside
	base, err := SolveBase(one, prog, bpf.Socket, symbols, 0)
	if want := uint64(helper8 - 0x40000005); err != nil || base != want {
		t.Errorf("base %#x (%v), want %#x", base, err, want)
	}
	var several *AmbiguousBaseError
	if _, err := SolveBase(one, nil, bpf.Socket, symbols, 0); !errors.As(err, &several) || len(several.Candidates) != 2 {
		t.Errorf("without the program: %v", err)
	}
	var none *NoBaseError
	if _, err := SolveBase(one, append(bpf.Program{{Code: bpf.LdBAbs}}, prog...), bpf.Socket, symbols, 0); !errors.As(err, &none) || !strings.Contains(err.Error(), "has 2 loads that need a call, the image 1") {
		t.Errorf("with another program: %v", err)
	}
	if _, err := SolveBase(one, prog, bpf.Socket, NewSymbolTable(nil), 0); !errors.As(err, &none) || none.NoCalls {
		t.Errorf("without symbols: %v", err)
	}
	if _, err := SolveBase(image(t, "linux-6.1-x86_64", "31 c0 c3", 0), prog, bpf.Seccomp, symbols, 0); !errors.As(err, &none) || !none.NoCalls {
		t.Errorf("without calls: %v", err)
	}
	var code *CodeError
	if _, err := SolveBase(image(t, "linux-6.1-x86_64", "06", 0), prog, bpf.Socket, symbols, 0); !errors.As(err, &code) {
		t.Errorf("no code: %v", err)
	}
}
