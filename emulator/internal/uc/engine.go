package uc

// #include <stdlib.h>
// #include "shim.h"
// #cgo noescape kuc_run
// #cgo nocallback kuc_run
// #cgo noescape kuc_flush_tlb
// #cgo nocallback kuc_flush_tlb
// #cgo noescape kuc_forget
// #cgo nocallback kuc_forget
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"
)

// Reasons of [Engine.Reason]: which hook stopped a run.
const (
	StoppedByNothing   = C.KUC_NONE      // the guest halted, or the engine failed
	StoppedByInterrupt = C.KUC_INTERRUPT // an exception; Interrupt is its number
	StoppedByBudget    = C.KUC_BUDGET    // too many blocks for one input
	StoppedByDriver    = C.KUC_DRIVER    // the code under test entered the driver
)

// MaxRegions is the number of code regions an engine can count.
const MaxRegions = C.KUC_REGIONS

// Config is what an engine is made of.
type Config struct {
	Arch, Mode, Model int    // as the binding numbers them
	RAM               []byte // memory outside the Go heap; physical address 0 is its first byte
	BufferBytes       uint32 // size of the translation buffer
	Inputs            int    // inputs that one run may have

	// State are the registers to read after every run, at most 8. The first is
	// the program counter.
	State []Register

	// Trace, if not nil, are the registers to record before every instruction
	// of the image, at most MaxTraced, for at most TraceSteps instructions. With
	// them come the words that the Stack register, the TraceSP-th of Trace,
	// points to in TraceStack, memory outside the Go heap that the guest has at
	// StackVA.
	Trace      []int
	TraceSP    int
	TraceStack []byte
	TraceSteps int

	// CheckAccesses makes the engine note unaligned accesses; calls of the
	// routines at Calls with a stack pointer, register Stack, that is no
	// multiple of 8; and writes to the stack more than Reach bytes below that
	// register. It is many times slower.
	CheckAccesses                bool
	Stack                        int
	Calls                        []uint64
	StackPA, StackVA, StackBytes uint64
	Reach                        uint64
}

// Register is a register of the processor: its number in the binding, or the
// coordinates of an ARM coprocessor register (of p15).
type Register struct {
	Number int

	Coprocessor          bool
	CRn, CRm, Opc1, Opc2 uint8
}

func (r Register) state(value uint64) C.struct_kuc_state {
	return C.struct_kuc_state{
		cp: 15, crn: C.uint32_t(r.CRn), crm: C.uint32_t(r.CRm), opc1: C.uint32_t(r.Opc1), opc2: C.uint32_t(r.Opc2),
		value: C.uint64_t(value),
	}
}

func (r Register) number() int {
	if r.Coprocessor {
		return unicorn.ARM_REG_CP_REG
	}
	return r.Number
}

// Flags of [Engine.Flags].
const (
	Inexact        = C.KUC_INEXACT   // some instructions could not be counted
	UnalignedData  = C.KUC_UNALIGNED // an access was not aligned to its size
	UnalignedStack = C.KUC_STACK     // a routine was called with an unaligned stack
	BelowStack     = C.KUC_BELOW     // a write below the stack pointer
)

// Engine is one Unicorn engine with its hooks. It belongs to one goroutine;
// only Stop may be called from others.
type Engine struct {
	u      unicorn.Unicorn
	k      *C.struct_kuc
	tables []unsafe.Pointer
}

// Version returns the API version of the library; 2.1.4 has 2, 1.
func Version() (major, minor int) { return unicorn.Version() }

