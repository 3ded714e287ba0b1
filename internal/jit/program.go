package jit

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
)

// SeccompDataSize is sizeof(struct seccomp_data).
const SeccompDataSize = 64

// wellFormed checks what emission relies on: the length, that jumps, M[]
// indices and offsets in struct seccomp_data stay in range, and that the end
// cannot be passed. The checker asks for more.
func wellFormed(prog bpf.Program, kind bpf.Kind) error {
	if len(prog) == 0 || len(prog) > bpf.MaxInsns {
		return fmt.Errorf("a program of %d instructions cannot be compiled: want 1 to %d", len(prog), bpf.MaxInsns)
	}
	for pc, in := range prog {
		left := uint32(len(prog) - pc - 1) // instructions behind this one
		switch {
		case in.Code == bpf.Ja && in.K >= left,
			bpf.IsCondJump(in.Code) && (uint32(in.JT) >= left || uint32(in.JF) >= left):
			return fmt.Errorf("instruction %d: jumps out of the program", pc)
		case kind == bpf.Seccomp && in.Code == bpf.LdWAbs && in.K >= SeccompDataSize:
			return fmt.Errorf("instruction %d: loads at %d, struct seccomp_data has %d bytes", pc, in.K, SeccompDataSize)
		}
		switch in.Code {
		case bpf.LdMem, bpf.LdxMem, bpf.St, bpf.Stx:
			if in.K >= bpf.MemWords {
				return fmt.Errorf("instruction %d: M[%d] does not exist, there are %d", pc, in.K, bpf.MemWords)
			}
		}
	}
	if last := prog[len(prog)-1].Code; last != bpf.RetK && last != bpf.RetA {
		return fmt.Errorf("instruction %d: the last instruction does not return", len(prog)-1)
	}
	return nil
}

// describe names an instruction that has no rule.
func describe(in bpf.Instruction) string {
	if ext, ok := in.Extension(); ok {
		return ext.String()
	}
	return fmt.Sprintf("opcode %#x", in.Code)
}

// Reciprocal is ceil(2^32 / k) cut to 32 bits, which is 0 for k = 1 and too
// coarse for large k. Kernels before 3.14 put it in place of the k of DIV K
// before the JIT saw the program, and the interpreter used it as well.
func Reciprocal(k uint32) uint32 {
	if k == 0 {
		return 0 // no checked program has it
	}
	return uint32((1<<32 + uint64(k) - 1) / uint64(k))
}
