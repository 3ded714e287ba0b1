package emulator

import (
	"errors"
	"fmt"
	"sync"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Control registers in long mode (Intel SDM volume 3, 2.5), and the order in
// which the engine wants them: CR3, EFER, CR4, CR0.
const (
	msrEFER  = 0xc0000080
	efer     = 0xd01                          // SCE, LME, LMA, NXE
	cr4      = 0x50220 | 1<<20 | 1<<21        // PAE, OSFXSR (without it no 0F38 and VEX code), ..., SMEP, SMAP
	cr0      = 0x80010001                     // PG, WP, PE
	cpuModel = unicorn.CPU_X86_SKYLAKE_CLIENT // the first with SMEP and SMAP
	rflags   = 0x2                            // interrupts off, AC clear
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

// addresses is the map of the harness's own regions, as page offsets from a
// base within 2 GiB of the kernel's text. The pages that every input touches
// fall on different slots of the engine's TLB, which are the low 8 bits.
type addresses struct{ base uint64 }

const (
	pageDriver   = 1
	pageControl  = 2
	pageRoutines = 4 // 2 pages
	pageStack    = 7 // 4 pages, and the caller's frame behind them
	pageCaller   = 11
	pageCPU      = 13
	pageProgram  = 15
	pageUser     = 17
	pageSlots    = 32
	pageFrags    = 176
	pageSmall    = 384
	pageLarge    = 1024
	pageEnd      = pageLarge + largeParts*(largePages+1) + 1

	stackPages = pageCaller - pageStack
	// gsBase is where the per-CPU area would be.
	gsBase = 0xffff88003fc00000
)

func (a addresses) page(n int) uint64 { return a.base + uint64(n)*pageSize }

// findBase chooses where the harness goes: near to the kernel's text, away
// from all symbols and from the place for images.
func findBase(p *kernelabi.Profile) (addresses, error) {
	const away = 64 << 20
next:
	for _, base := range []uint64{0xffffffffe8000000, 0xffffffffd8000000, 0xffffffffc8000000, 0xffffffff88000000, 0xffffc90000000000} {
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
	if m.mem, err = newMemory(tableFrames + arenaFrames + 2560); err != nil {
		return err
	}
	if m.tables, err = newPageTable(m.mem, tableFrames); err != nil {
		return err
	}
	if m.arena, err = m.mem.take(arenaFrames); err != nil {
		return err
	}
	if m.va, err = findBase(m.profile); err != nil {
		return err
	}
	if err := m.buildData(); err != nil {
		return err
	}
	if err := m.buildText(); err != nil {
		return err
	}
	if err := m.startEngine(); err != nil {
		return err
	}
	return m.calibrate()
}

// buildData maps stack, packets and the driver's data.
func (m *Machine) buildData() error {
	va := m.va
	f, err := newFields(m.profile.Layout)
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
		{"the stack", pageStack, stackPages * pageSize, writable, new([]byte), poisonByte},
		{"the caller's stack frame", pageCaller, pageSize, readOnly, &caller, poisonByte},
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
		fill(b, 0xc3) // ret
	}
	if err := m.buildPerCPU(); err != nil {
		return err
	}

	p := &m.packets
	p.fields, p.sem = f, m.profile.Semantics
	for i := range windowSlots {
		skb := va.page(pageSlots) + uint64(i*f.size+skbStart)
		s := slot{
			skb: skb, dev: skb - skbStart + uint64(f.dev), mem: slots[i*f.size : (i+1)*f.size],
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

// extents maps n extents of some pages each with a guard page in front of
// every one (and so behind every one).
func (m *Machine) extents(page, n, pages int) ([]extent, error) {
	out := make([]extent, n)
	for i := range out {
		va := m.va.page(page + i*(pages+1) + 1)
		mem, err := m.addRegion("a packet", va, uint64(pages)*pageSize, readOnly)
		if err != nil {
			return nil, err
		}
		// Most are never used: their pages stay untouched.
		out[i] = extent{va: va, mem: mem, low: len(mem), slot: -1}
	}
	return out, nil
}

// buildPerCPU maps the page with the processor number twice: behind gs for the
// code under test, and for the kernel's routines.
func (m *Machine) buildPerCPU() error {
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
	m.cpu = mem[m.cpuWord()&pageMask:]
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
func (m *Machine) cpuWord() uint64 {
	offset := m.profile.Symbols[perCPUSymbol]
	return m.va.page(pageCPU) + (gsBase+offset)&pageMask
}

// buildText maps routines, symbols and the driver.
func (m *Machine) buildText() error {
	r, err := assembleRoutines(m.va.page(pageRoutines), m.cpuWord())
	if err != nil {
		return err
	}
	m.routine = r
	if err := m.addText("the kernel's routines", m.va.page(pageRoutines), r.code); err != nil {
		return err
	}
	pages, sites, err := placeSymbols(m.profile.Symbols, r)
	if err != nil {
		return err
	}
	m.sites = sites
	for va, code := range pages {
		if err := m.addText("the kernel's text", va, code); err != nil {
			return err
		}
	}
	m.driver, err = assembleDriver(m.va.page(pageDriver), m.va.page(pageControl), m.va.page(pageCaller), m.va.page(pageProgram))
	if err != nil {
		return err
	}
	return m.addText("the harness's driver", m.va.page(pageDriver), m.driver.code)
}

// addText maps code, with fill bytes up to the end of its last page.
func (m *Machine) addText(name string, va uint64, code []byte) error {
	mem, err := m.addRegion(name, va, uint64(len(code)), executable)
	if err != nil {
		return err
	}
	fill(mem, fillByte)
	copy(mem, code)
	return nil
}

// startEngine makes the engine for the memory, in the state that every run
// starts with.
func (m *Machine) startEngine() error {
	config := uc.Config{
		Arch: unicorn.ARCH_X86, Mode: unicorn.MODE_64, Model: cpuModel,
		RAM: m.mem.ram, BufferBytes: m.opts.buffer, Inputs: windowSlots,
	}
	if m.opts.trace {
		config.Trace, config.TraceSteps = []int{unicorn.X86_REG_EAX, unicorn.X86_REG_EBX}, maxSteps
	}
	e, err := uc.New(config)
	if err != nil {
		return err
	}
	m.engine = e
	for _, set := range []struct {
		name  string
		reg   int
		value uint64
	}{
		{"cr3", unicorn.X86_REG_CR3, m.tables.root},
		{"efer", -1, efer},
		{"cr4", unicorn.X86_REG_CR4, cr4},
		{"cr0", unicorn.X86_REG_CR0, cr0},
		{"gs", unicorn.X86_REG_GS_BASE, gsBase},
		{"rflags", unicorn.X86_REG_EFLAGS, rflags},
	} {
		if set.reg < 0 {
			err = e.SetMSR(msrEFER, set.value)
		} else {
			err = e.SetReg(set.reg, set.value)
		}
		if err != nil {
			return fmt.Errorf("emulator engine: set %s: %w", set.name, err)
		}
	}
	m.initial = [3]uint64{cr0, m.tables.root, cr4}
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
		if err := e.SetRegion(0, m.imagePage.va, m.imagePage.size, maxImage+3*pageSize); err != nil {
			return err
		}
	}
	// The engine announces blocks only once it has run one.
	e.Run(m.driver.halted-1, 0, 0)
	if err := e.Err(); err != nil || e.RIP() != m.driver.halted {
		return fmt.Errorf("emulator engine: the first run ended at %#x (%v)", e.RIP(), err)
	}
	return nil
}

// restartEngine replaces an engine that is in an unknown state.
func (m *Machine) restartEngine() error {
	m.watch.mu.Lock()
	defer m.watch.mu.Unlock()
	m.watch.engine = nil
	m.engine.Close()
	m.engine = nil
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

// errorCode is where the engine keeps a page fault's error code in its raw
// state: it has no register. Found once per process, by experiment; -1 if that
// gave no single place, and then faults say less.
var errorCode = struct {
	sync.Mutex
	done bool
	at   int
}{at: -1}

// probe is an experiment: code and what its page fault's error code must be.
type probe struct {
	code []byte
	want uint32
}

// calibrate finds the word of the error code by provoking known faults.
func (m *Machine) calibrate() error {
	errorCode.Lock()
	defer errorCode.Unlock()
	if errorCode.done {
		return nil
	}
	probes := []probe{
		{[]byte{0x8b, 0x04, 0x25, 0, 0, 0, 0}, 0},                         // mov eax, [0]
		{[]byte{0x89, 0x04, 0x25, 0, 0, 0, 0}, pfWrite},                   // mov [0], eax
		{[]byte{0x89, 0x05, 0xfa, 0xff, 0xff, 0xff}, pfPresent | pfWrite}, // mov [rip-6], eax
		{[]byte{0x31, 0xc0, 0xff, 0xe0}, pfFetch},                         // xor eax, eax; jmp rax
		{[]byte{0xff, 0xe7}, pfFetch | pfPresent},                         // jmp rdi (the sk_buff)
		{[]byte{0x89, 0x04, 0x25, 0, 0, 0, 0}, pfWrite},                   // again, after others
		{[]byte{0x8b, 0x04, 0x25, 0, 0, 0, 0}, 0},
	}
	var candidates []int
	for i, p := range probes {
		if err := m.load(&kernelabi.Image{Code: p.code, Base: m.profile.Base}); err != nil {
			// The profile's base is the user's; any other place will do.
			if err := m.load(&kernelabi.Image{Code: p.code, Base: m.va.page(pageEnd + 16)}); err != nil {
				return err
			}
		}
		m.aim(0, 1)
		m.engine.Run(m.driver.begin, 0, 1)
		if m.engine.Reason() != uc.StoppedByInterrupt || m.engine.Interrupt() != excPageFault {
			return fmt.Errorf("calibration: probe %d was to fault, but: %s", i, m.describe())
		}
		words := m.engine.Words()
		if i == 0 {
			for at := range words {
				candidates = append(candidates, at)
			}
		}
		var left []int
		for _, at := range candidates {
			if words[at] == p.want {
				left = append(left, at)
			}
		}
		candidates = left
	}
	if len(candidates) == 1 {
		errorCode.at = candidates[0]
	}
	errorCode.done = true
	m.unload()
	return nil
}

// describe says how the last run ended, for messages about the engine itself.
func (m *Machine) describe() string {
	e := m.engine
	return fmt.Sprintf("reason %d, exception %d, error %v, rip %#x, cr2 %#x", e.Reason(), e.Interrupt(), e.Err(), e.RIP(), e.CR2())
}

// classify makes a Fault of how the engine stopped while an input was running.
func (m *Machine) classify(input int, expired bool) *Fault {
	e := m.engine
	f := &Fault{RIP: e.RIP(), Offset: -1}
	switch {
	case e.Reason() == uc.StoppedByBudget:
		f.Kind = Timeout
		f.Where = fmt.Sprintf("more than %d blocks executed", m.opts.budget)
	case e.Reason() == uc.StoppedByDriver:
		f.Kind = LostControl
		f.Where = "the code entered the harness, or overwrote its data"
	case e.Reason() == uc.StoppedByInterrupt:
		m.classifyException(f, input)
	case errors.Is(e.Err(), uc.ErrUndefined):
		f.Kind = InvalidOpcode
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

// halted reports whether the instruction before RIP is a halt.
func (m *Machine) halted() bool {
	at := m.engine.RIP() - 1
	pte := m.tables.walk(at)
	pa := pte&pteAddr + at&pageMask
	return pte != 0 && pa < uint64(len(m.mem.ram)) && m.mem.ram[pa] == x86.Hlt[0]
}

func (m *Machine) classifyException(f *Fault, input int) {
	e := m.engine
	switch number := e.Interrupt(); number {
	case excDivide:
		f.Kind = DivideError
	case excBreakpoint:
		f.Kind = Breakpoint
		// RIP is behind the instruction.
		if !m.image.Contains(f.RIP - 1) {
			f.Where = m.name(f.RIP-1, input)
			if m.imagePage.contains(f.RIP - 1) {
				f.Where = "outside the image, in what surrounds it"
			}
		}
	case excProtection:
		f.Kind = GeneralProtection
	case excPageFault:
		m.classifyPageFault(f, input)
	default:
		f.Kind, f.Number = Exception, number
	}
}

func (m *Machine) classifyPageFault(f *Fault, input int) {
	e := m.engine
	f.Address = e.CR2()
	f.Where = m.name(f.Address, input)
	pte := m.tables.walk(f.Address)
	present := pte&ptePresent != 0
	switch code, known := m.faultCode(); {
	case known && code&pfFetch != 0, !known && e.CR2() == e.RIP():
		f.Access = Fetch
	case known && code&pfWrite != 0, !known && present && pte&pteUser == 0:
		// Of pages that are there, reads fault on those of user space only.
		f.Access = Write
	case known:
		f.Access = Read
	default:
		f.Access = ReadOrWrite
	}
	switch {
	case !present:
		f.Kind = NotPresent
	case f.Access == Fetch && pte&pteNX != 0:
		f.Kind = NoExecute
	default:
		f.Kind = Protection
	}
}

// faultCode returns the error code of the page fault that stopped the engine.
func (m *Machine) faultCode() (code uint32, known bool) {
	errorCode.Lock()
	at := errorCode.at
	errorCode.Unlock()
	words := m.engine.Words()
	if at < 0 || at >= len(words) {
		return 0, false
	}
	return words[at], true
}

// clean reports whether the control registers are as every run finds them.
// Code in supervisor mode can change them; then the TLB may hold anything.
func (m *Machine) clean() bool { return m.engine.Control() == m.initial }