// New makes an engine. Registers are to be set next, then Save called; hooks
// are in place already, because Unicorn does not call hooks that come after
// the code was translated.
func New(c Config) (*Engine, error) {
	u, err := unicorn.NewUnicorn(c.Arch, c.Mode)
	if err != nil {
		return nil, fmt.Errorf("no emulator engine: %w", err)
	}
	e := &Engine{u: u}
	fail := func(what string, err error) (*Engine, error) {
		e.Close()
		return nil, fmt.Errorf("emulator engine: %s: %w", what, err)
	}
	if err := u.SetCPUModel(c.Model); err != nil {
		return fail("set the processor model", err)
	}
	handle := unsafe.Pointer(u.Handle())
	if err := check(C.kuc_set_buffer(handle, C.uint32_t(c.BufferBytes))); err != nil {
		return fail("set the size of the translation buffer", err)
	}
	if err := u.MemMapPtr(0, uint64(len(c.RAM)), unicorn.PROT_ALL, unsafe.Pointer(unsafe.SliceData(c.RAM))); err != nil {
		return fail("map memory", err)
	}
	if e.k = C.kuc_new(handle, C.uint32_t(c.Inputs)); e.k == nil {
		return fail("state", errors.New("out of memory"))
	}
	e.k.ram = C.uint64_t(len(c.RAM))
	if err := check(C.kuc_hook(e.k)); err != nil {
		return fail("add hooks", err)
	}
	if len(c.State) > C.KUC_STATES {
		return fail("state", fmt.Errorf("%d registers, at most %d can be read", len(c.State), C.KUC_STATES))
	}
	for i, r := range c.State {
		e.k.state[i], e.k.state_reg[i] = r.state(0), C.int(r.number())
	}
	e.k.states = C.uint32_t(len(c.State))
	if c.CheckAccesses {
		if err := check(C.kuc_check(e.k, C.int(c.Stack), C.uint64_t(c.StackPA), C.uint64_t(c.StackVA), C.uint64_t(c.StackBytes), C.uint64_t(c.Reach))); err != nil {
			return fail("add the hook of memory accesses", err)
		}
		for _, addr := range c.Calls {
			if err := check(C.kuc_check_call(e.k, C.uint64_t(addr))); err != nil {
				return fail("add the hook of a routine", err)
			}
		}
	}
	if c.Trace != nil {
		if err := e.trace(&c); err != nil {
			return fail("add the trace hook", err)
		}
	}
	return e, nil
}

// trace adds the hook that records what is executed.
func (e *Engine) trace(c *Config) error {
	if len(c.Trace) > MaxTraced {
		return fmt.Errorf("%d registers, at most %d can be traced", len(c.Trace), MaxTraced)
	}
	var regs [MaxTraced]C.int
	for i, r := range c.Trace {
		regs[i] = C.int(r)
	}
	e.k.trace_sp = C.int(c.TraceSP)
	e.k.trace_stack, e.k.trace_len = (*C.uint8_t)(unsafe.SliceData(c.TraceStack)), C.uint64_t(len(c.TraceStack))
	e.k.trace_va = C.uint64_t(c.StackVA)
	return check(C.kuc_trace(e.k, &regs[0], C.uint32_t(len(c.Trace)), C.uint32_t(c.TraceSteps)))
}

func check(err C.int) error {
	if err != 0 {
		return unicorn.UcError(err)
	}
	return nil
}

// Close frees the engine. It may be called twice.
func (e *Engine) Close() {
	if e.u != nil {
		e.u.Close()
		e.u = nil
	}
	if e.k != nil {
		C.kuc_free(e.k)
		e.k = nil
	}
	for _, t := range e.tables {
		C.free(t)
	}
	e.tables = nil
	closed()
}

// Trim gives memory back that engines which are closed have left.
func Trim() { C.kuc_trim() }

// closed is called behind Close.
var closed = func() {}

// SetReg writes a register.
func (e *Engine) SetReg(r Register, value uint64) error {
	if !r.Coprocessor {
		return e.u.RegWrite(r.Number, value)
	}
	s := r.state(value)
	return check(C.kuc_set_coprocessor(e.k, &s))
}

// SetMSR writes an x86 model-specific register.
func (e *Engine) SetMSR(msr, value uint64) error { return e.u.RegWriteX86Msr(msr, value) }

// Save makes the present registers those that every run starts with.
func (e *Engine) Save() error { return check(C.kuc_save(e.k)) }

// SetDriver tells where the batch driver is, none of which is counted: the
// block that starts the first input, the one that inputs return to and that
// starts the next, and the one that runs instead of the next.
func (e *Engine) SetDriver(base, size, first, leave, pause uint64) {
	e.k.driver, e.k.driver_len = C.uint64_t(base), C.uint64_t(size)
	e.k.first, e.k.leave, e.k.pause = C.uint64_t(first), C.uint64_t(leave), C.uint64_t(pause)
}

