package generate

import (
	"math/bits"

	"github.com/kjit-project/kjit/bpf"
)

// edges are constants at which an encoding or a meaning changes.
var edges = []uint32{
	0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64,

	// x86: a byte that is extended with its sign, and the bytes, halves and
	// high bytes that tests and masks can be cut to.
	0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x100, 0x101,
	0xffffff7e, 0xffffff7f, 0xffffff80, 0xffffff81, 0xffffff00, 0xffffff01, 0xfffffeff, 0xfffffe00,
	0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x10000, 0x10001, 0xffff0000, 0xfffeffff, 0xffff0001,
	0xff00, 0xff01, 0xfe00, 0x8080, 0x1ff00, 0xffff8000, 0xffff7fff, 0xffff1234, 0xffff00ff, 0xff0000ff,

	// ARM: 8 bits rotated by an even number, and what just is not that; 12 bits
	// of an offset; 16 bits of movw. Linux masks with 0x1fff, 0xff0000, 0xffffefff.
	0x102, 0x1fe, 0x3fc, 0x3fe, 0xff0, 0x1fe0, 0xff000000, 0xf000000f, 0xc000003f, 0xf800001f,
	0x00ff00ff, 0xffe, 0xfff, 0x1000, 0x1fff, 0xff0000, 0xffffefff, 0xffff00, 0x12340000, 0xfffffc03,

	// The word itself.
	0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffd, 0xfffffffe, 0xffffffff,
	0x55555555, 0xaaaaaaaa, 0x01020304, 0x80808080, 0x7f7f7f7f,
	bpf.ADOff, bpf.NetOff, bpf.LLOff,
}

// constant draws a K for arithmetic and comparisons.
func (r *rng) constant() uint32 {
	v := r.next()
	pick, v := v&15, v>>4
	switch {
	case pick < 7:
		return edges[(v&0xffff)*uint64(len(edges))>>16]
	case pick < 9: // 8 bits at any even place; an odd one is not encodable
		return bits.RotateLeft32(uint32(v&0xff), int(v>>8&31))
	case pick < 11: // a power of two and what is next to it
		return 1<<(v&31) + uint32(v>>5&3) - 1
	case pick < 12:
		return uint32(v & 0xff)
	case pick < 13:
		return uint32(v & 0xffff)
	case pick < 14:
		return -uint32(v & 0xfff)
	case pick < 15:
		return uint32(v) << 16
	}
	return uint32(v)
}

// divisors are constants by which a division by way of something else goes
// wrong: the reciprocal of 1 and 2, and of large numbers.
var divisors = []uint32{
	1, 2, 3, 5, 7, 10, 1000, 0x7f, 0x80, 0xff, 0x100, 0x10000, 0x10001, 0x10203,
	0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff,
}

// divisor draws a K for DIV and MOD.
func (r *rng) divisor() uint32 {
	if r.in(2) {
		return divisors[r.n(len(divisors))]
	}
	return max(r.constant(), 1)
}

// far are offsets that need more bits than most do, of packets that are large
// enough to have them or not.
var far = []uint32{
	0x7b, 0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0xfc, 0xfd, 0xfe, 0xff, 0x100, 0x101, 0x102, 0x1fe, 0x3fc,
}

// remote are offsets that hardly any packet has.
var remote = []uint32{
	0xffc, 0xffd, 0xffe, 0xfff, 0x1000, 0x1001, 0x7fff, 0xfffc, 0xffff, 0x10000,
	0x7ffffffb, 0x7ffffffc, 0x7ffffffd, 0x7ffffffe, 0x7fffffff,
	0x80000000, bpf.LLOff - 4, bpf.LLOff - 1, bpf.NetOff - 1, bpf.ADOff - 4, bpf.ADOff - 1,
}
