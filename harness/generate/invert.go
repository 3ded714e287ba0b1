package generate

import (
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
)

// inverter changes inputs so that a value computed from them becomes another.
type inverter struct {
	in   *slot
	t    *trace // of the run that computed the value, on an input equal to in
	s    *Solver
	fuel int // operations that may still be looked at; values can share parts
}

const fuel = 48

// want changes the input so that node n has value w, the other operand of every
// operation on the way staying what it was. It returns false, and has changed
// nothing, if it finds no way; true is no proof that the run still comes there.
func (v *inverter) want(n int32, w uint32) bool {
	for v.fuel > 0 {
		v.fuel--
		if n == 0 {
			return false
		}
		d := &v.t.nodes[n]
		switch d.code {
		case fromPacket:
			return fitsBytes(w, d.size) && v.in.put(int(d.r), int(d.size), w)
		case fromNibble:
			if w > 60 || w%4 != 0 || int(d.r) >= len(v.in.skb.Packet) {
				return false
			}
			b := &v.in.skb.Packet[d.r]
			*b = *b&0xf0 | byte(w/4)
			return true
		case fromLength:
			if w > maxPacket {
				return false
			}
			v.in.resize(int(w), &v.s.rng)
			return true
		case fromExt:
			return v.in.putExt(bpf.Extension(d.r), w, v.s.sem)
		case fromData:
			v.in.putWord(d.r, w)
			return true
		}
		if p, ok := invertLeft(d, w); ok && d.left != 0 {
			if d.right == 0 {
				n, w = d.left, p
				continue
			}
			if v.want(d.left, p) {
				return true
			}
		}
		p, ok := invertRight(d, w)
		if !ok {
			return false
		}
		n, w = d.right, p
	}
	return false
}

func fitsBytes(w uint32, size uint8) bool { return size == 4 || w>>(8*size) == 0 }

// invertLeft returns an A near d.l with which d gives w.
func invertLeft(d *node, w uint32) (uint32, bool) {
	l, r := d.l, d.r
	switch d.code {
	case bpf.AddK, bpf.AddX:
		return w - r, true
	case bpf.SubK, bpf.SubX:
		return w + r, true
	case bpf.XorK, bpf.XorX:
		return w ^ r, true
	case bpf.Neg:
		return -w, true
	case bpf.AndK, bpf.AndX:
		return l&^r | w, w&^r == 0
	case bpf.OrK, bpf.OrX:
		return l&r | w&^r, r&^w == 0
	case bpf.LshK, bpf.LshX:
		n := r & 31
		p := w >> n
		if n > 0 {
			p |= l >> (32 - n) << (32 - n)
		}
		return p, p<<n == w
	case bpf.RshK, bpf.RshX:
		n := r & 31
		p := w<<n | l&(1<<n-1)
		return p, p>>n == w
	case bpf.MulK, bpf.MulX:
		if r == 0 {
			return 0, false
		}
		n := bits.TrailingZeros32(r)
		p := w >> n * inverse(r>>n)
		return p, p*r == w
	case bpf.DivK, bpf.DivX:
		p := w*r + l%r
		if p/r != w {
			p = w * r
		}
		return p, p/r == w
	case bpf.ModK, bpf.ModX:
		p := l - l%r + w
		return p, p%r == w
	}
	return 0, false
}

// invertRight returns an X with which d gives w, for operations with X.
func invertRight(d *node, w uint32) (uint32, bool) {
	l, r := d.l, d.r
	switch d.code {
	case bpf.AddX:
		return w - l, true
	case bpf.SubX:
		return l - w, true
	case bpf.XorX:
		return w ^ l, true
	case bpf.AndX:
		return r&^l | w, w&^l == 0
	case bpf.OrX:
		return r&l | w&^l, l&^w == 0
	case bpf.MulX:
		if l == 0 {
			return 0, false
		}
		n := bits.TrailingZeros32(l)
		p := w >> n * inverse(l>>n)
		return p, p*l == w
	case bpf.DivX:
		switch {
		case w == 0:
			return l + 1, l+1 != 0
		case w > l:
			return 0, false
		}
		return l / w, l/(l/w) == w
	case bpf.ModX:
		return l - w, w < l && l%(l-w) == w
	case bpf.LshX:
		n := uint32(bits.TrailingZeros32(w)-bits.TrailingZeros32(l)) & 31
		return n, l<<n == w
	case bpf.RshX:
		n := uint32(bits.LeadingZeros32(w)-bits.LeadingZeros32(l)) & 31
		return n, l>>n == w
	}
	return 0, false
}

// inverse returns the inverse of an odd number mod 2^32.
func inverse(k uint32) uint32 {
	x := k // right to 3 bits; each step doubles them
	x *= 2 - k*x
	x *= 2 - k*x
	x *= 2 - k*x
	x *= 2 - k*x
	return x
}

// possible returns the bits that can be set in the value of node n.
func (v *inverter) possible(n int32) uint32 {
	if v.fuel--; v.fuel <= 0 || n == 0 {
		return ^uint32(0)
	}
	d := &v.t.nodes[n]
	switch d.code {
	case fromPacket:
		return uint32(1<<(8*uint64(d.size)) - 1)
	case fromNibble:
		return 60
	case fromExt:
		switch bpf.Extension(d.r) {
		case bpf.ExtPktType:
			return 7
		case bpf.ExtVlanPr:
			return 1
		case bpf.ExtProtocol, bpf.ExtQueue, bpf.ExtHatype, bpf.ExtVlanTCI, bpf.ExtVlanTPID:
			return 0xffff
		}
	case bpf.AndK:
		return d.r & v.possible(d.left)
	case bpf.LshK:
		return v.possible(d.left) << (d.r & 31)
	case bpf.RshK:
		return v.possible(d.left) >> (d.r & 31)
	case bpf.OrK, bpf.XorK:
		return d.r | v.possible(d.left)
	case bpf.ModK:
		return 1<<bits.Len32(d.r-1) - 1
	}
	return ^uint32(0)
}

// shake gives some value that node n comes from another one.
func (v *inverter) shake(n int32) bool {
	r := &v.s.rng
	for n != 0 {
		d := &v.t.nodes[n]
		switch d.code {
		case fromPacket, fromNibble:
			w := r.constant()
			if d.size < 4 {
				w &= 1<<(8*d.size) - 1
			}
			return v.in.put(int(d.r), int(d.size), w)
		case fromLength:
			v.in.resize(r.n(200), r)
			return true
		case fromExt:
			v.in.metadata(r)
			return true
		case fromData:
			v.in.putWord(d.r, r.constant())
			return true
		}
		if n = d.left; d.right != 0 && (n == 0 || r.in(2)) {
			n = d.right
		}
	}
	return false
}
