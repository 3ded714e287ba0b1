package emulator

import (
	"fmt"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/kernelabi"
)

// arch is what a machine leaves to its architecture: registers, page tables,
// exceptions, the code of the driver and of the kernel's routines. A value
// belongs to one machine.
type arch interface {
	// plan returns what of the architecture is data.
	plan() *plan

	// newTables makes empty page tables of at most so many frames.
	newTables(mem *memory, frames int) (tables, error)

	// buildProcessorNumber sets m.cpu to where code finds its processor number.
	buildProcessorNumber(m *Machine) error

	// routines assembles the kernel's routines for an address.
	routines(m *Machine, base uint64) (*routines, error)

	// symbols puts what the profile's symbols stand for at their addresses.
	// The result maps page addresses to contents.
	symbols(m *Machine) (map[uint64][]byte, []site, error)

	// driver assembles the batch driver for an address.
	driver(m *Machine, base uint64) (*driver, error)

	// boot sets the registers of a new engine.
	boot(m *Machine, e *uc.Engine) error

	// calibrate finds by experiment what the engine has no register for.
	calibrate(m *Machine) error

	// exception completes f when an exception stopped the engine.
	exception(m *Machine, f *Fault, input int)

	// leftBehind says what code has done to the processor so that the driver,
	// to which it returned, could not go on; "" if nothing.
	leftBehind(m *Machine) string

	// instruction is the length of the first instruction of code, 0 if there is
	// none.
	instruction(code []byte) int
}

// plan is an architecture as data.
type plan struct {
	engine uc.Config // architecture, processor model, registers to read and to trace
	// control are the members of engine.State that no run may change: with
	// other values the processor's TLB may hold anything.
	control []int

	bases   []uint64               // where the harness's own pages may go
	valid   func(addr uint64) bool // whether it can be an address
	kind    string                 // what such addresses are called
	align   uint64                 // of instructions
	aligned bool                   // the processor takes aligned accesses only
	longest uint64                 // bytes of the longest instruction, rounded up
	pointer int                    // bytes of an address in a struct

	// Pages of the harness: the stack, and behind it the caller's frames, which
	// the code under test may read.
	stack, stackPages, caller int

	// guard is the number of guard pages between parts of packets: such that
	// the ends of those that a window needs at least have each a slot of the
	// engine's TLB of 256 to themselves.
	guard int

	filling []byte // surrounds code, so that running off it is noticed
	halt    []byte // what stops the processor
	// behind is how far the program counter is behind a breakpoint.
	behind uint64
}

// tables are page tables in guest memory.
type tables interface {
	root() uint64 // physical address
	apply(*region) error
	remove(*region)
	reset()
	// walk returns the physical address of a mapped one, and what the processor
	// allows there.
	walk(va uint64) (pa uint64, p prot, ok bool)
}

// archs are the emulated architectures.
var archs = map[kernelabi.Arch]func(*kernelabi.Profile) (arch, error){
	kernelabi.X86_64: newX86,
	kernelabi.ARMv5:  newARM,
	kernelabi.ARMv6:  newARM,
	kernelabi.ARMv7:  newARM,
}

func newArch(p *kernelabi.Profile) (arch, error) {
	a, ok := archs[p.Arch]
	if !ok {
		return nil, fmt.Errorf("architecture %s is not emulated", p.Arch)
	}
	return a(p)
}
