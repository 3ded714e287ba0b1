package emulator

import (
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/kernelabi"
)

// addresses is the map of the harness's own regions, as page offsets from a
// base. The pages that every input touches fall on different slots of the
// engine's TLB, which are the low 8 bits.
type addresses struct{ base uint64 }

// Pages below 32 that are missing here are the stack's, see [plan]. A mistaken
// access 1 or 2 MiB in front of the first packets, where SKF_NET_OFF and
// SKF_LL_OFF would be, meets nothing.
const (
	pageDriver   = 1
	pageControl  = 2
	pageRoutines = 4 // 2 pages
	pageCPU      = 13
	pageProgram  = 15
	pageUser     = 17
	pageSlots    = 32
	pageFrags    = 376
	pageSmall    = 384
	pageLarge    = pageSmall + smallParts*(1+maxGuard)
	maxGuard     = 2
	pageEnd      = pageLarge + largeParts*(largePages+maxGuard) + 1
)

func (a addresses) page(n int) uint64 { return a.base + uint64(n)*pageSize }

// findBase chooses where the harness goes: away from all symbols and from the
// place for images.
func findBase(p *kernelabi.Profile, bases []uint64) (addresses, error) {
	const away = 64 << 20
next:
	for _, base := range bases {
		near := func(addr uint64) bool { return addr-(base-away) < 2*away+pageEnd*pageSize }
		if near(p.Base) {
			continue
		}
		for name, addr := range p.Symbols {
			if name != perCPUSymbol && near(addr) {
				continue next
			}
		}
		return addresses{base}, nil
	}
	return addresses{}, errors.New("symbols are everywhere: there is no room for the emulator's own pages")
}

// build makes everything but the image.
func (m *Machine) build() error {
	var err error
	if m.mem, err = newMemory(tableFrames + arenaFrames + coverageFrames + 2560); err != nil {
		return err
	}
	if m.tables, err = m.arch.newTables(m.mem, tableFrames); err != nil {
		return err
	}
	if m.arena, err = m.mem.take(arenaFrames); err != nil {
		return err
	}
	fillCode(m.mem.bytes(m.arena, arenaFrames*pageSize), 0, m.plan.filling)
	if m.va, err = findBase(m.profile, m.plan.bases); err != nil {
		return err
	}
	if err := m.buildData(); err != nil {
		return err
	}
	if err := m.buildText(); err != nil {
		return err
	}
	if err := m.buildCoverage(); err != nil {
		return err
	}
	if err := m.startEngine(); err != nil {
		return err
	}
	m.engine.SetBudget(defaultBudget) // whatever inputs may have
	err = m.arch.calibrate(m)
	m.engine.SetBudget(m.opts.budget)
	if err != nil {
		return err
	}
	m.image = nil
	return nil
}

// buildData maps stack, packets and the driver's data.
func (m *Machine) buildData() error {
	va, plan := m.va, m.plan
	f, err := newFields(m.profile.Layout, plan.pointer)
	if err != nil {
		return err
	}
	var caller, program, slots, frags []byte
	for _, r := range []struct {
		name string
		page int
		size int
		prot prot
		mem  *[]byte
		fill byte
	}{
		{"the harness's control page", pageControl, pageSize, writable, &m.control, 0},
		{"the stack", plan.stack, plan.stackPages * pageSize, writable, &m.stack, poisonByte},
		{"the caller's stack frame", plan.caller, pageSize, unmapped, &caller, poisonByte},
		{"the program", pageProgram, pageSize, readOnly, &program, poisonByte},
		{"an sk_buff or net_device", pageSlots, windowSlots * f.size, readOnly, &slots, poisonByte},
		{"the fragment table", pageFrags, windowSlots * fragTable, readOnly, &frags, 0},
	} {
		if *r.mem, err = m.addRegion(r.name, va.page(r.page), uint64(r.size), r.prot); err != nil {
			return err
		}
		fill(*r.mem, r.fill)
	}
	if m.opts.userPage {
		b, err := m.addRegion("the user page", va.page(pageUser), pageSize, user|writable|executable)
		if err != nil {
			return err
		}
		fillCode(b, 0, m.plan.filling)
	}
	if err := m.arch.buildProcessorNumber(m); err != nil {
		return err
	}

	p := &m.packets
	p.fields, p.sem, p.tailroom = f, m.profile.Semantics, m.opts.tailroom
	for _, name := range []string{payOffsetSymbol, laterPayOffsetSymbol, laterRandomSymbol} {
		if _, ok := m.profile.Symbols[name]; ok {
			p.payOffset = true
		}
	}
	for i := range windowSlots {
		skb := va.page(pageSlots) + uint64(i*f.size+skbStart)
		s := slot{
			skb: skb, input: skb, dev: skb - skbStart + uint64(f.dev), mem: slots[i*f.size : (i+1)*f.size],
			frags: va.page(pageFrags) + uint64(i*fragTable), fragsM: frags[i*fragTable : (i+1)*fragTable],
		}
		p.slots = append(p.slots, s)
		put64(m.control[ctlDescriptors+i*descSize+descSkb:], skb)
	}
	m.end = windowSlots
	if p.small, err = m.extents(pageSmall, smallParts, 1); err != nil {
		return err
	}
	p.large, err = m.extents(pageLarge, largeParts, largePages)
	return err
}

