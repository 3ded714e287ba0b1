package jitarm

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"golang.org/x/arch/arm/armasm"

	"github.com/kjit-project/kjit/internal/jit"
	"github.com/kjit-project/kjit/internal/jit/jittest"
	"github.com/kjit-project/kjit/kernelabi"
)

// machine executes an image in Go, instruction by instruction as x/arch decodes
// them, with the kernel's helpers as Go functions. It knows what the emitters
// use and is strict: an unknown instruction, one that the processor does not
// have, an access outside the frame, the packet and the structs, an unaligned
// one on ARMv5, or a changed callee-saved register is a fault. Registers that a
// helper may change are changed.
type machine struct {
	image *kernelabi.Image
	skb   *kernelabi.Skb // nil: a seccomp filter
	data  []byte         // struct seccomp_data
	mem   []memory
	funcs map[uint32]symbol

	reg        [16]uint32
	n, z, c, v bool
	executed   int    // instructions of the image
	calls      int    // of helpers
	misaligned bool   // at some call, sp was no multiple of 8
	x          uint32 // r5 at entry: what leaks if X is not cleared
	lax        bool   // ARMv5 takes unaligned words, as the emulator does that faults were measured with
	err        error
}

// memory is a piece of the address space.
type memory struct {
	addr  uint32
	bytes []byte
}

// Where a machine keeps things.
const (
	skbAddr   = 0xc1000000
	devAddr   = 0xc2000000
	dataAddr  = 0xc3000000
	stackAddr = 0xc4000000
	caller    = 0xc0008000
	budget    = 200000

	stackSize = 8192

	leak = 0xdead5555 // r5 at entry, and the like in other registers
)

// newMachine returns a machine that runs an image on a packet.
func newMachine(image *kernelabi.Image, skb *kernelabi.Skb) *machine {
	m := &machine{image: image, skb: skb, x: leak}
	sk, dev := jittest.Structs(image.Profile, skb, dataAddr, devAddr)
	m.place(skb.CPU,
		memory{dataAddr, skb.Packet[:skb.Headlen]}, memory{skbAddr, sk}, memory{devAddr, dev})
	return m
}

// newSeccompMachine returns a machine that runs an image on a system call.
func newSeccompMachine(image *kernelabi.Image, data *[jit.SeccompDataSize]byte) *machine {
	m := &machine{image: image, data: data[:], x: leak}
	m.place(0, memory{skbAddr, data[:]})
	return m
}

// place fills the address space.
func (m *machine) place(cpu uint32, pieces ...memory) {
	stack := make([]byte, stackSize)
	for i := range stack {
		stack[i] = 0xa5
	}
	binary.LittleEndian.PutUint32(stack[m.image.Profile.Layout[kernelabi.ThreadInfoCPU]:], cpu)
	m.mem = append(pieces, memory{stackAddr, stack}, memory{uint32(m.image.Base), m.image.Code})
	m.funcs = map[uint32]symbol{}
	for s, name := range symbolNames {
		if addr, ok := m.image.Profile.Symbols[name]; ok {
			m.funcs[uint32(addr)] = symbol(s)
		}
	}
}

// run executes the image until it returns to its caller.
func (m *machine) run() (uint32, error) {
	for i := range m.reg {
		m.reg[i] = 0xdead0000 + uint32(i)*0x1111
	}
	m.reg[0], m.reg[5] = skbAddr, m.x
	m.reg[13] = stackAddr + stackSize - 8
	m.reg[14] = caller
	m.reg[15] = uint32(m.image.Base)
	before := m.reg
	for m.err == nil && m.reg[15] != caller {
		pc := m.reg[15]
		if m.executed++; m.executed > budget {
			m.fault("endless loop")
			break
		}
		if !m.image.Contains(uint64(pc)) {
			m.fault("runs off the image to %#x", pc)
			break
		}
		m.step(pc)
	}
	if m.err != nil {
		return 0, m.err
	}
	for _, r := range []int{4, 5, 6, 7, 8, 9, 10, 11, 13} {
		if m.reg[r] != before[r] {
			return 0, fmt.Errorf("callee-saved register %d changed", r)
		}
	}
	return m.reg[0], nil
}

