package jitcheck_test

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/jitcheck"
	"github.com/kjit-project/kjit/kernelabi"
)

// tiny is an x86_64 JIT for programs that compute with A alone. A is in eax.
type tiny struct{}

func (tiny) Compile(prog bpf.Program, _ bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	code := []byte{0x31, 0xc0} // xor eax, eax
	var starts []int
	for pc, in := range prog {
		starts = append(starts, len(code))
		k := binary.LittleEndian.AppendUint32(nil, in.K)
		switch in.Code {
		case bpf.LdImm:
			code = append(append(code, 0xb8), k...) // mov eax, k
		case bpf.LdLen:
			code = append(code, 0x8b, 0x47, byte(p.Layout[kernelabi.SkbLen])) // mov eax, [rdi+len]
		case bpf.AddK:
			code = append(append(code, 0x05), k...) // add eax, k
		case bpf.AndK:
			if in.K < 0x100 {
				// The short form, but its constant is signed: wrong from 0x80 on.
				code = append(code, 0x83, 0xe0, byte(in.K)) // and eax, k
				break
			}
			code = append(append(code, 0x25), k...) // and eax, k
		case bpf.RetK:
			code = append(append(append(code, 0xb8), k...), 0xc3) // mov eax, k; ret
		case bpf.RetA:
			code = append(code, 0xc3) // ret
		default:
			return nil, &kernelabi.Refusal{PC: pc, Reason: "not in tiny"}
		}
	}
	return &kernelabi.Image{Code: code, PCMap: append(starts, len(code))}, nil
}

// printer stands in for the *testing.T of a test. It prints the report up to
// where machine registers and code begin.
type printer struct{}

func (printer) Helper()                   {}
func (printer) Logf(string, ...any)       {}
func (printer) Fatalf(f string, a ...any) { fmt.Printf(f+"\n", a...) }
func (printer) Errorf(f string, a ...any) {
	text, _, _ := strings.Cut(fmt.Sprintf(f, a...), "-- place.txt --")
	fmt.Print(text)
}

// A JIT with a fault: constants of AND from 0x80 to 0xff are taken for negative.
// Check finds a program that shows it and makes it small.
func ExampleCheck() {
	t := printer{} // in a test: *testing.T
	p, err := kernelabi.ProfileByName("linux-3.10-x86_64")
	if err != nil {
		t.Fatalf("%v", err)
	}
	jitcheck.Check(t, jitcheck.JIT{Name: "tiny", Compiler: tiny{}, Profile: p},
		bpf.Program{
			{Code: bpf.LdLen},
			{Code: bpf.AddK, K: 0x12345678},
			{Code: bpf.AndK, K: 0xf0f0f0f0},
			{Code: bpf.AndK, K: 0xf0},
			{Code: bpf.AddK, K: 7},
			{Code: bpf.RetA},
		})
	// Output:
	// tiny gives 4294967168 = 0xffffff80 where the interpreter gives 128 (value at and-k)
	// at instruction 1: after it A is 0xffffff80, the interpreter has 0x80; in a file tiny.and-k.value.txtar:
	//
	// # Found by jitcheck.Check; jitcheck.CheckFiles runs this file again.
	// jit: tiny
	// kind: socket
	// expect: diverge
	// divergence: value
	// rule: and-k
	// want: 128
	// got: 4294967168 = 0xffffff80
	// how: at instruction 1: after it A is 0xffffff80, the interpreter has 0x80
	// found: program 0
	// -- program --
	// 	ld #0xffffffff
	// 	and #0x80
	// 	ret a
	// -- input.json --
	// {"packet":""}
}
