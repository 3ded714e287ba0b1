package generate

import (
	"math"
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
)

// cell draws a cell to store to: one of a few, so that they are loaded again,
// or the last.
func (m *maker) cell() uint32 {
	switch m.rng.n(8) {
	case 0:
		return bpf.MemWords - 1
	case 1, 2:
		return uint32(m.rng.n(bpf.MemWords))
	}
	return m.hot[0]%4 + uint32(m.rng.n(4))
}

// stored returns a cell that can be loaded; there must be one, or the next
// instruction is made a store.
func (m *maker) stored() uint32 {
	at := m.rng.n(bpf.MemWords)
	for i := range bpf.MemWords {
		if k := uint32(at+i) % bpf.MemWords; m.missing>>k&1 == 0 {
			return k
		}
	}
	k := m.cell()
	m.put(bpf.St, k)
	return k
}

func (m *maker) mem() {
	if m.missing == ^uint16(0) || m.rng.n(5) < 2 {
		code := uint16(bpf.St)
		if m.rng.in(3) {
			code = bpf.Stx
		}
		m.put(code, m.cell())
		return
	}
	if m.rng.in(2) {
		m.put(bpf.LdxMem, m.stored())
		return
	}
	m.save()
	if m.missing != ^uint16(0) {
		m.put(bpf.LdMem, m.stored())
	}
}

// offset draws the K of an absolute load.
func (m *maker) offset() uint32 {
	if m.kind == bpf.Seccomp {
		if m.rng.in(2) {
			return m.hot[m.rng.n(len(m.hot))] & 0x3c
		}
		return uint32(m.rng.n(16)) * 4
	}
	switch v := m.rng.n(64); {
	case v < 8 && m.wide:
		return far[m.rng.n(len(far))]
	case v < 24:
		return m.hot[v%len(m.hot)]
	case v < 56:
		return uint32(m.rng.n(m.extent - 3))
	case v < 60 && m.negativeAbs:
		return m.header()
	case v < 62 && m.wide:
		k := remote[m.rng.n(len(remote))]
		if int32(k) >= 0 || m.negativeAbs {
			return k
		}
	case v == 63 && m.beyond:
		return bpf.ADOff + uint32(m.rng.n(0x1000))
	}
	return uint32(m.rng.n(16))
}

// header draws an offset from one of the headers.
func (m *maker) header() uint32 {
	base := bpf.NetOff
	if m.rng.in(2) {
		base = bpf.LLOff
	}
	return base + uint32(m.rng.n(24))
}

func (m *maker) mshOffset() uint32 {
	k := m.offset()
	if int32(k) < 0 && !m.negativeMsh || k >= bpf.ADOff {
		return 14
	}
	return k
}

// offsetFromX draws the K of a load at X+K that is in the packet for most X.
func (m *maker) offsetFromX() uint32 {
	switch v := m.rng.n(16); {
	case v < 2:
		return m.header()
	case v < 3 && m.x > 0:
		return -uint32(1 + m.rng.n(int(min(m.x, 16))))
	case v < 4:
		return m.offset()
	case v < 5 && m.rng.in(4):
		return m.rng.constant()
	}
	if int(min(m.x, 4096)) < m.extent-8 {
		return uint32(m.rng.n(m.extent - 4 - int(m.x)))
	}
	return uint32(m.rng.n(8))
}

// ind loads at X+K, mostly after giving X a value that makes this good.
func (m *maker) ind() {
	if len(m.inds) == 0 {
		return
	}
	m.save()
	if m.x > 64 && m.weights[gImm]+m.weights[gMove] > 0 {
		switch m.rng.n(24) {
		default:
			m.put(bpf.LdxImm, uint32(m.rng.n(40)))
		case 0:
		case 1, 2, 3, 4:
			m.put(bpf.LdxMsh, m.mshOffset())
		case 5, 6, 7, 8, 9, 10, 11, 12:
			m.put(bpf.AndK, 1<<(2+m.rng.n(4))-1)
			m.put(bpf.Tax, 0)
		case 13, 14:
			m.put(bpf.LdxImm, m.header())
			m.put(m.pick(m.inds), uint32(m.rng.n(16)))
			return
		case 15, 16: // the sum wraps
			low := uint32(1 + m.rng.n(8))
			m.put(bpf.LdxImm, -low)
			m.put(m.pick(m.inds), low+uint32(m.rng.n(m.extent-12)))
			return
		}
	}
	m.put(m.pick(m.inds), m.offsetFromX())
}

func (m *maker) putExt(ext bpf.Extension) {
	code := uint16(bpf.LdWAbs)
	if m.rng.in(8) {
		code = m.pick(m.loads)
	}
	m.put(code, ext.K())
	switch ext {
	case bpf.ExtXorX:
	default: // a guess: the large ones are seldom taken for offsets
		m.a = math.MaxUint16
	}
}

// operand draws the K of an arithmetic instruction.
func (m *maker) operand(code uint16) uint32 {
	switch code {
	case bpf.DivK, bpf.ModK:
		return m.rng.divisor()
	case bpf.LshK, bpf.RshK:
		v := m.rng.n(64)
		switch {
		case v < 6:
			return 0
		case v < 10:
			return 31
		case v == 10 && m.wideShift && m.rng.in(12):
			return uint32(32 + m.rng.n(256))
		case v < 40:
			return uint32(1 + m.rng.n(8))
		}
		return uint32(m.rng.n(32))
	case bpf.AndK: // not too much of what leaves nothing of A
		k := m.rng.constant()
		if bits.OnesCount32(k) <= 6 && m.rng.n(3) > 0 {
			k = ^k
		}
		return k
	case bpf.MulK:
		if k := m.rng.constant(); k > 1 || m.rng.in(4) {
			return k
		}
	}
	return m.rng.constant()
}

// byX operates with X. Shifts by more than 31 are undefined, so that there are
// few.
func (m *maker) byX(code uint16) {
	if (code == bpf.LshX || code == bpf.RshX) && m.x > 31 {
		switch m.rng.n(16) {
		case 0:
		case 1, 2, 3, 4, 5, 6:
			m.put(bpf.LdxImm, uint32(m.rng.n(32)))
		default:
			m.put(bpf.AndK, 31)
			m.put(bpf.Tax, 0)
			m.put(m.pick(m.loads), m.offset())
			if m.x > 31 { // at a join
				return
			}
		}
	}
	if (code == bpf.DivX || code == bpf.ModX) && (m.x == 0 || m.fixed&bpf.RegX != 0) && m.rng.n(32) > 0 {
		// X may be always 0.
		m.put(bpf.LdxImm, m.rng.divisor())
	}
	m.put(code, 0)
}
