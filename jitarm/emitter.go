// Package jitarm compiles classic BPF to 32-bit ARM machine code the way Linux
// 3.4 to 4.13 did. Given the same program and kernel, the images of the linux-*
// emitters equal the kernel's byte for byte, historic faults included.
//
// An emitter is a table from opcode (and ancillary load) to an emission rule,
// what the processor models do differently, and the parameters of the frame.
// Another kernel generation, or a historic fault, is a copy of a table with
// rules replaced; no rule asks which table it is in.
//
// The contract between compiled code and kernel:
//
//	r0      entry: skb or struct seccomp_data; then scratch; the result
//	r1      offset of a load; scratch
//	r2, r3  scratch; r3 is the target of calls
//	r4      A                          r7      skb->data
//	r5      X                          r8      headlen
//	r6      skb or seccomp_data        [sp]    M[k] at sp + 4k
//
// Code is ARM mode, little endian, and does not depend on its load address.
package jitarm

import (
	"slices"
	"sync"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/kernelabi"
)

// Emitter compiles programs. It is immutable and may be shared by goroutines;
// each of them needs a Compiler of its own.
type Emitter struct {
	Name    string // "linux-4.5-arm"
	Summary string // one line for lists
	Fault   *Fault // the fault that it has on purpose, nil if none

	rules table
}

// String returns the name.
func (e *Emitter) String() string { return e.Name }

// Fault is a fault put into an emitter that does not have it otherwise.
type Fault = jit.Fault

// emitters lists all in the order of [Emitters]. They are made when somebody asks
// for one: most commands do not.
var emitters = sync.OnceValue(func() []*Emitter {
	return append([]*Emitter{
		linux312Emitter(),
		linux45Emitter(),
		kjitEmitter(),
		seccomp2013Emitter(),
		scratchByteOffset(),
		v5Swap16Left(),
		mshNegative(),
		divKReciprocal(),
		divArgOrder(),
		poolOverflow(),
		hsWrap(),
		negativeOffset(),
		vlanMask(),
		indXUnmarked(),
		xorXFirst(),
		rsh0(),
		noXorVlan(),
		xOnePath(),
		shiftX32(),
	}, traps()...)
})

// Emitters lists the emitters: the kernels', the corrected one, the reconstructed
// one, and the mutants (those with a Fault).
func Emitters() []*Emitter { return slices.Clone(emitters()) }

// ByName returns an emitter, or an error that lists them.
func ByName(name string) (*Emitter, error) { return jit.ByName("ARM", emitters(), name) }

// Compile compiles a program for the kernel of a profile: its architecture and
// features, layout and symbols. The program is as its user wrote it and taken
// to have passed that kernel's checker ([bpf.Check] with p.Rules); one that has
// not gives an error or a useless image. A *[kernelabi.Refusal] means that the
// kernel leaves the program to its interpreter; other errors name what the
// profile lacks, or where the program is malformed.
func (e *Emitter) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	return e.NewCompiler().Compile(prog, kind, p)
}

// NewCompiler returns a compiler that reuses its buffers.
func (e *Emitter) NewCompiler() *Compiler {
	return &Compiler{
		Job:     jit.NewJob("jitarm "+e.Name, symbolNames[:]),
		emitter: e,
		rules:   &e.rules,
	}
}
