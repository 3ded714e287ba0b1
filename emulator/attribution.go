package emulator

import "errors"

// Count is what an instruction of a program took.
type Count struct {
	Runs   uint64 // how often its code was entered, or passed by
	Insns  uint64 // native instructions of its code that were executed
	Called uint64 // and of kernel routines that it called
}

// Attribution is where the instructions went that an image executed since it
// was loaded. The sum of all Insns and Called is that of [Result.Insns], if no
// result was Inexact.
type Attribution struct {
	Insns    []Count // by BPF instruction; nil if the image has no map of them
	Prologue Count   // without a map: of the whole image
	Epilogue Count   // what lies behind the last instruction
}

// WithAttribution makes a machine that can tell what each instruction of a
// program took, at some 2 ns a block.
func WithAttribution() Option { return func(o *options) { o.attribution = true } }

// runs are the counts that an Attribution is made of, in the engine's memory.
type runs struct {
	ran, called []uint64 // by offset in the image's pages
	cut         []cut

	before    []uint64 // ran and called as keepRuns found them
	cutBefore int
}

// cut is a block of the image whose last instructions were not executed once,
// because one of them faulted.
type cut struct{ from, to, insns uint64 }

// countRuns makes a new engine count.
func (m *Machine) countRuns() error {
	if !m.opts.attribution {
		return nil
	}
	var err error
	m.runs.ran, m.runs.called, err = m.engine.CountRuns(arenaFrames * pageSize)
	return err
}

// keepRuns remembers the counts, dropRuns goes back to them: some inputs are run
// again.
func (m *Machine) keepRuns() {
	if !m.opts.attribution {
		return
	}
	r, size := &m.runs, m.imagePage.size
	r.before = append(append(r.before[:0], r.ran[:size]...), r.called[:size]...)
	r.cutBefore = len(r.cut)
}

func (m *Machine) dropRuns() {
	if !m.opts.attribution {
		return
	}
	r, size := &m.runs, m.imagePage.size
	copy(r.ran[:size], r.before[:size])
	copy(r.called[:size], r.before[size:])
	r.cut = r.cut[:r.cutBefore]
}

// forgetRuns makes all counts 0, those of the old image and of where the next
// one goes.
func (m *Machine) forgetRuns(size uint64) {
	if !m.opts.attribution {
		return
	}
	clear(m.runs.ran[:size])
	clear(m.runs.called[:size])
	m.runs.cut = m.runs.cut[:0]
}

// cutRun takes back what the block that was entered last did not execute:
// everything from the instruction at pc on, of insns instructions.
func (m *Machine) cutRun(addr, size, pc, insns uint64) {
	switch {
	case !m.opts.attribution:
	case m.imagePage.contains(addr):
		m.runs.cut = append(m.runs.cut, cut{pc - m.imagePage.va, addr + size - m.imagePage.va, insns})
	default:
		m.runs.called[m.engine.Site()] -= insns
	}
}

// Attribution tells where the instructions of the loaded image went.
func (m *Machine) Attribution() (Attribution, error) {
	if !m.opts.attribution {
		return Attribution{}, errors.New("the machine was not made to attribute: give New the option WithAttribution")
	}
	if err := m.enter(); err != nil {
		return Attribution{}, err
	}
	defer m.leave()
	if m.image == nil {
		return Attribution{}, errEmpty
	}
	var a Attribution
	if n := len(m.image.PCMap) - 1; n > 0 {
		a.Insns = make([]Count, n)
	}
	executed := func(at, n uint64) {
		c, first := a.at(m, at)
		c.Insns += n
		if first {
			c.Runs += n
		}
	}
	for at := range m.imagePage.size {
		ran, called := m.runs.ran[at], m.runs.called[at]
		if ran == 0 && called == 0 {
			continue
		}
		size, insns := m.engine.Block(int(at))
		last := m.walk(at, at+uint64(size), insns, func(at uint64) { executed(at, ran) })
		c, _ := a.at(m, last)
		c.Called += called
	}
	for _, c := range m.runs.cut {
		m.walk(c.from, c.to, int(c.insns), func(at uint64) { executed(at, ^uint64(0)) })
	}
	return a, nil
}

// walk calls each with the offset of every instruction from lo to hi, so many, and
// returns the last. Where one cannot be decoded here the rest belongs to it: only the
// engine knows its length.
func (m *Machine) walk(lo, hi uint64, most int, each func(at uint64)) (last uint64) {
	last = lo
	for at := lo; at < hi && most > 0; most-- {
		each(at)
		last = at
		size := m.arch.instruction(m.code(m.imagePage.va+at, int(m.plan.longest)))
		if size == 0 {
			for ; most > 1; most-- {
				each(at)
			}
			break
		}
		at += uint64(size)
	}
	return last
}

// at returns the count that an offset in the image's pages belongs to, and
// whether that begins there.
func (a *Attribution) at(m *Machine, at uint64) (c *Count, first bool) {
	offset, pcs := int(at)-int(m.imageCode.lo), m.image.PCMap
	switch n := len(a.Insns); {
	case n == 0 || offset < pcs[0]:
		return &a.Prologue, offset == 0
	case offset >= pcs[n]:
		return &a.Epilogue, offset == pcs[n]
	}
	pc := m.image.PCAt(offset)
	return &a.Insns[pc], offset == pcs[pc]
}