func (m *machine) fault(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("at offset %#x: %w", m.reg[15]-uint32(m.image.Base), fmt.Errorf(format, args...))
	}
}

// at returns size bytes of memory.
func (m *machine) at(addr uint32, size uint32) []byte {
	if m.image.Profile.Arch == kernelabi.ARMv5 && addr%size != 0 && !m.lax {
		m.fault("accesses %d bytes at %#x, which ARMv5 cannot", size, addr)
	}
	for _, piece := range m.mem {
		if off := addr - piece.addr; addr >= piece.addr && uint64(off)+uint64(size) <= uint64(len(piece.bytes)) {
			return piece.bytes[off:]
		}
	}
	m.fault("accesses %d bytes at %#x", size, addr)
	return make([]byte, 4)
}

func (m *machine) word(addr uint32) uint32 { return binary.LittleEndian.Uint32(m.at(addr, 4)) }

func (m *machine) setWord(addr, v uint32) {
	if addr < stackAddr || addr >= stackAddr+stackSize {
		m.fault("writes to %#x", addr)
		return
	}
	binary.LittleEndian.PutUint32(m.at(addr, 4), v)
}

// get returns a register as an operand: the program counter is ahead.
func (m *machine) get(r armasm.Reg) uint32 {
	if r == armasm.PC {
		return m.reg[15] + pcAhead
	}
	return m.reg[r]
}

// operand evaluates an argument that is no memory.
func (m *machine) operand(arg armasm.Arg) uint32 {
	switch arg := arg.(type) {
	case armasm.Imm:
		return uint32(arg)
	case armasm.Reg:
		return m.get(arg)
	case armasm.RegShift:
		return shifted(m.get(arg.Reg), arg.Shift, uint32(arg.Count))
	}
	m.fault("operand %v is not what an emitter emits", arg)
	return 0
}

// shifted takes a count of 0 to 255, as the processor does.
func shifted(v uint32, by armasm.Shift, count uint32) uint32 {
	switch by {
	case armasm.ShiftLeft:
		return uint32(uint64(v) << min(count, 32))
	case armasm.ShiftRight:
		return uint32(uint64(v) >> min(count, 32))
	}
	panic("shift " + by.String())
}

// address evaluates a memory operand without write-back.
func (m *machine) address(arg armasm.Arg) uint32 {
	mem, ok := arg.(armasm.Mem)
	if !ok || mem.Mode != armasm.AddrOffset || mem.Sign < 0 || mem.Count != 0 {
		m.fault("operand %v is not what an emitter emits", arg)
		return 0
	}
	addr := m.get(mem.Base) + uint32(int32(mem.Offset))
	if mem.Sign != 0 {
		addr += m.get(mem.Index)
	}
	return addr
}

// holds reports whether a condition is true.
func (m *machine) holds(cond uint32) bool {
	var yes bool
	switch cond >> 1 {
	case 0:
		yes = m.z
	case 1:
		yes = m.c
	case 2:
		yes = m.n
	case 3:
		yes = m.v
	case 4:
		yes = m.c && !m.z
	case 5:
		yes = m.n == m.v
	case 6:
		yes = !m.z && m.n == m.v
	case 7:
		return true
	}
	return yes == (cond&1 == 0)
}

// step executes the instruction at pc.
func (m *machine) step(pc uint32) {
	off := pc - uint32(m.image.Base)
	in, err := decode(m.image.Code[off:])
	if err != nil {
		m.fault("%v", err)
		return
	}
	next := pc + 4
	if m.holds(in.Enc >> 28) {
		next = m.execute(in, next)
	}
	if m.err == nil {
		m.reg[15] = next
	}
}

