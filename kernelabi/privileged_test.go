package kernelabi

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestPrivileged(t *testing.T) {
	p, err := ProfileByName("linux-6.18-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ desc, code, want string }{
		{"A plain filter has none.", "f30f1efab807000000c3", ""},
		{"A read of the per-CPU area has none.", "658b04250000f0b0c3", ""},
		{"Switching off write protection is found.", "0f20c0480fbaf0100f22c0b807000000c3", "image+0x0: mov"},
		{"cli is found behind other code.", "b807000000fac3", "image+0x5: cli"},
		{"swapgs is found.", "0f01f8c3", "image+0x0: swapgs"},
		{"A move to a debug register is found.", "0f23f8c3", "image+0x0: mov"},
		{"wrmsr is found.", "0f30c3", "image+0x0: wrmsr"},
		{"wbinvd is found.", "0f09c3", "image+0x0: wbinvd"},
		{"Port output is found.", "eec3", "image+0x0: out"},
		{"wrmsr in the middle of another instruction is found where a jump leads to it.", "eb01b80f3090c3", "image+0x3: wrmsr"},
		{"So it is behind a conditional jump back.", "b80f3090c385c074f8c3", "image+0x1: wrmsr"},
		{"Bytes of a constant that nothing leads to are none.", "b80f3090c3c3", ""},
		{"popf, which can switch interrupts, is found.", "9dc3", "image+0x0: popf"},
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := (&Image{Code: code, Profile: p}).Privileged(); err != nil {
			got = err.Error()
		}
		if (tt.want == "") != (got == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s got %q, want %q", tt.desc, got, tt.want)
		}
	}
}
