// Package jitx86 compiles classic BPF to x86_64 machine code the way Linux did
// before it had eBPF. Given the same program and kernel, the images of the
// linux-* emitters equal the kernel's byte for byte, historic faults included.
//
// An emitter is a table from opcode (and ancillary load) to an emission rule,
// a prologue, and the parameters of the pass loop. Another kernel generation,
// or a historic fault, is a copy of a table with rules replaced; no rule asks
// which table it is in.
//
// The contract between compiled code and kernel:
//
//	rdi     skb (seccomp: its data)    eax     A, and the result
//	r8      skb->data                  ebx     X (callee-saved, at -8(%rbp))
//	r9d     headlen                    esi     offset of a load helper
//	rbp     frame of 96 bytes          ecx, edx, esi  scratch
//
// All arithmetic is 32-bit, so upper halves are 0. M[i] is at -16-4i(%rbp);
// the 4 bytes at -12(%rbp) belong to the load helpers.
package jitx86

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
	Name    string // "linux-3.10"
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
		linux30Emitter(),
		linux310Emitter(),
		inlineEmitter(),
		jccSkip6(),
		div0Ret0End(),
		mshNegRet0End(),
		pass0Seen(),
		andImm16(),
		divKReciprocal(),
		indNegative(),
		convergeLast(),
	}, traps()...)
})

// Emitters lists the emitters: the kernels', the optimised one, and the
// mutants (those with a Fault).
func Emitters() []*Emitter { return slices.Clone(emitters()) }

// ByName returns an emitter, or an error that lists them.
func ByName(name string) (*Emitter, error) { return jit.ByName("x86_64", emitters(), name) }

// Compile compiles a program for the kernel of a profile: its layout, symbols
// and base address. The program is taken to have passed that kernel's checker
// ([bpf.Check] with p.Rules); one that has not gives an error or a useless
// image. A *[kernelabi.Refusal] means that the kernel leaves the program to
// its interpreter; other errors name what the profile lacks, or where the
// program is malformed.
func (e *Emitter) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	return e.NewCompiler().Compile(prog, kind, p)
}

// NewCompiler returns a compiler that reuses its buffers.
func (e *Emitter) NewCompiler() *Compiler {
	return &Compiler{
		Job:     jit.NewJob("jitx86 "+e.Name, symbolNames[:]),
		emitter: e,
		rules:   &e.rules,
	}
}
