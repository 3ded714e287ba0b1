package emulator

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/emulator/internal/uc"
)

// describe says how the last run ended, for messages about the engine itself.
func (m *Machine) describe() string {
	e := m.engine
	return fmt.Sprintf("reason %d, exception %d, error %v, program counter %#x", e.Reason(), e.Interrupt(), e.Err(), e.PC())
}

// classify makes a Fault of how the engine stopped while an input was running.
func (m *Machine) classify(input int, expired bool) *Fault {
	e := m.engine
	f := &Fault{PC: e.PC(), Offset: -1}
	switch {
	case e.Reason() == uc.StoppedByBudget:
		f.Kind = Timeout
		f.Where = fmt.Sprintf("more than %d blocks executed", m.opts.budget)
	case e.Reason() == uc.StoppedByDriver:
		f.Kind = LostControl
		f.Where = "the code entered the harness, or overwrote its data"
	case e.Reason() == uc.StoppedByInterrupt:
		m.arch.exception(m, f, input)
	case errors.Is(e.Err(), uc.ErrUndefined):
		f.Kind = InvalidOpcode
		if bytes.Equal(m.code(f.PC, len(m.plan.filling)), m.plan.filling) {
			m.outside(f, f.PC, input)
		}
	case expired:
		f.Kind = Timeout
		f.Where = fmt.Sprintf("still running after %v", m.opts.timeout)
	case e.Err() != nil:
		f.Kind = LostControl
		f.Where = fmt.Sprintf("the processor left its memory: %v", e.Err())
	case !m.halted():
		f.Kind = Timeout
		f.Where = "stopped from outside"
	default:
		f.Kind = LostControl
		f.Where = "the processor halted"
	}
	m.locate(f)
	return f
}

// code returns up to n bytes at an address, as far as its page goes.
func (m *Machine) code(addr uint64, n int) []byte {
	pa, _, ok := m.tables.walk(addr)
	if !ok || pa >= uint64(len(m.mem.ram)) {
		return nil
	}
	return m.mem.bytes(pa, min(uint64(n), uint64(len(m.mem.ram))-pa))
}

// halted reports whether the instruction before the program counter is a halt.
func (m *Machine) halted() bool {
	halt := m.plan.halt
	return bytes.Equal(m.code(m.engine.PC()-uint64(len(halt)), len(halt)), halt)
}

// breakpoint completes the fault of one at an address.
func (m *Machine) breakpoint(f *Fault, addr uint64, input int) {
	f.Kind = Breakpoint
	m.outside(f, addr, input)
}

// outside says where code has run off to.
func (m *Machine) outside(f *Fault, addr uint64, input int) {
	if m.image.Contains(addr) {
		return
	}
	f.Where = m.name(addr, input)
	if m.imagePage.contains(addr) {
		f.Where = "outside the image, in what surrounds it"
	}
}

// pageFault completes the fault of an access that the page tables forbid.
func (m *Machine) pageFault(f *Fault, input int, access Access, addr uint64) {
	f.Access, f.Address = access, addr
	f.Where = m.name(addr, input)
	_, allowed, present := m.tables.walk(addr)
	switch {
	case !present:
		f.Kind = NotPresent
	case access == Fetch && allowed&executable == 0:
		f.Kind = NoExecute
	default:
		f.Kind = Protection
	}
}
