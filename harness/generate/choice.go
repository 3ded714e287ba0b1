package generate

import "github.com/kjit-project/kjit/bpf"

// choice is what programs of one kind are made of: what all JITs take, and at
// most one thing more. With more than one, a JIT that should decline one of
// them, and does not, could still do so for another.
type choice struct {
	codes                   [256]bool
	exts                    []bpf.Extension
	starts                  []uint16 // what a program can start with
	loads, inds, aluK, aluX []uint16

	negativeAbs, negativeMsh, wideShift, beyond bool

	extra extra
	code  uint16        // for extraCode
	ext   bpf.Extension // for extraExt
}

// extra is what a choice has more than all JITs take.
type extra uint8

const (
	noExtra extra = iota
	extraCode
	extraExt
	extraNegativeAbs
	extraNegativeMsh
	extraWideShift
	extraBeyond
)

func (m *maker) init() {
	for kind := range m.choices {
		m.choices[kind] = choicesOf(&m.cfg.Features[kind], &m.odds[kind])
		for _, s := range m.cfg.Corpus {
			if s.Kind == bpf.Kind(kind) && len(s.Program) > 0 {
				m.sources[kind] = append(m.sources[kind], s.Program)
			}
		}
	}
	m.prog = make(bpf.Program, 0, bpf.MaxInsns)
	m.edit = make(bpf.Program, 0, bpf.MaxInsns)
}

// choicesOf returns the choices in the order in which odds counts them.
func choicesOf(f *Features, odds *[2]int) []choice {
	all := []choice{newChoice(f, choice{})}
	for n, use := range []Use{Seldom, Rare} {
		add := func(of Use, c choice) {
			if of == use {
				all = append(all, newChoice(f, c))
				odds[n]++
			}
		}
		for code, of := range f.Codes {
			add(of, choice{extra: extraCode, code: uint16(code)})
		}
		for i, of := range f.Exts {
			add(of, choice{extra: extraExt, ext: bpf.Extension(4 * i)})
		}
		add(f.NegativeAbs, choice{extra: extraNegativeAbs})
		add(f.NegativeMsh, choice{extra: extraNegativeMsh})
		add(f.WideShift, choice{extra: extraWideShift})
		add(f.Beyond, choice{extra: extraBeyond})
	}
	return all
}

// newChoice completes a choice that has an extra at most.
func newChoice(f *Features, c choice) choice {
	for code, use := range f.Codes {
		c.codes[code] = use == Often || c.extra == extraCode && c.code == uint16(code)
		ins := bpf.Instruction{Code: uint16(code)}
		if c.codes[code] && ins.Class() != bpf.ClassRet && ins.Code != bpf.LdMem && ins.Code != bpf.LdxMem {
			c.starts = append(c.starts, ins.Code)
		}
	}
	for n, use := range f.Exts {
		if ext := bpf.Extension(4 * n); use == Often || c.extra == extraExt && c.ext == ext {
			c.exts = append(c.exts, ext)
		}
	}
	c.negativeAbs = f.NegativeAbs == Often || c.extra == extraNegativeAbs
	c.negativeMsh = f.NegativeMsh == Often || c.extra == extraNegativeMsh
	c.wideShift = f.WideShift == Often || c.extra == extraWideShift
	c.beyond = f.Beyond == Often || c.extra == extraBeyond
	c.loads = c.only(bpf.LdWAbs, bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs)
	c.inds = c.only(bpf.LdWInd, bpf.LdHInd, bpf.LdBInd)
	c.aluK = c.only(bpf.AddK, bpf.AddK, bpf.SubK, bpf.SubK, bpf.OrK, bpf.AndK, bpf.AndK, bpf.XorK, bpf.XorK,
		bpf.LshK, bpf.RshK, bpf.MulK, bpf.DivK, bpf.ModK)
	c.aluX = c.only(bpf.AddX, bpf.AddX, bpf.SubX, bpf.OrX, bpf.AndX, bpf.XorX, bpf.XorX,
		bpf.MulX, bpf.DivX, bpf.ModX, bpf.LshX, bpf.RshX)
	return c
}

// choose draws what the next program is made of.
func (m *maker) choose() {
	all, seldom, rare := m.choices[m.kind], m.odds[m.kind][0], m.odds[m.kind][1]
	n := 0
	switch v := m.rng.n(1000); {
	case v < 10 && seldom > 0:
		n = 1 + m.rng.n(seldom)
	case v < 40 && rare > 0:
		n = 1 + seldom + m.rng.n(rare)
	}
	m.choice = &all[n]
}

// putExtra appends the extra of the program's choice.
func (m *maker) putExtra() {
	switch m.extra {
	case extraCode:
		m.use(m.choice.code)
	case extraExt:
		m.save()
		m.putExt(m.choice.ext)
	case extraNegativeAbs:
		m.save()
		m.put(m.pick(m.loads), m.header())
	case extraNegativeMsh:
		m.put(bpf.LdxMsh, m.header())
	case extraWideShift:
		code := uint16(bpf.LshK)
		if m.rng.in(2) {
			code = bpf.RshK
		}
		m.put(code, uint32(32+m.rng.n(256)))
	case extraBeyond:
		m.put(bpf.LdWAbs, bpf.ADOff+64+uint32(m.rng.n(0xfc0)))
	}
}

// only returns the codes that are allowed.
func (c *choice) only(codes ...uint16) []uint16 {
	var out []uint16
	for _, code := range codes {
		if c.codes[code] {
			out = append(out, code)
		}
	}
	return out
}
