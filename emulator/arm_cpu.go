package emulator

import (
	"encoding/binary"
	"fmt"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// What coprocessor registers (ARM Architecture Reference Manual, B4.1) and CPSR
// hold when runs start.
const (
	armSCTLRv5 = 0x00890079 // MMU on, XP: page tables of ARMv6; the rest as after a reset
	armSCTLRv6 = 0x00c50079 // MMU on, XP, unaligned accesses (U)
	armSCTLRv7 = 0x00c50079 // MMU on
	armDACR    = 1          // domain 0: check permissions

	armEBit  = 0x200
	armThumb = 0x20
	// The CPSR is supervisor mode with interrupts masked, of ARMv6
	// and ARMv7 also asynchronous aborts.
	armCPSRv5 = 0xd3
	armCPSRv7 = 0x1d3
)

// ARM exceptions as the engine numbers them.
const (
	armPrefetchAbort = 3
	armDataAbort     = 4
	armBreakpoint    = 7
)

// The bit of the syndrome that tells a write from a read. The engine keeps it on
// all processors, also on those that have no such register.
const armSyndromeWrite = 1 << 6

// Places of the registers to read after every run.
const (
	armStateCPSR = iota + 1
	armStateSyndrome
	armStateSCTLR
	armStateTTBR
	armStateDACR
)

// armWFI stops the processor.
var (
	armWFIv5 = armCode(func(b *arm.Buf) { b.Mcr(arm.AL, 15, 0, arm.R0, 7, 0, 4) })
	armWFIv7 = armCode(func(b *arm.Buf) { b.Bare(arm.Wfi) })
)

// armModel is a processor.
type armModel struct {
	cpu         int
	aligned     bool // takes aligned accesses only
	sctlr, cpsr uint64
	halt        []byte
}

var (
	arm926    = armModel{cpu: unicorn.CPU_ARM_926, aligned: true, sctlr: armSCTLRv5, cpsr: armCPSRv5, halt: armWFIv5}
	arm1176   = armModel{cpu: unicorn.CPU_ARM_1176, sctlr: armSCTLRv6, cpsr: armCPSRv7, halt: armWFIv5}
	cortexA9  = armModel{cpu: unicorn.CPU_ARM_CORTEX_A9, sctlr: armSCTLRv7, cpsr: armCPSRv7, halt: armWFIv7}
	cortexA15 = armModel{cpu: unicorn.CPU_ARM_CORTEX_A15, sctlr: armSCTLRv7, cpsr: armCPSRv7, halt: armWFIv7}
)

// armCPU is a processor of 32-bit ARM.
type armCPU struct {
	armModel
	data plan
}

// newARM chooses the processor that has what the profile's code may use and no
// more: ARM926 for ARMv5, ARM1176 for ARMv6, Cortex-A9 for ARMv7, Cortex-A15 if
// there is to be a divide instruction.
func newARM(p *kernelabi.Profile) (arch, error) {
	model := arm926
	switch {
	case p.Arch == kernelabi.ARMv7 && p.Features.Idiva:
		model = cortexA15
	case p.Arch == kernelabi.ARMv7:
		model = cortexA9
	case p.Arch == kernelabi.ARMv6:
		model = arm1176
	}
	return &armCPU{armModel: model, data: model.newPlan()}, nil
}

func (c *armCPU) plan() *plan { return &c.data }

// armRegister is a coprocessor register. Of banked ones it is that of the
// non-secure world, which is what the engine's processors use.
func armRegister(crn uint8) uc.Register { return uc.Register{Coprocessor: true, CRn: crn} }

func (c *armModel) newPlan() plan {
	return plan{
		engine: uc.Config{
			Arch: unicorn.ARCH_ARM, Mode: unicorn.MODE_ARM, Model: c.cpu,
			State: []uc.Register{
				{Number: unicorn.ARM_REG_PC},
				armStateCPSR:     {Number: unicorn.ARM_REG_CPSR},
				armStateSyndrome: {Number: unicorn.ARM_REG_ESR},
				armStateSCTLR:    armRegister(1),
				armStateTTBR:     armRegister(2),
				armStateDACR:     armRegister(3),
			},
			Stack: unicorn.ARM_REG_SP, Reach: 16 * 4, // a push of all registers
		},
		control: []int{armStateSCTLR, armStateTTBR, armStateDACR},

		// Lowmem, on multiples of a stack's size. Modules are at 0xbf000000.
		bases: []uint64{0xc8000000, 0xd8000000, 0xe8000000, 0x98000000, 0x58000000},
		valid: is32Bit, kind: "32-bit", align: 4, aligned: c.aligned, longest: 32, pointer: 4,

		// A stack is 8 KiB, and code finds its bottom, struct thread_info, by
		// clearing the low bits of sp. Its upper half is the callers'.
		stack: 8, stackPages: 1, caller: 9, guard: 2, // the engine has pages of 1 KiB
		filling: armCode(func(b *arm.Buf) { b.Bare(arm.Udf) }), // as Linux does since 3.18 or so
		halt:    c.halt,
	}
}

func (c *armCPU) newTables(mem *memory, frames int) (tables, error) {
	return newARMTables(mem, frames)
}

// buildProcessorNumber puts it into struct thread_info, or where only the
// kernel's routines find it.
func (c *armCPU) buildProcessorNumber(m *Machine) error {
	off, ok := m.profile.Layout[kernelabi.ThreadInfoCPU]
	if !ok {
		m.cpu = m.control[ctlCPU:]
		return nil
	}
	if off < 0 || off > pageSize/2 {
		return fmt.Errorf("layout: %s is at %d, want 0..%d", kernelabi.ThreadInfoCPU, off, pageSize/2)
	}
	m.cpu = m.stack[off:]
	return nil
}

// cpuWord is the address of the processor number.
func (c *armCPU) cpuWord(m *Machine) uint32 {
	if off, ok := m.profile.Layout[kernelabi.ThreadInfoCPU]; ok {
		return uint32(m.va.page(c.data.stack)) + uint32(off)
	}
	return uint32(m.va.page(pageControl)) + ctlCPU
}

func (c *armCPU) routines(m *Machine, base uint64) (*routines, error) {
	return assembleARMRoutines(uint32(base), uint32(m.va.page(pageControl)), c.cpuWord(m), m.profile)
}

func (c *armCPU) symbols(m *Machine) (map[uint64][]byte, []site, error) {
	return placeARMSymbols(m.profile.Symbols, &c.data, m.routine)
}

func (c *armCPU) driver(m *Machine, base uint64) (*driver, error) {
	return assembleARMDriver(uint32(base), armDriverPlan{
		control: uint32(m.va.page(pageControl)), stack: uint32(m.va.page(c.data.caller)), program: uint32(m.va.page(pageProgram)),
		cpsr: uint32(c.cpsr), halt: c.halt,
	})
}

func (c *armCPU) boot(m *Machine, e *uc.Engine) error {
	for _, set := range []struct {
		name  string
		reg   uc.Register
		value uint64
	}{
		{"ttbr0", armRegister(2), m.tables.root()},
		{"dacr", armRegister(3), armDACR},
		{"sctlr", armRegister(1), c.sctlr},
		{"cpsr", uc.Register{Number: unicorn.ARM_REG_CPSR}, c.cpsr},
	} {
		if err := e.SetReg(set.reg, set.value); err != nil {
			return fmt.Errorf("set %s: %w", set.name, err)
		}
	}
	return nil
}

// faultAddress is the address of an abort.
var faultAddress = contextWord{at: -1}

func (c *armCPU) calibrate(m *Machine) error {
	// No register may hold the address, or it is found there.
	access := func(access func(*arm.Asm, arm.Mem), addr uint64) probe {
		return probe{armAsm(func(a *arm.Asm) {
			a.Const(arm.AL, arm.R1, uint32(addr)-16)
			access(a, arm.At(arm.R1, 16))
		}), uint32(addr)}
	}
	load := func(a *arm.Asm, m arm.Mem) { a.Ldr(arm.AL, arm.R0, m) }
	store := func(a *arm.Asm, m arm.Mem) { a.Str(arm.AL, arm.R0, m) }
	return faultAddress.find(m, []probe{
		access(load, 0x1230), access(store, 0x5674), access(store, m.va.page(pageProgram)+8),
		access(load, 0x90abcd04), access(store, m.va.page(pageSlots)), access(load, 0x1230),
	})
}

func (c *armCPU) exception(m *Machine, f *Fault, input int) {
	switch number := m.engine.Interrupt(); number {
	case armBreakpoint:
		m.breakpoint(f, f.PC, input)
	case armPrefetchAbort:
		m.pageFault(f, input, Fetch, f.PC)
	case armDataAbort:
		access := Read
		if m.engine.State(armStateSyndrome)&armSyndromeWrite != 0 {
			access = Write
		}
		if addr, known := faultAddress.read(m); known {
			m.pageFault(f, input, access, uint64(addr))
		} else {
			f.Kind, f.Access, f.Where = Protection, access, "the engine does not tell where"
		}
	default:
		f.Kind, f.Number = Exception, number
	}
}

// leftBehind says what code has done to the processor so that the driver cannot
// go on.
func (c *armCPU) leftBehind(m *Machine) string {
	switch cpsr := m.engine.State(armStateCPSR); {
	case cpsr&armEBit != 0:
		return "the code returned with the processor in big-endian mode"
	case cpsr&armThumb != 0:
		return "the code returned with the processor in Thumb state"
	}
	return ""
}

// instruction: what a block in Thumb state had left to do is not known.
func (c *armCPU) instruction(code []byte) int {
	if len(code) < 4 {
		return 0
	}
	return 4
}

// armCode assembles a few instructions.
func armCode(emit func(b *arm.Buf)) []byte {
	var b arm.Buf
	emit(&b)
	return b
}

// armAsm assembles code with constants that runs anywhere.
func armAsm(emit func(a *arm.Asm)) []byte {
	var a arm.Asm
	emit(&a)
	code, err := a.Bytes(0)
	if err != nil {
		panic(err)
	}
	return code
}

func armLoad(addr uint64) []byte {
	return armAsm(func(a *arm.Asm) {
		a.Const(arm.AL, arm.R1, uint32(addr))
		a.Ldr(arm.AL, arm.R0, arm.At(arm.R1, 0))
	})
}

func armStore(addr uint64) []byte {
	return armAsm(func(a *arm.Asm) {
		a.Const(arm.AL, arm.R1, uint32(addr))
		a.Str(arm.AL, arm.R0, arm.At(arm.R1, 0))
	})
}

func armJumpTo(addr uint64) []byte {
	return armAsm(func(a *arm.Asm) {
		a.Const(arm.AL, arm.R1, uint32(addr))
		a.Bx(arm.AL, arm.R1)
	})
}

// armReturning is code that returns a value.
func armReturning(value uint32) []byte {
	return armAsm(func(a *arm.Asm) {
		a.Const(arm.AL, arm.R0, value)
		a.Bx(arm.AL, arm.LR)
	})
}

// armWord returns the instruction in code, 0 if there is none.
func armWord(code []byte) uint32 {
	if len(code) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(code)
}
