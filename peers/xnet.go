package peers

import (
	"encoding/binary"

	xbpf "golang.org/x/net/bpf"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// NewXNet returns the virtual machine of golang.org/x/net/bpf.
func NewXNet() *Peer {
	return &Peer{
		name:    "golang.org/x/net/bpf",
		profile: kernelabi.Current(),
		lacks:   xnetLacks,
		words:   binary.BigEndian,
		load:    xnetLoad,
		stops:   []stop{negative, noWrap},
		shifts:  shiftsToZero,
	}
}

func xnetLacks(ins bpf.Instruction) string {
	switch ins.Code {
	case bpf.Neg:
		return "NEG in its machine"
	case bpf.LdxLen:
		return "LDX LEN"
	}
	return lacksLinux(ins)
}

func xnetLoad(prog bpf.Program, _ bpf.Kind) (execute, error) {
	decoded := make([]xbpf.Instruction, len(prog))
	for pc, ins := range prog {
		decoded[pc] = xbpf.RawInstruction{Op: ins.Code, Jt: ins.JT, Jf: ins.JF, K: ins.K}.Disassemble()
	}
	vm, err := xbpf.NewVM(decoded)
	if err != nil {
		return nil, err
	}
	return func(data []byte) (uint32, error) {
		n, err := vm.Run(data)
		return uint32(n), err
	}, nil
}
