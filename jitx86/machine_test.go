package jitx86

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

// machine executes an image in Go, instruction by instruction as x/arch decodes
// them, with the kernel's helpers as Go functions. It knows what the emitters
// use and is strict: an unknown instruction, an access outside the frame, the
// packet and the structs, or a changed callee-saved register is a fault.
// Registers that a helper may change are changed.
type machine struct {
	image *kernelabi.Image
	skb   *kernelabi.Skb
	mem   []memory
	funcs map[uint64]symbol
	insns map[int]x86asm.Inst // decoded so far, by offset

	reg            [16]uint64
	zf, cf, sf, of bool
	executed       int // guest instructions, those of helpers included
	calls          int // of helpers
	err            error
}

// memory is a piece of the address space.
type memory struct {
	addr  uint64
	bytes []byte
}

// Where a machine keeps things.
const (
	skbAddr   = 0xffff880001000000
	devAddr   = 0xffff880002000000
	dataAddr  = 0xffff880003000000
	stackAddr = 0xffff880004000000
	cpuAddr   = 0xb0a0 // gs:
	caller    = 0xffffffff81fffff0
	budget    = 100000

	stackSize = 512
)

const (
	rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi = 0, 1, 2, 3, 4, 5, 6, 7
	r8, r9, r10, r11                       = 8, 9, 10, 11
)

// Instructions that the helpers of Linux 3.10 execute when the data is in the
// linear part, by size: plain entries test the offset's sign first.
var helperCost = [...]int{word: 7, half: 7, byte1: 4, msh: 6}

const signTestCost = 2

// newMachine returns a machine that runs an image on a packet. The profile's
// layout has all fields of golden records.
func newMachine(image *kernelabi.Image, skb *kernelabi.Skb) *machine {
	m := &machine{image: image, skb: skb, funcs: map[uint64]symbol{}, insns: map[int]x86asm.Inst{}}
	p := image.Profile
	for s, name := range symbolNames {
		if addr, ok := p.Symbols[name]; ok && symbol(s) != symCPUNumber {
			m.funcs[addr] = symbol(s)
		}
	}
	sk, dev := jittest.Structs(p, skb, dataAddr, devAddr)
	cpu := make([]byte, 4)
	binary.LittleEndian.PutUint32(cpu, skb.CPU)
	m.mem = []memory{
		{stackAddr, make([]byte, stackSize)},
		{dataAddr, skb.Packet[:skb.Headlen]},
		{skbAddr, sk},
		{devAddr, dev},
		{cpuAddr, cpu},
	}
	return m
}

// run executes the image until it returns to its caller.
func (m *machine) run() (uint32, error) {
	for i := range m.reg {
		m.reg[i] = 0xdead0000dead0000 + uint64(i)
	}
	for i := range m.mem[0].bytes {
		m.mem[0].bytes[i] = 0xa5
	}
	m.reg[rdi] = skbAddr
	m.reg[rsp] = stackAddr + stackSize
	m.push(caller)
	before := m.reg
	pc := m.image.Base
	for m.err == nil && pc != caller {
		if m.executed++; m.executed > budget {
			m.fault("endless loop")
			break
		}
		if !m.image.Contains(pc) {
			m.fault("runs off the image to %#x", pc)
			break
		}
		pc = m.step(pc)
	}
	if m.err != nil {
		return 0, m.err
	}
	before[rsp] += 8
	for _, r := range []int{rbx, rsp, rbp, 12, 13, 14, 15} {
		if m.reg[r] != before[r] {
			return 0, fmt.Errorf("callee-saved register %d changed", r)
		}
	}
	return uint32(m.reg[rax]), nil
}

