// Package guestcode makes images of kjit's own C code (ci/guestcode), which does
// what a kernel does around and in place of JITs: it interprets programs, runs
// chains of seccomp filters, decides by a hash table. So what "no JIT" costs is
// counted in the same emulator and the same unit as what a JIT costs.
package guestcode

import (
	"encoding/binary"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// Interpreter "compiles" programs for the interpreter: it translates the opcodes
// to the dense ones that the interpreter switches over, as Linux 3.x did when a
// filter was attached, and puts interpreter, kernel facts and program into one
// image. The zero value is ready to use.
type Interpreter struct{}

// Compile returns the image that interprets prog on the profile's kernel.
//
// Errors: *kernelabi.Refusal for what the interpreter or the profile's kernel
// does not have; others for a profile that lacks a field or symbol the program
// needs. The program must have passed the profile's checker.
func (Interpreter) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	l, err := newLayout(p, "interp")
	if err != nil {
		return nil, err
	}
	insns, env, err := l.interpreted(prog, kind)
	if err != nil {
		return nil, err
	}
	img := l.image("interpreter", insns, env)
	img.Insns = len(prog)
	return img, nil
}

// interpreted adds what the interpreter reads: the program and what it needs of
// the kernel.
func (l *layout) interpreted(prog bpf.Program, kind bpf.Kind) (insns, env int, err error) {
	encoded, needs, err := translate(prog, kind, l.profile.Rules)
	if err != nil {
		return 0, 0, err
	}
	e, err := newEnv(l.profile, kind, needs)
	if err != nil {
		return 0, 0, err
	}
	return l.add(encoded), l.add(e.encode(l.target)), nil
}

// translate encodes the program as the interpreter's struct insn, 8 bytes an
// instruction, and says what of the kernel it needs.
func translate(prog bpf.Program, kind bpf.Kind, rules bpf.Rules) (insns []byte, needs needSet, err error) {
	insns = make([]byte, 0, 8*len(prog))
	for pc, in := range prog {
		op, ok := opcodeOf(in, kind, rules)
		if !ok {
			return nil, 0, &kernelabi.Refusal{PC: pc, Reason: fmt.Sprintf("the interpreter as a guest does not know code %#x, k %#x", in.Code, in.K)}
		}
		needs |= op.needs
		insns = binary.LittleEndian.AppendUint16(insns, op.number)
		insns = append(insns, in.JT, in.JF)
		insns = binary.LittleEndian.AppendUint32(insns, in.K)
	}
	return insns, needs, nil
}
