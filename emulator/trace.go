package emulator

import (
	"errors"
	"slices"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/kernelabi"
)

// maxSteps bounds a trace: more than any program without loops executes.
const maxSteps = 1 << 17

// Step is one executed instruction of the image, with the processor as it was
// before. What slices hold is valid until the machine runs again.
type Step struct {
	Offset int // in the image

	// A and X are the registers in which the JITs of the architecture keep them
	// (x86_64: eax and ebx; ARM: r4 and r5).
	A, X uint32

	Registers []uint64 // by the names of [RegisterNames]
	Stack     []uint32 // 32 words from the stack pointer up; 0 beyond the stack
}

// traced are the registers of an architecture that a trace has.
type traced struct {
	names    []string
	numbers  []int
	a, x, sp int // places of A, X and the stack pointer
}

var (
	x86Trace = traced{
		names: []string{"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "eflags"},
		numbers: []int{
			unicorn.X86_REG_RAX, unicorn.X86_REG_RBX, unicorn.X86_REG_RCX, unicorn.X86_REG_RDX,
			unicorn.X86_REG_RSI, unicorn.X86_REG_RDI, unicorn.X86_REG_RBP, unicorn.X86_REG_RSP,
			unicorn.X86_REG_R8, unicorn.X86_REG_R9, unicorn.X86_REG_R10, unicorn.X86_REG_R11,
			unicorn.X86_REG_R12, unicorn.X86_REG_R13, unicorn.X86_REG_R14, unicorn.X86_REG_R15, unicorn.X86_REG_EFLAGS,
		},
		a: 0, x: 1, sp: 7,
	}
	armTrace = traced{
		names: []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "cpsr"},
		numbers: []int{
			unicorn.ARM_REG_R0, unicorn.ARM_REG_R1, unicorn.ARM_REG_R2, unicorn.ARM_REG_R3,
			unicorn.ARM_REG_R4, unicorn.ARM_REG_R5, unicorn.ARM_REG_R6, unicorn.ARM_REG_R7,
			unicorn.ARM_REG_R8, unicorn.ARM_REG_R9, unicorn.ARM_REG_R10, unicorn.ARM_REG_R11,
			unicorn.ARM_REG_R12, unicorn.ARM_REG_SP, unicorn.ARM_REG_LR, unicorn.ARM_REG_CPSR,
		},
		a: 4, x: 5, sp: 13,
	}
)

func tracedOf(a kernelabi.Arch) *traced {
	if a == kernelabi.X86_64 {
		return &x86Trace
	}
	return &armTrace
}

// RegisterNames names the registers of a [Step].
func RegisterNames(a kernelabi.Arch) []string { return slices.Clone(tracedOf(a).names) }

// WithTrace makes a machine that records what it executes, for [Machine.Trace].
// It is many times slower.
func WithTrace() Option { return func(o *options) { o.trace = true } }

// traceInto makes an engine trace.
func (m *Machine) traceInto(c *uc.Config) {
	t := tracedOf(m.profile.Arch)
	c.Trace, c.TraceSP, c.TraceSteps = t.numbers, t.sp, maxSteps
	c.TraceStack, c.StackVA = m.stack, m.va.page(m.plan.stack)
}

// Trace runs the loaded image on one input for at most so many blocks, the
// machine's budget for 0, and returns its steps, those of helper routines left
// out. A trace ends after 1<<17 steps; the run does not.
func (m *Machine) Trace(input kernelabi.Input, blocks uint64) ([]Step, Result, error) {
	if !m.opts.trace {
		return nil, Result{}, errors.New("the machine was not made to trace: give New the option WithTrace")
	}
	if m.engine != nil && blocks > 0 {
		m.engine.SetBudget(min(blocks, m.opts.budget))
		defer func() {
			if m.engine != nil {
				m.engine.SetBudget(m.opts.budget)
			}
		}()
	}
	results, err := m.Run([]kernelabi.Input{input}, nil)
	if err != nil {
		return nil, Result{}, err
	}
	t, all := tracedOf(m.profile.Arch), m.engine.Steps()
	steps := make([]Step, 0, len(all))
	for i := range all {
		s := &all[i]
		if m.image.Contains(s.Addr) {
			steps = append(steps, Step{
				Offset: int(s.Addr - m.image.Base), A: uint32(s.Regs[t.a]), X: uint32(s.Regs[t.x]),
				Registers: s.Regs[:len(t.names)], Stack: s.Stack[:],
			})
		}
	}
	return steps, results[0], nil
}
