package emulator

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/kernelabi"
)

// Run executes the loaded image on every input and returns a Result for each,
// in results' memory if that is large enough: with a slice that is reused, a
// run without faults allocates nothing. An input that faults does not disturb
// the others. Errors: an input that is none (*kernelabi.SkbError inside), and
// failures of the engine; results are then nil.
func (m *Machine) Run(inputs []kernelabi.Input, results []Result) ([]Result, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	if m.image == nil {
		return nil, errEmpty
	}
	m.watch.start(m.engine)
	defer m.watch.stop()
	results = slices.Grow(results[:0], len(inputs))[:len(inputs)]
	for start := 0; start < len(inputs); {
		n, err := m.fill(inputs[start:])
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", start+n, err)
		}
		if err := m.window(results[start : start+n]); err != nil {
			return nil, err
		}
		start += n
	}
	return results, nil
}

// fill writes as many inputs into guest memory as there is room for and
// returns their number, or the index of one that is wrong.
func (m *Machine) fill(inputs []kernelabi.Input) (int, error) {
	m.packets.reset()
	n := min(len(inputs), windowSlots)
	cpu := uint32(0) // the same for all of a window
	put32(m.cpu, cpu)
	for i := 0; i < n; i++ {
		if i > 0 {
			if i += m.packets.again(inputs[i:n], i, cpu); i == n {
				break
			}
		}
		switch in := inputs[i].(type) {
		case *kernelabi.Skb:
			if in == nil {
				return i, fmt.Errorf("a nil %T is no input", in)
			}
			if err := in.Check(); err != nil {
				return i, err
			}
			if i == 0 {
				put32(m.cpu, in.CPU)
				cpu = in.CPU
			}
			if in.CPU != cpu || !m.packets.fits(in) {
				return i, nil
			}
			m.packets.write(i, in)
			m.point(i, m.packets.slots[i].skb)
		case *kernelabi.Syscall:
			if in == nil {
				return i, fmt.Errorf("a nil %T is no input", in)
			}
			addr, ok := m.packets.writeSyscall(i, in)
			if !ok {
				return i, nil
			}
			m.point(i, addr)
		default:
			return i, fmt.Errorf("cannot run on an input of type %T", in)
		}
	}
	return n, nil
}

// descriptor returns the address of a descriptor.
func (m *Machine) descriptor(i int) uint64 {
	return m.va.page(pageControl) + ctlDescriptors + uint64(i)*descSize
}

// aim makes the driver run inputs first to end-1 of the window.
func (m *Machine) aim(first, end int) {
	if m.end != end {
		put64(m.control[ctlDescriptors+m.end*descSize+descSkb:], m.packets.input(m.end))
		put64(m.control[ctlDescriptors+end*descSize+descSkb:], 0)
		m.end = end
	}
	put64(m.control[ctlCursor:], m.descriptor(first))
}

var errEngine = errors.New("the emulator engine does not run")

// window runs the inputs in guest memory.
func (m *Machine) window(results []Result) error {
	alone := 0 // inputs below this run one at a time
	for first := 0; first < len(results); {
		end := len(results)
		if first < alone {
			end = first + 1
		}
		m.keepRuns()
		next, intact, err := m.start(first, end, results)
		if err != nil {
			return err
		}
		if !intact && next > first+1 {
			// One of several inputs has overwritten the driver's data: find out
			// which.
			m.dropRuns()
			alone = next
			continue
		}
		first = next
	}
	return nil
}