func (m *machine) fault(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// at returns size bytes of memory.
func (m *machine) at(addr uint64, size int) []byte {
	for _, piece := range m.mem {
		if off := addr - piece.addr; addr >= piece.addr && off < uint64(len(piece.bytes)) && uint64(size) <= uint64(len(piece.bytes))-off {
			return piece.bytes[off:]
		}
	}
	m.fault("accesses %d bytes at %#x", size, addr)
	return make([]byte, 8)
}

func (m *machine) push(v uint64) {
	m.reg[rsp] -= 8
	binary.LittleEndian.PutUint64(m.at(m.reg[rsp], 8), v)
}

func (m *machine) pop() uint64 {
	v := binary.LittleEndian.Uint64(m.at(m.reg[rsp], 8))
	m.reg[rsp] += 8
	return v
}

// operand is a register part or memory.
type operand struct {
	reg   int // -1: memory
	shift uint
	addr  uint64
	size  int // bytes
}

func register(r x86asm.Reg) operand {
	switch {
	case r >= x86asm.AL && r <= x86asm.BL:
		return operand{reg: int(r - x86asm.AL), size: 1}
	case r >= x86asm.AH && r <= x86asm.BH:
		return operand{reg: int(r - x86asm.AH), shift: 8, size: 1}
	case r >= x86asm.AX && r <= x86asm.R15W:
		return operand{reg: int(r - x86asm.AX), size: 2}
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return operand{reg: int(r - x86asm.EAX), size: 4}
	case r >= x86asm.RAX && r <= x86asm.R15:
		return operand{reg: int(r - x86asm.RAX), size: 8}
	}
	panic("register " + r.String())
}

func (m *machine) address(mem x86asm.Mem) uint64 {
	addr := uint64(mem.Disp)
	if mem.Base != 0 {
		addr += m.reg[register(mem.Base).reg]
	}
	if mem.Index != 0 && mem.Scale != 0 {
		addr += m.reg[register(mem.Index).reg] * uint64(mem.Scale)
	}
	return addr
}

// operand returns argument n; memory has the size that the instruction says.
func (m *machine) operand(in x86asm.Inst, n int) operand {
	switch arg := in.Args[n].(type) {
	case x86asm.Reg:
		return register(arg)
	case x86asm.Mem:
		return operand{reg: -1, addr: m.address(arg), size: in.MemBytes}
	}
	panic(in.String())
}

func (m *machine) get(in x86asm.Inst, n int) uint64 {
	if imm, ok := in.Args[n].(x86asm.Imm); ok {
		return uint64(imm)
	}
	op := m.operand(in, n)
	if op.reg >= 0 {
		return m.reg[op.reg] >> op.shift & sizeMask(op.size)
	}
	b := m.at(op.addr, op.size)
	switch op.size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func (m *machine) set(in x86asm.Inst, n int, v uint64) {
	op := m.operand(in, n)
	switch {
	case op.reg < 0:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		copy(m.at(op.addr, op.size)[:op.size], b[:])
	case op.size >= 4:
		m.reg[op.reg] = v & sizeMask(op.size)
	default:
		mask := sizeMask(op.size) << op.shift
		m.reg[op.reg] = m.reg[op.reg]&^mask | v<<op.shift&mask
	}
}

func sizeMask(bytes int) uint64 { return 1<<(8*bytes) - 1 } // 8: 1<<64 is 0

// width returns the bytes that the instruction's first operand has.
func (m *machine) width(in x86asm.Inst) int { return m.operand(in, 0).size }

// flags sets the flags of a result of the given size, without carry and overflow.
func (m *machine) flags(v uint64, size int) {
	v &= sizeMask(size)
	m.zf, m.sf, m.cf, m.of = v == 0, v>>(8*size-1) == 1, false, false
}

// subtract returns a-b and sets the flags.
func (m *machine) subtract(a, b uint64, size int) uint64 {
	a, b = a&sizeMask(size), b&sizeMask(size)
	v := a - b
	m.flags(v, size)
	m.cf = a < b
	m.of = (a^b)&(a^v)>>(8*size-1)&1 == 1
	return v
}

func (m *machine) taken(op x86asm.Op) bool {
	switch op {
	case x86asm.JE:
		return m.zf
	case x86asm.JNE:
		return !m.zf
	case x86asm.JA:
		return !m.cf && !m.zf
	case x86asm.JBE:
		return m.cf || m.zf
	case x86asm.JAE:
		return !m.cf
	case x86asm.JB:
		return m.cf
	case x86asm.JS:
		return m.sf
	case x86asm.JNS:
		return !m.sf
	case x86asm.JGE:
		return m.sf == m.of
	case x86asm.JL:
		return m.sf != m.of
	}
	m.fault("unknown jump %v", op)
	return false
}

// step executes the instruction at pc and returns where to go on.
func (m *machine) step(pc uint64) uint64 {
	off := int(pc - m.image.Base)
	in, ok := m.insns[off]
	if !ok {
		var err error
		if in, err = x86asm.Decode(m.image.Code[off:], 64); err != nil {
			m.fault("at offset %#x: %v", off, err)
			return pc
		}
		m.insns[off] = in
	}
	next := pc + uint64(in.Len)
	switch in.Op {
	case x86asm.PUSH:
		m.push(m.get(in, 0))
	case x86asm.LEAVE:
		m.reg[rsp] = m.reg[rbp]
		m.reg[rbp] = m.pop()
	case x86asm.RET:
		return m.pop()
	case x86asm.CALL:
		m.push(next)
		return m.helper(next + uint64(in.Args[0].(x86asm.Rel)))
	case x86asm.JMP:
		return next + uint64(in.Args[0].(x86asm.Rel))
	case x86asm.MOV:
		m.set(in, 0, m.get(in, 1))
	case x86asm.MOVZX:
		m.set(in, 0, m.get(in, 1))
	case x86asm.LEA:
		m.set(in, 0, m.address(in.Args[1].(x86asm.Mem)))
	case x86asm.XCHG:
		a, b := m.get(in, 0), m.get(in, 1)
		m.set(in, 0, b)
		m.set(in, 1, a)
	case x86asm.BSWAP:
		m.set(in, 0, uint64(bits.ReverseBytes32(uint32(m.get(in, 0)))))
	case x86asm.ADD:
		v := m.get(in, 0) + m.get(in, 1)
		m.flags(v, m.width(in))
		m.set(in, 0, v)
	case x86asm.SUB:
		m.set(in, 0, m.subtract(m.get(in, 0), m.get(in, 1), m.width(in)))
	case x86asm.CMP:
		m.subtract(m.get(in, 0), m.get(in, 1), m.width(in))
	case x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.TEST:
		v := m.get(in, 0)
		switch in.Op {
		case x86asm.OR:
			v |= m.get(in, 1)
		case x86asm.XOR:
			v ^= m.get(in, 1)
		default:
			v &= m.get(in, 1)
		}
		m.flags(v, m.width(in))
		if in.Op != x86asm.TEST {
			m.set(in, 0, v)
		}
	case x86asm.NEG:
		m.set(in, 0, m.subtract(0, m.get(in, 0), m.width(in)))
	case x86asm.IMUL: // the low half is the same with and without signs
		if in.Args[2] != nil {
			m.set(in, 0, m.get(in, 1)*m.get(in, 2))
		} else {
			m.set(in, 0, m.get(in, 0)*m.get(in, 1))
		}
	case x86asm.DIV:
		by := m.get(in, 0)
		dividend := m.reg[rdx]<<32 | m.reg[rax]&0xffffffff
		if by == 0 || dividend/by > 0xffffffff {
			m.fault("at offset %#x: divide error", off)
			return pc
		}
		m.reg[rax], m.reg[rdx] = dividend/by, dividend%by
	case x86asm.SHL, x86asm.SHR, x86asm.ROL:
		m.shift(in)
	default:
		if _, jump := in.Args[0].(x86asm.Rel); !jump {
			m.fault("at offset %#x: %v is not what an emitter emits", off, in)
		} else if m.taken(in.Op) {
			return next + uint64(in.Args[0].(x86asm.Rel))
		}
	}
	return next
}

func (m *machine) shift(in x86asm.Inst) {
	size := m.width(in)
	count := m.get(in, 1) & 31
	if size == 8 {
		count = m.get(in, 1) & 63
	}
	v := m.get(in, 0)
	switch in.Op {
	case x86asm.SHL:
		v <<= count
	case x86asm.SHR:
		v >>= count
	case x86asm.ROL:
		v = v<<count | v>>(uint64(8*size)-count)
	}
	m.set(in, 0, v)
}

// helper does what the load helper at addr does and returns where to go on.
func (m *machine) helper(addr uint64) uint64 {
	sym, ok := m.funcs[addr]
	if !ok {
		m.fault("calls %#x, where nothing is", addr)
		return addr
	}
	kind, variant := size(sym/4), sym%4
	offset := int32(m.reg[rsi])
	if variant == byte1.indirect()%4 {
		offset += int32(m.reg[rbx])
	}
	bytes := int(inlined[kind].bytes)
	m.calls++
	m.executed += helperCost[kind]
	if variant == word.plain() {
		m.executed += signTestCost
	}
	value := make([]byte, bytes)
	switch headlen := int32(m.reg[r9]); {
	case variant == word.indirect() && offset < 0,
		variant == word.plain() && offset < lowestOffset:
		return m.errorExit()
	case variant == word.negative(), variant == word.plain() && offset < 0:
		pos, ok := m.skb.LoadPointerNeg(offset, bytes)
		if !ok {
			return m.errorExit()
		}
		copy(value, m.at(m.reg[r8]+uint64(pos), bytes))
	case headlen-offset >= int32(bytes):
		copy(value, m.at(m.reg[r8]+uint64(uint32(offset)), bytes))
	case m.reg[rdi] != skbAddr || !m.skb.CopyBits(offset, value):
		return m.errorExit()
	default:
		// The scratch word, whoever else may think it is his.
		copy(m.at(m.reg[rbp]-12, 4), value)
	}
	var loaded uint32
	for _, b := range value {
		loaded = loaded<<8 | uint32(b)
	}
	if kind == msh {
		m.reg[rbx] = uint64(loaded&15) << 2
	} else {
		m.reg[rax] = uint64(loaded)
	}
	for _, r := range []int{rcx, rdx, rsi, r10, r11} {
		m.reg[r] = 0xbad0bad0bad0bad0
	}
	return m.pop()
}

// errorExit returns 0 from the filter.
func (m *machine) errorExit() uint64 {
	m.reg[rax] = 0
	m.reg[rbx] = binary.LittleEndian.Uint64(m.at(m.reg[rbp]-8, 8))
	m.reg[rsp] = m.reg[rbp]
	m.reg[rbp] = m.pop()
	return m.pop()
}
