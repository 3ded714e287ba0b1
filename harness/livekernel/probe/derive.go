package probe

import (
	"errors"
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// errTooLong: a program has no room for the instructions that show its value.
var errTooLong = errors.New("the program has no room left for the instructions that show its value")

// redirected returns prog with every return replaced by a jump to tail, which
// finds the value in A, and behind the program what puts constants there.
// Nothing else changes place, so that no jump has to be changed.
func redirected(prog bpf.Program, tail bpf.Program) (bpf.Program, error) {
	out := append(bpf.Program(nil), prog...)
	var constants []uint32
	place := map[uint32]int{} // index among the constants
	returnsA := false
	for _, ins := range prog {
		if ins.Code == bpf.RetK {
			if _, ok := place[ins.K]; !ok {
				place[ins.K] = len(constants)
				constants = append(constants, ins.K)
			}
		}
		returnsA = returnsA || ins.Code == bpf.RetA
	}
	if len(constants) == 0 && !returnsA {
		return out, nil // the checker refuses it, and is to see it as it is
	}
	// Two instructions per constant, the last of them without its jump.
	tailAt := len(prog) + max(0, 2*len(constants)-1)
	if tailAt+len(tail) > bpf.MaxInsns {
		return nil, errTooLong
	}
	jump := func(from, to int) bpf.Instruction {
		return bpf.Instruction{Code: bpf.Ja, K: uint32(to - from - 1)}
	}
	for pc, ins := range prog {
		switch ins.Code {
		case bpf.RetK:
			out[pc] = jump(pc, len(prog)+2*place[ins.K])
		case bpf.RetA:
			out[pc] = jump(pc, tailAt)
		}
	}
	for i, k := range constants {
		out = append(out, bpf.Instruction{Code: bpf.LdImm, K: k})
		if i < len(constants)-1 {
			out = append(out, jump(len(out), tailAt))
		}
	}
	return append(out, tail...), nil
}

// sliced returns a program that returns width bits of what prog returns, from
// bit shift on. Where prog ends without a return, by a load that fails or a
// division by 0, both return 0.
func sliced(prog bpf.Program, shift, width int) (bpf.Program, error) {
	return redirected(prog, bpf.Program{
		{Code: bpf.RshK, K: uint32(shift)},
		{Code: bpf.AndK, K: 1<<width - 1},
		{Code: bpf.RetA},
	})
}

// visibleBits is how many bits of a value a packet of n bytes shows: it is cut
// to the value, so that all bits set must not be above n. An empty packet
// arrives, or does not.
func visibleBits(n int) int { return min(max(bits.Len(uint(n)+1)-1, 1), 16) }

// The values with which seccomp filters end here.
const (
	retErrno = uint32(seccompdata.Errno)
	retAllow = uint32(seccompdata.Allow)
)

// partBits are the bits of a value that an error number holds, parts how many
// calls it takes to have all 32.
const (
	partBits = 12
	parts    = 3
)

// signal is what marks a system call as one for the filter: it stands in a word
// of the arguments that the filter does not read. The low two bits say which
// part of the value is wanted.
const signal = 0x6b6a6974

// answering returns a seccomp filter that lets all calls pass but those with
// the signal in the word at offset. Those are not executed: their error number
// is a part of what prog returns for them.
func answering(prog bpf.Program, word uint32) (bpf.Program, error) {
	const guard = 5
	body, err := redirected(prog, bpf.Program{
		{Code: bpf.St, K: 15},
		{Code: bpf.LdWAbs, K: word},
		{Code: bpf.AndK, K: 3},
		{Code: bpf.MulK, K: partBits},
		{Code: bpf.Tax},
		{Code: bpf.LdMem, K: 15},
		{Code: bpf.RshX},
		{Code: bpf.AndK, K: 1<<partBits - 1},
		{Code: bpf.OrK, K: retErrno},
		{Code: bpf.RetA},
	})
	if err != nil || len(body)+guard > bpf.MaxInsns {
		return nil, errTooLong
	}
	return append(bpf.Program{
		{Code: bpf.LdWAbs, K: word},
		{Code: bpf.AndK, K: ^uint32(3)},
		{Code: bpf.JeqK, JT: 1, K: signal},
		{Code: bpf.RetK, K: retAllow},
		{Code: bpf.LdImm}, // A is 0 at entry
	}, body...), nil
}