// execute executes an instruction whose condition holds and returns where to go
// on.
func (m *machine) execute(in armasm.Inst, next uint32) uint32 {
	set := func(v uint32) {
		r := in.Args[0].(armasm.Reg)
		if r == armasm.PC {
			m.fault("%v writes the program counter", in)
		}
		m.reg[r] = v
	}
	arg := func(n int) uint32 { return m.operand(in.Args[n]) }
	name := mnemonic(in)
	if m.image.Profile.Arch == kernelabi.ARMv5 && !inARMv5[name] {
		m.fault("%v is newer than ARMv5TE", in)
	}
	if name == "UDIV" && !m.image.Profile.Features.Idiva {
		m.fault("%v needs hardware division", in)
	}
	switch name {
	case "MOV":
		set(arg(1))
	case "MVN":
		set(^arg(1))
	case "MOVW":
		set(arg(1))
	case "MOVT":
		set(arg(0)&0xffff | arg(1)<<16)
	case "ADD":
		set(arg(1) + arg(2))
	case "SUB":
		set(arg(1) - arg(2))
	case "RSB":
		set(arg(2) - arg(1))
	case "AND":
		set(arg(1) & arg(2))
	case "ORR":
		set(arg(1) | arg(2))
	case "EOR":
		set(arg(1) ^ arg(2))
	case "BIC":
		set(arg(1) &^ arg(2))
	case "LSL":
		set(shifted(arg(1), armasm.ShiftLeft, arg(2)&0xff))
	case "LSR":
		set(shifted(arg(1), armasm.ShiftRight, arg(2)&0xff))
	case "MUL":
		if m.image.Profile.Arch == kernelabi.ARMv5 && in.Args[0] == in.Args[1] {
			m.fault("%v is unpredictable before ARMv6", in)
		}
		set(arg(1) * arg(2))
	case "UMULL":
		product := uint64(arg(2)) * uint64(arg(3))
		set(uint32(product))
		m.reg[in.Args[1].(armasm.Reg)] = uint32(product >> 32)
	case "UDIV":
		if by := arg(2); by == 0 {
			set(0)
		} else {
			set(arg(1) / by)
		}
	case "MLS":
		set(arg(3) - arg(1)*arg(2))
	case "REV":
		set(bits.ReverseBytes32(arg(1)))
	case "REV16":
		set(bits.RotateLeft32(bits.ReverseBytes32(arg(1)), 16))
	case "CMP":
		l, r := arg(0), arg(1)
		d := l - r
		m.n, m.z, m.c, m.v = d>>31 == 1, d == 0, l >= r, (l^r)&(l^d)>>31 == 1
	case "TST":
		d := arg(0) & arg(1)
		m.n, m.z = d>>31 == 1, d == 0 // an unrotated immediate leaves c alone; nobody looks
	case "LDR":
		set(m.word(m.address(in.Args[1])))
	case "LDRH":
		set(uint32(binary.LittleEndian.Uint16(m.at(m.address(in.Args[1]), 2))))
	case "LDRB":
		set(uint32(m.at(m.address(in.Args[1]), 1)[0]))
	case "STR":
		m.setWord(m.address(in.Args[1]), arg(0))
	case "PUSH", "STMDB":
		set := uint16(in.Enc)
		m.reg[13] -= uint32(4 * bits.OnesCount16(set))
		addr := m.reg[13]
		for r := range armasm.Reg(16) {
			if set>>r&1 != 0 {
				v := m.get(r)
				if r == armasm.SP {
					m.fault("%v pushes sp", in)
				}
				m.setWord(addr, v)
				addr += 4
			}
		}
	case "POP", "LDM":
		return m.popAll(in, next)
	case "B":
		return m.reg[15] + pcAhead + uint32(int32(in.Enc<<8)>>6)
	case "BX":
		return arg(0)
	case "BLX":
		m.reg[14] = next
		m.helper(arg(0))
	default:
		m.fault("%v is not what an emitter emits", in)
	}
	return next
}

