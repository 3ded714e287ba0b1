package harness

import (
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// compilerFunc is a Compiler.
type compilerFunc func(*kernelabi.Profile) (*kernelabi.Image, error)

func (f compilerFunc) Compile(_ bpf.Program, _ bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	return f(p)
}

// A JIT that is not ours: a store that it forgets is found, if it says where its
// cells are, and else the load of what was not stored.
func TestCompiledCells(t *testing.T) {
	p, err := ProfileByName("linux-3.10-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	prog := bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.St, K: 3}, {Code: bpf.LdImm, K: 1}, {Code: bpf.LdMem, K: 3}, {Code: bpf.RetA}}
	code := []byte{
		0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x60, // push rbp; mov rbp, rsp; sub rsp, 96
		0xb8, 7, 0, 0, 0, // mov eax, 7
		0x90,             // nop, for mov [rbp-28], eax
		0xb8, 1, 0, 0, 0, // mov eax, 1
		0x8b, 0x45, 0xe4, // mov eax, [rbp-28]
		0xc9, 0xc3, // leave; ret
	}
	for _, tt := range []struct {
		desc  string
		cells *kernelabi.Cells
		pc    int
		what  string
	}{
		{"With the place of its cells.", &kernelabi.Cells{Register: "rbp", Offset: -16, Stride: -4}, 1, "M[3]"},
		{"Without.", nil, 3, "A"},
		{"With a register that there is not.", &kernelabi.Cells{Register: "r99"}, 3, "A"},
		{"With a place outside of the stack.", &kernelabi.Cells{Register: "rdi"}, 3, "A"},
	} {
		r := NewCompiled("mine", compilerFunc(func(*kernelabi.Profile) (*kernelabi.Image, error) {
			return &kernelabi.Image{Code: code, PCMap: []int{8, 13, 14, 19, 22, 24}, Cells: tt.cells}, nil
		}), p)
		place, err := Locate(r, prog, kernelabi.NewSkb(nil))
		if err != nil || place.PC != tt.pc || place.What != tt.what {
			t.Errorf("%s got %+v, %v, want %s at instruction %d", tt.desc, place, err, tt.what, tt.pc)
		}
		r.Close()
	}
}