// SetBudget sets the number of blocks that one input may execute.
func (e *Engine) SetBudget(blocks uint64) { e.k.budget = C.uint64_t(blocks) }

// SetRegion defines code region i, whole pages in which instructions are counted. Region 0
// is the image and may be set again for every image; room is the largest size
// it will ever have.
func (e *Engine) SetRegion(i int, base, size, room uint64) error {
	if i >= MaxRegions || size > room {
		return fmt.Errorf("code region %d of %d bytes: no room", i, size)
	}
	r := &e.k.region[i]
	if r.table == nil {
		t := C.calloc(C.size_t(room), 8)
		if t == nil {
			return errors.New("no memory for the table of blocks")
		}
		e.tables = append(e.tables, t)
		r.table = (*C.uint64_t)(t)
	}
	r.base, r.len = C.uint64_t(base), C.uint64_t(size)
	C.kuc_forget_blocks(e.k)
	e.k.regions = max(e.k.regions, C.uint32_t(i+1))
	return nil
}

// Edges is the length of the map of edges.
const Edges = C.KUC_EDGES

// Cover makes the engine note in edges which of the code's blocks ran after
// which. What is new there comes into found as well, the n-th at n modulo Edges;
// n goes on from before. Both have the length Edges and lie outside the Go heap.
// program is the largest number of instructions that a program has.
func (e *Engine) Cover(edges []byte, found []uint32, before uint64, program int) error {
	e.k.edges = C.uint64_t(before)
	return check(C.kuc_cover(e.k, (*C.uint8_t)(unsafe.SliceData(edges)), (*C.uint32_t)(unsafe.SliceData(found)), C.uint32_t(program)))
}

// NewEdges is the number of edges that [Engine.Cover]'s map had not, with those
// before.
func (e *Engine) NewEdges() uint64 { return uint64(e.k.edges) }

// SetRules tells what the blocks of the image in region 0, at start, are known
// by: the rules of the instructions of its program, and pcs, the offsets of
// their code and the end of the last. With none it is their offsets alone.
func (e *Engine) SetRules(start uint64, pcs []int, rules []uint32) {
	r := &e.k.rules
	r.start, r.n = C.uint64_t(start), 0
	if len(rules) == 0 {
		return
	}
	r.n = C.uint32_t(len(rules))
	copy(unsafe.Slice((*uint32)(unsafe.Pointer(r.rules)), len(rules)), rules)
	to := unsafe.Slice((*uint32)(unsafe.Pointer(r.pcs)), len(rules)+1)
	for i := range to {
		to[i] = uint32(pcs[i])
	}
}

// CountRuns makes the engine count, by offset in region 0 of at most so many
// bytes, how often the block there ran, and the instructions that were executed
// outside of the region from there on until the next block in it. Both slices
// are in C memory, and Site is the offset of the block that ran last.
func (e *Engine) CountRuns(room int) (runs, called []uint64, err error) {
	t := C.calloc(C.size_t(room), 16)
	if t == nil {
		return nil, nil, errors.New("no memory for counts")
	}
	e.tables = append(e.tables, t)
	both := unsafe.Slice((*uint64)(t), 2*room)
	e.k.runs, e.k.called = (*C.uint64_t)(&both[0]), (*C.uint64_t)(&both[room])
	e.k.watch = 1
	return both[:room:room], both[room:], nil
}

// Site is the offset in region 0 of the block there that ran last.
func (e *Engine) Site() uint64 { return uint64(e.k.site) }

// Block is what is known of the block at an offset of region 0.
func (e *Engine) Block(offset int) (size, insns int) {
	r := &e.k.region[0]
	return unpack(unsafe.Slice(r.table, int(r.len))[offset])
}

// Run restores the saved registers and executes from begin until the guest
// halts or a hook stops it. The driver runs inputs first to limit-1 of the
// window.
func (e *Engine) Run(begin uint64, first, limit int) {
	e.k.next, e.k.limit = C.uint32_t(first), C.uint32_t(limit)
	C.kuc_run(e.k, C.uint64_t(begin))
}

// Stop ends the run that goes on in another goroutine. Before a run it has no
// effect.
func (e *Engine) Stop() { C.kuc_stop(unsafe.Pointer(e.u.Handle())) }

