package bpf_test

import (
	"math/rand/v2"

	"github.com/kjit-project/kjit/bpf"
)

// slowRun is the language once more, said as simply as can be: the slow
// interpreter that the fast one is compared with. It knows nothing of Machine.
func slowRun(prog bpf.Program, kind bpf.Kind, rules bpf.Rules, in bpf.Input) bpf.Result {
	var a, x uint32
	var mem [bpf.MemWords]uint32
	r := bpf.Result{ShiftPC: -1}
	for pc := 0; ; pc++ {
		ins := prog[pc]
		k := ins.K
		r.PC = pc
		r.Executed++

		src := k // the operand of arithmetic and comparisons
		if ins.Code&0x08 != 0 {
			src = x
		}
		jump := func(taken bool) {
			if taken {
				pc += int(ins.JT)
			} else {
				pc += int(ins.JF)
			}
		}
		load := func(off uint32, size int) (value uint32) {
			value, ok := in.Load(off, size)
			r.LoadFailed = r.LoadFailed || !ok
			return value
		}
		switch ins.Code {
		case bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs:
			ext := bpf.Extension(k - bpf.ADOff)
			size := map[uint16]int{bpf.LdWAbs: 4, bpf.LdHAbs: 2, bpf.LdBAbs: 1}[ins.Code]
			switch {
			case kind == bpf.Socket && k >= bpf.ADOff && rules.Knows(ext) && ext == bpf.ExtXorX:
				a ^= x
			case kind == bpf.Socket && k >= bpf.ADOff && rules.Knows(ext):
				var ok bool
				if a, ok = in.Extension(ext, a, x); !ok {
					r.Value, r.LoadFailed = a, true
					return r
				}
			default:
				a = load(k, size)
			}
		case bpf.LdWInd:
			a = load(x+k, 4)
		case bpf.LdHInd:
			a = load(x+k, 2)
		case bpf.LdBInd:
			a = load(x+k, 1)
		case bpf.LdxMsh:
			x = 4 * (load(k, 1) % 16)
		case bpf.LdImm:
			a = k
		case bpf.LdMem:
			a = mem[k]
		case bpf.LdLen:
			a = in.Len()
		case bpf.LdxImm:
			x = k
		case bpf.LdxMem:
			x = mem[k]
		case bpf.LdxLen:
			x = in.Len()
		case bpf.St:
			mem[k] = a
		case bpf.Stx:
			mem[k] = x
		case bpf.AddK, bpf.AddX:
			a += src
		case bpf.SubK, bpf.SubX:
			a -= src
		case bpf.MulK, bpf.MulX:
			a *= src
		case bpf.DivK, bpf.DivX, bpf.ModK, bpf.ModX:
			switch {
			case src == 0:
				r.DivZero = true
				return r
			case ins.Code&0xf0 == 0x30:
				a /= src
			default:
				a %= src
			}
		case bpf.OrK, bpf.OrX:
			a |= src
		case bpf.AndK, bpf.AndX:
			a &= src
		case bpf.XorK, bpf.XorX:
			a ^= src
		case bpf.LshK, bpf.LshX, bpf.RshK, bpf.RshX:
			if src >= 32 && r.ShiftPC == -1 {
				r.ShiftPC = pc
			}
			for range src % 32 {
				if ins.Code&0xf0 == 0x60 {
					a *= 2
				} else {
					a /= 2
				}
			}
		case bpf.Neg:
			a = 0 - a
		case bpf.Ja:
			pc += int(k)
		case bpf.JeqK, bpf.JeqX:
			jump(a == src)
		case bpf.JgtK, bpf.JgtX:
			jump(a > src)
		case bpf.JgeK, bpf.JgeX:
			jump(a >= src)
		case bpf.JsetK, bpf.JsetX:
			jump(a&src != 0)
		case bpf.RetK:
			r.Value = k
			return r
		case bpf.RetA:
			r.Value = a
			return r
		case bpf.Tax:
			x = a
		case bpf.Txa:
			a = x
		}
		if r.LoadFailed {
			return r
		}
	}
}

// constants are the values at which mistakes show.
var constants = []uint32{0, 1, 2, 3, 5, 14, 15, 16, 30, 31, 32, 33, 63, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff,
	0x10000, 0x7fffffff, 0x80000000, 0x80000001, 0xffffff00, 0xfffffffe, 0xffffffff,
	bpf.NetOff, bpf.NetOff + 9, bpf.LLOff, bpf.LLOff + 12, bpf.LLOff - 1, bpf.ADOff - 1}

