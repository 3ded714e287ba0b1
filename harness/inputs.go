package harness

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// maxDefault is how many system calls DefaultInputs makes up.
const maxDefault = 64

// audits are the architectures that filters may ask for.
var audits = []uint32{seccompdata.ArchX86_64, seccompdata.ArchI386, seccompdata.ArchARM, seccompdata.ArchAARCH64}

// DefaultInputs are inputs for a program when nobody names any: for
// socket filters the packets of the corpus, for seccomp filters system calls
// with the numbers that the program compares with.
func DefaultInputs(prog bpf.Program, kind bpf.Kind) ([]kernelabi.Input, error) {
	var inputs []kernelabi.Input
	if kind == bpf.Socket {
		packets, err := corpus.Packets()
		for _, p := range packets {
			inputs = append(inputs, p.Skb)
		}
		return inputs, err
	}
	arch := audits[0]
	numbers := []uint32{0, 39, 1<<30 | 39, 1<<32 - 1}
	for _, ins := range prog {
		switch {
		case !bpf.IsCondJump(ins.Code):
		case slices.Contains(audits, ins.K):
			arch = ins.K
		case !slices.Contains(numbers, ins.K) && len(numbers) < maxDefault-2:
			numbers = append(numbers, ins.K)
		}
	}
	call := func(nr, arch, salt uint32) {
		d := seccompdata.Data{Nr: nr, Arch: arch, IP: 0x401000}
		for i := range d.Args {
			// Of both halves, and of what the program compares with.
			d.Args[i] = uint64(numbers[(int(salt)+i)%len(numbers)]) | uint64(salt&1)<<32
		}
		inputs = append(inputs, &kernelabi.Syscall{Data: d})
	}
	for i, nr := range numbers {
		call(nr, arch, uint32(i))
	}
	other := audits[(slices.Index(audits, arch)+1)%len(audits)]
	call(0, other, 0)
	call(39, other, 1)
	return inputs, nil
}
