package jitx86

import (
	"encoding/hex"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

// newSeccompMachine returns a machine that runs an image on a system call, and
// that has no memory but the system call and a stack.
func newSeccompMachine(image *kernelabi.Image, call *kernelabi.Syscall) *machine {
	m := newMachine(image, &kernelabi.Skb{Packet: []byte{}})
	m.mem = []memory{m.mem[0], {skbAddr, call.Data.Append(nil)}}
	return m
}

// TestSeccompForms: loads are one instruction, and filters that use neither X
// nor M[] have no frame.
func TestSeccompForms(t *testing.T) {
	e := mustEmitter(t, "inline")
	ret := bpf.Instruction{Code: bpf.RetA}
	for _, test := range []struct {
		desc string
		prog bpf.Program
		want string
	}{
		{"The number is at offset 0.", bpf.Program{{Code: bpf.LdWAbs}, ret}, "8b07 c3"},
		{"The high word of the last argument is at offset 60.", bpf.Program{{Code: bpf.LdWAbs, K: 60}, ret}, "8b473c c3"},
		{"The length is a constant.", bpf.Program{{Code: bpf.LdLen}, ret}, "b840000000 c3"},
		{"A comparison is cmp and a jump.", bpf.Program{
			{Code: bpf.LdWAbs, K: 4}, {Code: bpf.JeqK, JT: 1, K: 0xc000003e}, {Code: bpf.RetK}, {Code: bpf.RetK, K: 0x7fff0000},
		}, "8b4704 3d3e0000c0 7403 31c0c3 b80000ff7fc3"},
	} {
		image, err := e.Compile(test.prog, bpf.Seccomp, profileFor(t, e))
		if err != nil {
			t.Errorf("%s %v", test.desc, err)
			continue
		}
		var want string
		for _, c := range test.want {
			if c != ' ' {
				want += string(c)
			}
		}
		if got := hex.EncodeToString(image.Code); got != want {
			t.Errorf("%s got %s, want %s", test.desc, got, want)
		}
	}
}

// TestRandomFilters runs random seccomp filters on random system calls.
func TestRandomFilters(t *testing.T) {
	e := mustEmitter(t, "inline")
	p := profileFor(t, e)
	rng, rounds, runs := jittest.Seeded(t), jittest.Rounds(3000), 0
	for range rounds {
		prog := jittest.RandomProgram(rng, bpf.Seccomp, nil)
		machine, err := bpf.Compile(prog, bpf.Seccomp, p.Rules)
		if err != nil {
			continue
		}
		call := &kernelabi.Syscall{}
		call.Nr, call.Arch, call.IP = rng.Uint32(), rng.Uint32(), rng.Uint64()
		for i := range call.Args {
			call.Args[i] = rng.Uint64()
		}
		image, err := e.Compile(prog, bpf.Seccomp, p)
		if err != nil {
			t.Fatalf("%v\nprogram %v", err, prog)
		}
		if problem := checkMap(image); problem != "" {
			t.Fatalf("%s\nprogram %v", problem, prog)
		}
		runs++
		want := machine.Run(&call.Data)
		if value, err := newSeccompMachine(image, call).run(); value != want.Value || err != nil {
			t.Fatalf("%#x, %v; want %#x\nprogram %v\ncall %+v", value, err, want.Value, prog, call)
		}
	}
	t.Logf("%d runs", runs)
	if runs < rounds/2 {
		t.Errorf("of %d filters only %d were valid", rounds, runs)
	}
}

// Only the emitter of kjit's own takes filters: no kernel of the forms that the
// others reproduce did.
func TestSeccompIsOurs(t *testing.T) {
	for _, e := range Emitters() {
		_, err := e.Compile(bpf.Program{{Code: bpf.RetK}}, bpf.Seccomp, profileFor(t, e))
		if (err == nil) != (profileFor(t, e).Emitter == "inline") {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
