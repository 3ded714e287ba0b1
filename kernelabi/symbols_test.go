package kernelabi

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const kallsyms = `ffffffff81000000 T _text
ffffffff81e9ad50 t __pfx_bpf_skb_load_helper_8
ffffffff81e9ad60 t bpf_skb_load_helper_8
ffffffff8110410b T __alias
ffffffff8110410b T srso_alias_return_thunk
ffffffff81200000 T zz
ffffffff81200000 T __aa
ffffffff82000000 D init_task
0000000000000000 A fixed_percpu_data
ffffffffc0201000 t helper	[nf_tables]
ffffffffc0202000 t helper	[xt_bpf]
`

func TestParseSymbols(t *testing.T) {
	table, err := ParseSymbols("kallsyms", []byte(kallsyms))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{
		0xffffffff81e9ad60: "bpf_skb_load_helper_8", 0xffffffff81e9ad50: "__pfx_bpf_skb_load_helper_8",
		0xffffffff8110410b: "srso_alias_return_thunk", // not its alias
		0xffffffff81200000: "zz",                      // plainer than __aa
		0xffffffff82000000: "",                        // data
		0:                  "",
		0xffffffffc0202000: "helper",
	} {
		if got := table.Name(addr); got != want {
			t.Errorf("%#x is %q, want %q", addr, got, want)
		}
	}
	if diff := cmp.Diff([]uint64{0xffffffffc0201000, 0xffffffffc0202000}, table.Addresses("helper")); diff != "" {
		t.Error(diff)
	}
	list, err := ParseSymbols("list", []byte("# mine\nbpf_skb_load_helper_8=0xc0265364,jit_udiv32=c0012250\n\njit_mod32=C001225C\n"))
	if err != nil || list.Name(0xc0265364) != "bpf_skb_load_helper_8" || list.Name(0xc0012250) != "jit_udiv32" || list.Name(0xc001225c) != "jit_mod32" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestParseSymbolsErrors(t *testing.T) {
	for _, tt := range []struct{ desc, text, want string }{
		{"A line that is none is named.", "ffffffff81000000 T _text\nhello\n", `f:2: "hello": want an address`},
		{"An address that is none is named.", "xyz T _text\n", `f:1: "xyz" is no hex address`},
		{"An address beyond 64 bits is named.", "1ffffffff81000000 T _text\n", `f:1: "1ffffffff81000000" is no hex`},
		{"A list item without an address is named.", "a=1,b\n", `f:1: "b": want name=address`},
		{"Hidden addresses are explained.", "0000000000000000 T _text\n0000000000000000 T b\n", "f: all addresses are 0: read /proc/kallsyms as root"},
		{"A file without symbols is an error.", "\n", "f: there are no symbols"},
		{"A line without end is an error.", strings.Repeat("x", 2<<20), "f:1: the line is too long"},
	} {
		_, err := ParseSymbols("f", []byte(tt.text))
		var typed *SymbolError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q", tt.desc, err, tt.want)
		}
	}
}

// FuzzSymbols: any bytes give a table, or a *SymbolError.
func FuzzSymbols(f *testing.F) {
	f.Add([]byte(kallsyms))
	f.Add([]byte("a=1,b=2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := ParseSymbols("f", data)
		var typed *SymbolError
		if err != nil && !errors.As(err, &typed) || err == nil && table.Len() == 0 {
			t.Errorf("%v, %T", table, err)
		}
	})
}