// start runs inputs first to end-1 until one faults and returns the index of
// the first that was not run. The results are worth nothing if the driver's
// data is not intact, unless it was one input only.
func (m *Machine) start(first, end int, results []Result) (next int, intact bool, err error) {
	e := m.engine
	m.aim(first, end)
	m.watch.window()
	e.Run(m.driver.begin, first, end)

	next = e.Next()
	halted := e.Err() == nil && e.Reason() == uc.StoppedByNothing && e.PC() == m.driver.halted && !e.Running()
	if halted && next == end && m.cursor() == m.descriptor(next) {
		m.collect(first, next, results)
		// Code that changed the control registers has changed the rules for the
		// inputs after it as well: find out which input it was.
		if m.clean() {
			return next, true, nil
		}
		if end == first+1 {
			results[first].Value = 0
			results[first].Fault = &Fault{Kind: LostControl, Where: "the code changed the processor's control registers", PC: m.image.Base, Offset: 0}
		}
		return next, false, m.settle()
	}
	if next <= first {
		return 0, false, fmt.Errorf("%w: %s", errEngine, m.describe())
	}
	// Input bad did not return, or an input broke the driver.
	bad, running := next-1, e.Running()
	insns, blocks, flags := e.Unfinished()
	if running && blocks == 0 && e.PC()-m.va.page(pageDriver) < pageSize && bad > first {
		// It was the driver that faulted, on its way from one input to the next.
		bad, running = bad-1, false
	}
	intact = running && m.cursor() == m.descriptor(bad)
	m.collect(first, bad, results)
	results[bad] = Result{Insns: insns, Inexact: flags&uc.Inexact != 0, Fault: m.classify(bad, m.watch.expired.Load())}
	if running {
		m.correct(&results[bad])
	} else {
		f := results[bad].Fault // of the driver
		f.Kind, f.Access, f.Address = LostControl, NoAccess, 0
		f.Where = cmp.Or(m.arch.leftBehind(m), "the code overwrote the harness's data")
		results[bad].Inexact = true
	}
	m.repair()
	if !m.known() {
		return bad + 1, intact, m.restartEngine()
	}
	return bad + 1, intact, m.settle()
}

// settle makes the engine forget what code may have done to the processor:
// registers are restored before every run, but if the control registers were
// changed the TLB may hold anything.
func (m *Machine) settle() error {
	if m.clean() {
		return nil
	}
	m.packets.forget()
	return m.engine.FlushTLB()
}

// cursor returns the address of the descriptor that the driver has come to.
func (m *Machine) cursor() uint64 { return binary.LittleEndian.Uint64(m.control[ctlCursor:]) }

// known reports whether the engine stopped in a way after which it can go on.
func (m *Machine) known() bool {
	e := m.engine
	return e.Err() == nil || e.Reason() != 0 || errors.Is(e.Err(), uc.ErrUndefined)
}

// collect takes the results of inputs that returned.
func (m *Machine) collect(first, end int, results []Result) {
	counts, flags := m.engine.Counts(), m.engine.Flags()
	for i := first; i < end; i++ {
		d := m.control[ctlDescriptors+i*descSize:][:descSize:descSize]
		r := &results[i]
		*r = Result{
			Value:  binary.LittleEndian.Uint32(d[descValue:]),
			Broken: Broken(binary.LittleEndian.Uint32(d[descBroken:])),
			Insns:  counts[i],
		}
		if flags[i] == 0 && r.Broken == 0 {
			continue
		}
		r.Inexact = flags[i]&uc.Inexact != 0
		r.StackUnaligned = flags[i]&uc.UnalignedStack != 0
		if flags[i]&uc.BelowStack != 0 {
			r.Broken |= BrokenFrame
		}
		if flags[i]&uc.UnalignedData != 0 && m.plan.aligned {
			r.Broken |= BrokenAlignment
		}
		if r.Broken != 0 {
			put32(d[descBroken:], 0)
		}
	}
}

// repair puts the driver's data back, which code that went wild may have
// changed.
func (m *Machine) repair() {
	m.packets.forget()
	put64(m.control[ctlEntry:], m.image.Base)
	for i := range windowSlots + 1 {
		put64(m.control[ctlDescriptors+i*descSize+descSkb:], m.packets.input(i))
		put32(m.control[ctlDescriptors+i*descSize+descBroken:], 0)
	}
	put64(m.control[ctlDescriptors+m.end*descSize+descSkb:], 0)
}