// popAll loads registers from the stack, with write-back or without.
func (m *machine) popAll(in armasm.Inst, next uint32) uint32 {
	if in.Enc>>16&15 != 13 {
		m.fault("%v is not what an emitter emits", in)
		return next
	}
	addr := m.reg[13]
	end := addr + uint32(4*bits.OnesCount16(uint16(in.Enc)))
	if in.Enc>>21&1 != 0 {
		m.reg[13] = end
	}
	for r := range 16 {
		if in.Enc>>r&1 != 0 {
			v := m.word(addr)
			addr += 4
			if r == 15 {
				return v
			}
			m.reg[r] = v
		}
	}
	return next
}

// helper does what the kernel function at addr does.
func (m *machine) helper(addr uint32) {
	sym, ok := m.funcs[addr]
	if !ok {
		m.fault("calls %#x, where nothing is", addr)
		return
	}
	m.calls++
	m.misaligned = m.misaligned || m.reg[13]%8 != 0
	r0, r1 := m.reg[0], m.reg[1]
	for _, r := range []int{1, 2, 3, 12, 14} {
		m.reg[r] = 0xbad0bad0
	}
	m.n, m.z, m.c, m.v = !m.n, !m.z, !m.c, !m.v
	switch sym {
	case symUdiv:
		if r1 == 0 {
			m.fault("divides by 0")
			return
		}
		m.reg[0] = r0 / r1
	case symMod:
		if r1 == 0 {
			m.fault("divides by 0")
			return
		}
		m.reg[0] = r0 % r1
	case symSeccompLoad:
		m.reg[0] = binary.LittleEndian.Uint32(m.data[r0:])
	case symPayOffset:
		m.wantSkb(r0)
		m.reg[0] = m.skb.PayOffset()
	default:
		m.wantSkb(r0)
		size := map[symbol]int{symLoadByte: 1, symLoadHalf: 2, symLoadWord: 4}[sym]
		m.loadHelper(int32(r1), size)
	}
}

func (m *machine) wantSkb(r0 uint32) {
	if r0 != skbAddr || m.skb == nil {
		m.fault("passes %#x as the skb", r0)
		m.skb = &kernelabi.Skb{}
	}
}

// loadHelper is jit_get_skb_*. The one of 3.12 knows no negative offsets.
func (m *machine) loadHelper(off int32, size int) {
	knowsNegative := m.image.Profile.Symbols["jit_mod"] != 0
	value, ok := make([]byte, size), false
	switch {
	case off >= 0:
		ok = m.skb.CopyBits(off, value)
	case knowsNegative:
		var pos int
		if pos, ok = m.skb.LoadPointerNeg(off, size); ok {
			copy(value, m.skb.Packet[pos:pos+size])
		}
	default:
		m.fault("a helper reads in front of the packet")
	}
	m.reg[0] = 0xbad0bad0
	if m.reg[1] = 0xfffffff2; ok { // -EFAULT
		m.reg[0], m.reg[1] = 0, 0
		for _, b := range value {
			m.reg[0] = m.reg[0]<<8 | uint32(b)
		}
	}
}

// decoded are the instructions that decode has seen; x/arch takes its time.
var decoded = map[uint32]armasm.Inst{}

func decode(code []byte) (armasm.Inst, error) {
	enc := binary.LittleEndian.Uint32(code)
	in, ok := decoded[enc]
	if !ok {
		var err error
		if in, err = armasm.Decode(code, armasm.ModeARM); err != nil {
			return in, err
		}
		decoded[enc] = in
	}
	return in, nil
}

// mnemonic is the operation without its condition.
func mnemonic(in armasm.Inst) string {
	name := in.Op.String()
	for i := range name {
		if name[i] == '.' {
			return name[:i]
		}
	}
	return name
}

// inARMv5 are the operations that ARMv5TE has, among those that emitters use.
var inARMv5 = map[string]bool{
	"MOV": true, "MVN": true, "ADD": true, "SUB": true, "RSB": true, "AND": true, "ORR": true, "EOR": true,
	"BIC": true, "LSL": true, "LSR": true, "MUL": true, "UMULL": true, "CMP": true, "TST": true,
	"LDR": true, "LDRH": true, "LDRB": true, "STR": true, "PUSH": true, "POP": true, "STMDB": true, "LDM": true,
	"B": true, "BX": true, "BLX": true,
}
