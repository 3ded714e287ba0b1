package harness

import (
	"slices"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/kernelabi"
)

func TestDefaultInputs(t *testing.T) {
	l, err := bpftext.ParseAs(bpftext.Asm, "test", []byte("ld [4]\njeq #0x40000028, arm\nret #0\narm: ld [0]\njeq #162, hit\nret #1\nhit: ret #2"))
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := DefaultInputs(l.Program, bpf.Seccomp)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(inputs, func(in kernelabi.Input) bool {
		call := in.(*kernelabi.Syscall)
		return call.Nr == 162 && call.Arch == 0x40000028
	}) {
		t.Errorf("no call with the number and architecture that the program asks for in %v", inputs)
	}
	if inputs, err := DefaultInputs(l.Program, bpf.Socket); err != nil || len(inputs) < 10 {
		t.Errorf("%d packets, %v", len(inputs), err)
	}
}
