package livekernel

import (
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
)

// assemble assembles statements separated by semicolons.
func assemble(t *testing.T, text string) bpf.Program {
	t.Helper()
	l, err := bpftext.ParseAs(bpftext.Asm, "test", []byte(strings.ReplaceAll(text, ";", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return l.Program
}

func TestConvertErrors(t *testing.T) {
	for _, test := range []struct {
		desc, prog string
		kind       bpf.Kind
		want       string
	}{
		{"A load that eBPF has not is named with its place.", "ld #1; ld hatype; ret a", bpf.Socket, "instruction 1 has no eBPF form: a load of hatype"},
		{"What is never reached is no matter.", "ret #1; ld hatype; ret a", bpf.Socket, ""},
		{"Seccomp filters go another way.", "ret #1", bpf.Seccomp, "it has no eBPF form: seccomp filters do not come through bpf(2)"},
		{"The checker comes first.", "div #0; ret a", bpf.Socket, "instruction 0: "},
	} {
		got := ""
		if _, err := convert(assemble(t, test.prog), test.kind); err != nil {
			got = err.Error()
		}
		if len(got) < len(test.want) || got[:len(test.want)] != test.want || test.want == "" && got != "" {
			t.Errorf("%s got %q, want %q", test.desc, got, test.want)
		}
	}
}
