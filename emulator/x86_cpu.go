package emulator

import (
	"fmt"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"
	"golang.org/x/arch/x86/x86asm"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Control registers in long mode (Intel SDM volume 3, 2.5), and the order in
// which the engine wants them: CR3, EFER, CR4, CR0.
const (
	msrEFER = 0xc0000080
	efer    = 0xd01                   // SCE, LME, LMA, NXE
	cr4     = 0x50220 | 1<<20 | 1<<21 // PAE, OSFXSR (without it no 0F38 and VEX code), ..., SMEP, SMAP
	cr0     = 0x80010001              // PG, WP, PE
	rflags  = 0x2                     // interrupts off, AC clear

	// gsBase is where the per-CPU area would be.
	gsBase = 0xffff88003fc00000
)

// x86 exceptions that get a kind of their own.
const (
	excDivide     = 0
	excBreakpoint = 3
	excProtection = 13
	excPageFault  = 14
)

// Bits of a page fault's error code.
const (
	pfPresent = 1 << 0
	pfWrite   = 1 << 1
	pfFetch   = 1 << 4
)

// fillByte is int3.
const fillByte = 0xcc

// x86State are the registers to read after every run, by their place.
var x86State = []uc.Register{
	{Number: unicorn.X86_REG_RIP},
	x86CR2: {Number: unicorn.X86_REG_CR2},
	x86CR0: {Number: unicorn.X86_REG_CR0},
	x86CR3: {Number: unicorn.X86_REG_CR3},
	x86CR4: {Number: unicorn.X86_REG_CR4},
}

const (
	x86CR2 = iota + 1
	x86CR0
	x86CR3
	x86CR4
)

var x86Plan = plan{
	engine: uc.Config{
		Arch: unicorn.ARCH_X86, Mode: unicorn.MODE_64,
		Model: unicorn.CPU_X86_SKYLAKE_CLIENT, // the first with SMEP and SMAP
		State: x86State, Stack: unicorn.X86_REG_RSP, Reach: 8,
	},
	control: []int{x86CR0, x86CR3, x86CR4},

	// Within 2 GiB of the kernel's text.
	bases: []uint64{0xffffffffe8000000, 0xffffffffd8000000, 0xffffffffc8000000, 0xffffffff88000000, 0xffffc90000000000},
	valid: canonical, kind: "canonical", align: 1, longest: 32, pointer: 8,
	stack: 7, stackPages: 4, caller: 11, guard: 1,
	filling: []byte{fillByte}, halt: []byte(x86.Hlt), behind: 1,
}

// x86CPU is an x86_64 processor.
type x86CPU struct{}

func newX86(*kernelabi.Profile) (arch, error) { return x86CPU{}, nil }

func (x86CPU) plan() *plan { return &x86Plan }

func (x86CPU) newTables(mem *memory, frames int) (tables, error) { return newPageTable(mem, frames) }

// buildProcessorNumber maps the page with the processor number twice: behind gs
// for the code under test, and for the kernel's routines.
func (x86CPU) buildProcessorNumber(m *Machine) error {
	offset, ok := m.profile.Symbols[perCPUSymbol]
	va := uint64(gsBase) + uint64(int64(int32(offset)))
	mem, err := m.addRegion("the processor number", m.va.page(pageCPU), pageSize, readOnly)
	if err != nil {
		return err
	}
	fill(mem, poisonByte)
	if va&pageMask > pageSize-4 {
		return fmt.Errorf("symbol %s: the word at %#x lies on two pages", perCPUSymbol, offset)
	}
	m.cpu = mem[cpuWord(m)&pageMask:]
	if !ok {
		return nil
	}
	if offset != uint64(uint32(offset)) && offset != uint64(int64(int32(offset))) {
		return fmt.Errorf("symbol %s: %#x is no 32-bit offset", perCPUSymbol, offset)
	}
	alias := m.regions[len(m.regions)-1]
	alias.name, alias.va, alias.prot = "the per-CPU area", va&^uint64(pageMask), readOnly
	if err := m.overlap(alias.name, alias.va, alias.size); err != nil {
		return err
	}
	m.regions = append(m.regions, alias)
	return m.tables.apply(&alias)
}

// cpuWord is where the processor number is for the kernel's routines.
func cpuWord(m *Machine) uint64 {
	offset := m.profile.Symbols[perCPUSymbol]
	return m.va.page(pageCPU) + (gsBase+offset)&pageMask
}

func (x86CPU) routines(m *Machine, base uint64) (*routines, error) {
	return assembleRoutines(base, cpuWord(m), m.profile.Semantics.NegativeOffsetsReachFrags)
}

func (x86CPU) symbols(m *Machine) (map[uint64][]byte, []site, error) {
	return placeSymbols(m.profile.Symbols, m.routine)
}

func (x86CPU) driver(m *Machine, base uint64) (*driver, error) {
	return assembleDriver(base, m.va.page(pageControl), m.va.page(x86Plan.caller), m.va.page(pageProgram))
}

func (x86CPU) boot(m *Machine, e *uc.Engine) error {
	for _, set := range []struct {
		name  string
		reg   int
		value uint64
	}{
		{"cr3", unicorn.X86_REG_CR3, m.tables.root()},
		{"efer", -1, efer},
		{"cr4", unicorn.X86_REG_CR4, cr4},
		{"cr0", unicorn.X86_REG_CR0, cr0},
		{"gs", unicorn.X86_REG_GS_BASE, gsBase},
		{"rflags", unicorn.X86_REG_EFLAGS, rflags},
	} {
		var err error
		if set.reg < 0 {
			err = e.SetMSR(msrEFER, set.value)
		} else {
			err = e.SetReg(uc.Register{Number: set.reg}, set.value)
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set.name, err)
		}
	}
	return nil
}