// extents maps n extents of some pages each with guard pages in front of every
// one (and so behind every one).
func (m *Machine) extents(page, n, pages int) ([]extent, error) {
	out := make([]extent, n)
	for i := range out {
		va := m.va.page(page + i*(pages+m.plan.guard) + 1)
		mem, err := m.addRegion("a packet", va, uint64(pages)*pageSize, readOnly)
		if err != nil {
			return nil, err
		}
		// Most are never used: their pages stay untouched.
		out[i] = extent{va: va, mem: mem, low: len(mem), slot: -1}
	}
	return out, nil
}

// buildText maps routines, symbols and the driver.
func (m *Machine) buildText() error {
	var err error
	if m.routine, err = m.arch.routines(m, m.va.page(pageRoutines)); err != nil {
		return err
	}
	if err := m.addText("the kernel's routines", m.va.page(pageRoutines), m.routine.code); err != nil {
		return err
	}
	var pages map[uint64][]byte
	if pages, m.sites, err = m.arch.symbols(m); err != nil {
		return err
	}
	for va, code := range pages {
		if err := m.addText("the kernel's text", va, code); err != nil {
			return err
		}
	}
	if m.driver, err = m.arch.driver(m, m.va.page(pageDriver)); err != nil {
		return err
	}
	return m.addText("the harness's driver", m.va.page(pageDriver), m.driver.code)
}

// addText maps code, with filling up to the end of its last page.
func (m *Machine) addText(name string, va uint64, code []byte) error {
	mem, err := m.addRegion(name, va, uint64(len(code)), executable)
	if err != nil {
		return err
	}
	fillCode(mem, 0, m.plan.filling)
	copy(mem, code)
	return nil
}

// startEngine makes the engine for the memory, in the state that every run
// starts with.
func (m *Machine) startEngine() error {
	config := m.plan.engine
	config.RAM, config.BufferBytes, config.Inputs = m.mem.ram, m.opts.buffer, windowSlots
	if m.opts.trace {
		m.traceInto(&config)
	}
	if m.opts.accesses {
		config.CheckAccesses = true
		stack := m.region(m.va.page(m.plan.stack))
		config.StackPA, config.StackVA, config.StackBytes = stack.pa, stack.va, stack.size
		for _, s := range m.sites {
			config.Calls = append(config.Calls, s.addr)
		}
	}
	e, err := uc.New(config)
	if err != nil {
		return err
	}
	m.engine = e
	if err := m.cover(); err != nil {
		return err
	}
	if err := m.countRuns(); err != nil {
		return err
	}
	if err := m.arch.boot(m, e); err != nil {
		return fmt.Errorf("emulator engine: %w", err)
	}
	e.SetBudget(m.opts.budget)
	e.SetDriver(m.va.page(pageDriver), pageSize, m.driver.first, m.driver.leave, m.driver.pause)
	n := 1
	for i := range m.regions {
		r := &m.regions[i]
		if r.prot&executable == 0 || r.va == m.va.page(pageDriver) {
			continue
		}
		if n == uc.MaxRegions {
			return fmt.Errorf("the symbols are spread over more than %d pages", uc.MaxRegions-1)
		}
		if err := e.SetRegion(n, r.va, r.size, r.size); err != nil {
			return err
		}
		n++
	}
	if err := e.Save(); err != nil {
		return fmt.Errorf("emulator engine: save the registers: %w", err)
	}
	if m.image != nil {
		if err := e.SetRegion(0, m.imagePage.va, m.imagePage.size, arenaFrames*pageSize); err != nil {
			return err
		}
	}
	// The engine announces blocks only once it has run one.
	e.Run(m.driver.halt, 0, 0)
	if err := e.Err(); err != nil || e.PC() != m.driver.halted {
		return fmt.Errorf("emulator engine: the first run ended at %#x (%v)", e.PC(), err)
	}
	m.initial = m.initial[:0]
	for _, i := range m.plan.control {
		m.initial = append(m.initial, e.State(i))
	}
	return nil
}

// clean reports whether the control registers are as every run finds them.
// Code in supervisor mode can change them; then the TLB may hold anything.
func (m *Machine) clean() bool {
	for n, i := range m.plan.control {
		if m.engine.State(i) != m.initial[n] {
			return false
		}
	}
	return true
}

// restartEngine replaces an engine that is in an unknown state, or has grown too
// large.
func (m *Machine) restartEngine() error {
	m.watch.mu.Lock()
	defer m.watch.mu.Unlock()
	m.watch.engine = nil
	m.edgesBefore = m.engine.NewEdges()
	m.blocksBefore += m.engine.Translated()
	m.loads = 1
	m.engine.Close()
	m.engine = nil
	uc.Trim()
	if err := m.startEngine(); err != nil {
		if m.engine != nil {
			m.engine.Close()
			m.engine = nil
		}
		return err
	}
	m.watch.engine = m.engine
	return nil
}

// probe runs code on input 0 and reports whether an exception ended it. The
// profile's base is the user's; if it will not do, any other place does.
func (m *Machine) probe(code []byte) (bool, error) {
	if err := m.load(&kernelabi.Image{Code: code, Base: m.profile.Base}); err != nil {
		if err := m.load(&kernelabi.Image{Code: code, Base: m.va.page(pageEnd + 16)}); err != nil {
			return false, err
		}
	}
	m.aim(0, 1)
	m.engine.Run(m.driver.begin, 0, 1)
	return m.engine.Reason() == uc.StoppedByInterrupt, nil
}