// programMaker makes random programs that the checker accepts.
type programMaker struct {
	*rand.Rand
	kind  bpf.Kind
	rules bpf.Rules
	skip  func(bpf.Instruction) bool // leave these out
}

func (m *programMaker) constant() uint32 {
	switch m.IntN(4) {
	case 0:
		return m.Uint32()
	case 1:
		return m.Uint32N(80)
	}
	return constants[m.IntN(len(constants))]
}

func (m *programMaker) program(size int) bpf.Program {
	prog := make(bpf.Program, 0, size)
	for len(prog) < size-1 {
		ins := m.instruction(size - 2 - len(prog))
		if m.skip == nil || !m.skip(ins) {
			prog = append(prog, ins)
		}
	}
	prog = append(prog, []bpf.Instruction{retA, ret, op(bpf.RetK, m.Uint32())}[m.IntN(3)])
	for {
		err, _ := bpf.Check(prog, m.kind, m.rules).(*bpf.CheckError)
		if err == nil {
			return prog
		}
		prog[err.PC] = op(bpf.LdImm, m.constant())
	}
}

// codes are all that some Linux accepts.
var codes = func() (codes []uint16) {
	for code := range uint16(256) {
		if bpf.RulesCurrent.Accepts(code, bpf.Socket) {
			codes = append(codes, code)
		}
	}
	return codes
}()

// instruction makes one with room instructions between it and the last.
func (m *programMaker) instruction(room int) bpf.Instruction {
	code := codes[m.IntN(len(codes))]
	switch {
	case bpf.IsRet(code) && m.IntN(4) != 0, m.IntN(3) == 0:
		code = []uint16{bpf.LdWAbs, bpf.LdHAbs, bpf.LdBAbs, bpf.LdBInd, bpf.LdHInd, bpf.LdWInd, bpf.JeqK, bpf.JeqK, bpf.JsetK}[m.IntN(9)]
	}
	ins := op(code, m.constant())
	switch {
	case bpf.IsCondJump(code):
		skip := func() uint8 { return uint8(m.IntN(min(room, 255, 1+m.IntN(12)) + 1)) }
		ins.JT, ins.JF = skip(), skip()
		if m.IntN(2) == 0 {
			ins.JF = 0
		}
	case code == bpf.Ja:
		ins.K = m.Uint32N(uint32(min(room, 5)) + 1)
	case code == bpf.LdMem, code == bpf.LdxMem, code == bpf.St, code == bpf.Stx:
		ins.K = m.Uint32N(4)
	case m.kind == bpf.Seccomp && code == bpf.LdWAbs:
		ins.K = 4 * m.Uint32N(16)
	case code == bpf.LdWAbs, code == bpf.LdHAbs, code == bpf.LdBAbs:
		if m.IntN(4) == 0 {
			ins.K = bpf.ADOff + 4*m.Uint32N(bpf.NumExtensions)
		} else if m.IntN(2) == 0 {
			ins.K = m.Uint32N(64)
		}
	}
	return ins
}

// packet makes a random one, part of it in fragments.
func (m *programMaker) packet() *packet {
	p := &packet{Packet: make(hexBytes, m.IntN(80)), Skb: map[string]int{}}
	for i := range p.Packet {
		p.Packet[i] = byte(m.constant())
	}
	headlen := m.IntN(len(p.Packet) + 1)
	if m.IntN(2) == 0 {
		p.Headlen = &headlen
	}
	for _, name := range extensionFields {
		if m.IntN(3) > 0 {
			p.Skb[name] = m.IntN(1 << 16)
		}
	}
	return p
}

// systemCall makes a random one.
func (m *programMaker) systemCall() *systemCall {
	c := &systemCall{Nr: int64(m.IntN(400)), Arch: hexWord(m.constant()), IP: hexWord(m.Uint64())}
	for range 6 {
		c.Args = append(c.Args, hexWord(m.constant())<<32|hexWord(m.constant()))
	}
	return c
}

func (m *programMaker) input() bpf.Input {
	if m.kind == bpf.Seccomp {
		return m.systemCall()
	}
	return m.packet()
}