// correct subtracts from a faulting input's count what its last block had left
// to do: blocks are counted as a whole when they are entered.
func (m *Machine) correct(r *Result) {
	// A block that the budget did not allow was not begun, and what came to the
	// driver or halted has executed all of the block before. Where it was stopped
	// otherwise is not known so well.
	if f := r.Fault; m.opts.trace || f.Kind == Timeout && m.engine.Reason() != uc.StoppedByBudget || f.Kind == LostControl && m.engine.Err() != nil {
		r.Inexact = true
		return
	}
	addr, size, insns := m.engine.LastBlock()
	rip := r.Fault.PC
	if rip-addr >= uint64(size) {
		return // a fetch from elsewhere, or behind an instruction that ended the block
	}
	left, ok := m.remaining(addr, size, insns, rip)
	if !ok {
		r.Inexact = true
		return
	}
	r.Insns -= uint64(left)
	m.cutRun(addr, uint64(size), rip, uint64(left))
}

// remaining counts the instructions of a block from rip on.
func (m *Machine) remaining(addr uint64, size, insns int, rip uint64) (int, bool) {
	if m.plan.align == 4 && size != 4*insns {
		return 0, false // Thumb
	}
	n, at, end := 0, rip, addr+uint64(size)
	for ; at < end; n++ {
		size := m.arch.instruction(m.code(at, int(m.plan.longest)))
		if size == 0 {
			break
		}
		at += uint64(size)
	}
	if at == end {
		return n, true
	}
	// There is an instruction that is not decoded here. The engine knows its own.
	// It must not be asked about blocks that ended for their size: from rip on
	// they would go on farther, possibly to where nothing is mapped.
	if insns >= 200 || size >= 2000 {
		return 0, false
	}
	s, n, err := m.engine.Translate(rip)
	return n, err == nil && rip+uint64(s) == end
}

// name says what lies at an address, for input i of the window.
func (m *Machine) name(addr uint64, i int) string {
	if addr < 1<<16 {
		return "a null pointer"
	}
	if m.imagePage.contains(addr) {
		if m.image.Contains(addr) {
			return m.imagePage.name
		}
		return "around the image"
	}
	p := &m.packets
	for _, set := range [][]extent{p.small[:p.smallUsed], p.large[:p.largeUsed]} {
		for n := range set {
			e := &set[n]
			size := uint64(len(e.mem))
			if addr-(e.va-pageSize) >= size+2*pageSize || e.slot != i {
				continue
			}
			switch {
			case addr < e.va:
				// The page in front of this part may be behind the one before.
				if n > 0 && set[n-1].slot == i {
					return "the guard page behind " + set[n-1].name(i)
				}
				return "the guard page in front of " + e.name(i)
			case addr-e.va < size:
				return e.name(i)
			}
			return "the guard page behind " + e.name(i)
		}
	}
	if name := nameRegion(addr, &m.imagePage); name != "" {
		return name
	}
	near := ""
	for n := range m.regions {
		r := &m.regions[n]
		switch name := nameRegion(addr, r); {
		case name == "":
		case r.contains(addr):
			return name
		case near == "":
			near = name
		}
	}
	return near
}

// nameRegion names an address in a region or its guard pages, "" elsewhere.
func nameRegion(addr uint64, r *region) string {
	switch {
	case r.contains(addr):
		return r.name
	case addr-r.end() < pageSize:
		return "the guard page behind " + r.name
	case addr-(r.va-pageSize) < pageSize:
		return "the guard page in front of " + r.name
	}
	return ""
}

// locate fills in where the instruction is.
func (m *Machine) locate(f *Fault) {
	rip := f.PC
	if f.Kind == Breakpoint {
		rip -= m.plan.behind
	}
	if m.image != nil && m.image.Contains(rip) {
		f.Offset = int(rip - m.image.Base)
		return
	}
	f.Symbol = m.symbol(rip)
}

// symbol names the routine at an address, "" if there is none.
func (m *Machine) symbol(addr uint64) string {
	for _, s := range m.sites {
		if addr-s.addr < max(s.room, 1) {
			return s.name
		}
	}
	best, name := uint64(0), ""
	start := m.va.page(pageRoutines)
	if addr-start >= uint64(len(m.routine.code)) {
		return ""
	}
	for label, at := range m.routine.labels {
		if at <= addr && (at > best || at == best && label < name) {
			best, name = at, label
		}
	}
	return name
}