// Reason tells which hook stopped the last run.
func (e *Engine) Reason() int { return int(e.k.reason) }

// Interrupt is the number of the exception that stopped the last run.
func (e *Engine) Interrupt() int { return int(e.k.interrupt) }

// Err is the engine's own error of the last run; ErrUndefined means that an
// instruction does not exist on this processor.
func (e *Engine) Err() error { return check(C.int(e.k.error)) }

// ErrUndefined is the error of a run that met an undefined instruction.
var ErrUndefined error = unicorn.UcError(unicorn.ERR_INSN_INVALID)

// Next is the number of inputs the driver has started, Running whether the
// last of them had not returned when the run ended.
func (e *Engine) Next() int     { return int(e.k.next) }
func (e *Engine) Running() bool { return e.k.running != 0 }

// Counts gives the number of instructions that each input of the window
// executed, in C memory.
func (e *Engine) Counts() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(e.k.insns)), int(e.k.inputs))
}

// Flags tells what else is known about each input, a set of [Inexact] and the
// like, in C memory.
func (e *Engine) Flags() []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(e.k.flags)), int(e.k.inputs))
}

// Unfinished is the count of the input that was running when the run ended,
// the last block it entered counted whole.
func (e *Engine) Unfinished() (insns, blocks uint64, flags uint8) {
	return uint64(C.kuc_count(e.k)), uint64(C.kuc_blocks(e.k)), uint8(e.k.flag)
}

// LastBlock is the block that the code under test entered last.
func (e *Engine) LastBlock() (addr uint64, size, insns int) {
	size, insns = unpack(C.kuc_last_block(e.k))
	return uint64(e.k.block), size, insns
}

// unpack is what the table of a region says of a block.
func unpack(entry C.uint64_t) (size, insns int) {
	return int(entry >> 16 & 0xffff), int(entry & 0xffff)
}

// Translate returns size and number of instructions of the block at addr,
// which must be mapped executable up to the end of the block.
func (e *Engine) Translate(addr uint64) (size, insns int, err error) {
	var n, s C.uint32_t
	err = check(C.kuc_translate(e.k, C.uint64_t(addr), &n, &s))
	return int(s), int(n), err
}

// PC is the program counter after the last run, State the i-th register of
// [Config.State].
func (e *Engine) PC() uint64         { return uint64(e.k.state[0].value) }
func (e *Engine) State(i int) uint64 { return uint64(e.k.state[i].value) }

// Translated is the number of blocks that were translated so far.
func (e *Engine) Translated() uint64 { return uint64(e.k.translated) }

// Forget drops the translations of code from lo to hi, which must be mapped, to
// adjoining frames; where nothing is mapped, it does nothing.
func (e *Engine) Forget(lo, hi uint64) error {
	return check(C.kuc_forget(e.k, C.uint64_t(lo), C.uint64_t(hi)))
}

// FlushTLB makes changes of page tables visible.
func (e *Engine) FlushTLB() error { return check(C.kuc_flush_tlb(e.k)) }

// Words gives the processor state as raw words, valid until the next run. It
// holds what has no register, such as a page fault's error code; where, the
// caller has to find out by experiment.
func (e *Engine) Words() []uint32 {
	var p *C.uint32_t
	n := C.kuc_context_words(e.k, &p)
	return unsafe.Slice((*uint32)(unsafe.Pointer(p)), int(n))
}

// What a [Step] has room for.
const (
	MaxTraced  = C.KUC_TRACED
	StackWords = C.KUC_STACK_WORDS
)

// A Step is a struct kuc_step.
var _ [unsafe.Sizeof(Step{})]byte = [C.sizeof_struct_kuc_step]byte{}

// Step is an instruction of the image that was about to be executed, with the
// registers of [Config.Trace] and the stack from its pointer up as they were.
type Step struct {
	Addr  uint64
	Regs  [MaxTraced]uint64
	Stack [StackWords]uint32
}

// Steps is the trace of the input that ran last, in C memory: it is valid until
// the next run.
func (e *Engine) Steps() []Step {
	return unsafe.Slice((*Step)(unsafe.Pointer(e.k.step)), int(e.k.steps))
}
