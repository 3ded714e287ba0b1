package peers

import (
	"encoding/binary"
	"errors"

	"gvisor.dev/gvisor/pkg/abi/linux"
	gbpf "gvisor.dev/gvisor/pkg/bpf"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// NewGVisor returns the interpreter of gVisor's kernel. The programs are not
// optimised; gVisor's optimiser is another peer, [NewGVisorOptimized].
func NewGVisor() *Peer { return newGVisor("gvisor.dev/gvisor/pkg/bpf", false) }

// NewGVisorOptimized returns gVisor's interpreter behind gVisor's optimiser.
func NewGVisorOptimized() *Peer { return newGVisor("gvisor.dev/gvisor/pkg/bpf (optimised)", true) }

func newGVisor(name string, optimize bool) *Peer {
	return &Peer{
		name:    name,
		profile: kernelabi.Current(),
		lacks:   lacksLinux,
		words:   binary.LittleEndian,
		load: func(prog bpf.Program, kind bpf.Kind) (execute, error) {
			return gvisorLoad(prog, kind, optimize)
		},
		stops: []stop{negative},
		swapped: &registerMoves{Deviation{
			"TAX is TXA", "TAX sets A to X and TXA sets X to A; in Linux it is the other way round",
		}},
		shifts: shiftsToZero,
	}
}

func gvisorLoad(prog bpf.Program, kind bpf.Kind, optimize bool) (execute, error) {
	insns := make([]gbpf.Instruction, len(prog))
	for pc, ins := range prog {
		insns[pc] = gbpf.Instruction(linux.BPFInstruction{OpCode: ins.Code, JumpIfTrue: ins.JT, JumpIfFalse: ins.JF, K: ins.K})
	}
	compiled, err := gbpf.Compile(insns, optimize)
	if err != nil {
		return nil, err
	}
	exec := gbpf.Exec[gbpf.BigEndian]
	if kind == bpf.Seccomp {
		exec = gbpf.Exec[gbpf.LittleEndian]
	}
	return func(data []byte) (uint32, error) {
		value, err := exec(compiled, data)
		// Linux ends the program with 0 for these two; it has no error.
		var ended gbpf.Error
		if errors.As(err, &ended) && (ended.Code == gbpf.InvalidLoad || ended.Code == gbpf.DivisionByZero) {
			return 0, nil
		}
		return value, err
	}, nil
}