// errorCode is a page fault's error code.
var errorCode = contextWord{at: -1}

func (x86CPU) calibrate(m *Machine) error {
	return errorCode.find(m, []probe{
		{[]byte{0x8b, 0x04, 0x25, 0, 0, 0, 0}, 0},                         // mov eax, [0]
		{[]byte{0x89, 0x04, 0x25, 0, 0, 0, 0}, pfWrite},                   // mov [0], eax
		{[]byte{0x89, 0x05, 0xfa, 0xff, 0xff, 0xff}, pfPresent | pfWrite}, // mov [rip-6], eax
		{[]byte{0x31, 0xc0, 0xff, 0xe0}, pfFetch},                         // xor eax, eax; jmp rax
		{[]byte{0xff, 0xe7}, pfFetch | pfPresent},                         // jmp rdi (the sk_buff)
		{[]byte{0x89, 0x04, 0x25, 0, 0, 0, 0}, pfWrite},                   // again, after others
		{[]byte{0x8b, 0x04, 0x25, 0, 0, 0, 0}, 0},
	})
}

func (x86CPU) exception(m *Machine, f *Fault, input int) {
	switch number := m.engine.Interrupt(); number {
	case excDivide:
		f.Kind = DivideError
	case excBreakpoint:
		m.breakpoint(f, f.PC-1, input) // RIP is behind the instruction
	case excProtection:
		f.Kind = GeneralProtection
	case excPageFault:
		addr := m.engine.State(x86CR2)
		m.pageFault(f, input, x86Access(m, addr), addr)
	default:
		f.Kind, f.Number = Exception, number
	}
}

// x86Access tells what the page fault was about.
func x86Access(m *Machine, addr uint64) Access {
	_, allowed, present := m.tables.walk(addr)
	switch code, known := errorCode.read(m); {
	case known && code&pfFetch != 0, !known && addr == m.engine.PC():
		return Fetch
	case known && code&pfWrite != 0, !known && present && allowed&user == 0:
		// Of pages that are there, reads fault on those of user space only.
		return Write
	case known:
		return Read
	}
	return ReadOrWrite
}

func (x86CPU) leftBehind(*Machine) string { return "" }

func (x86CPU) instruction(code []byte) int {
	inst, err := x86asm.Decode(code, 64)
	if err != nil {
		return 0
	}
	return inst.Len
}
