package arm

import (
	"fmt"
	"slices"
)

// Asm assembles a routine: the methods of [Buf], branches to labels and to
// addresses, and constants from a literal pool. The first pass is the calls of
// its methods, the second is Bytes, which knows labels and the load address.
type Asm struct {
	Buf
	labels []int // offset of each label, -1 while unbound
	fixups []fixup
	pool   []uint32
	loads  []load
}

// Label is a place in the code of one Asm.
type Label int

// fixup is a branch to be pointed at a label or an address.
type fixup struct {
	at       int // offset of the instruction
	label    Label
	addr     uint32 // the target instead of a label
	absolute bool   // the target is addr
}

// load is an ldr to be pointed at a constant.
type load struct {
	at   int // offset of the instruction
	slot int // index in the pool
}

// NewLabel makes a label that is not bound to a place yet.
func (a *Asm) NewLabel() Label {
	a.labels = append(a.labels, -1)
	return Label(len(a.labels) - 1)
}

// Bind puts the label here. Binding it again moves it.
func (a *Asm) Bind(l Label) { a.labels[l] = len(a.Buf) }

// Here makes a label bound to this place.
func (a *Asm) Here() Label {
	l := a.NewLabel()
	a.Bind(l)
	return l
}

// Offset returns the offset of a bound label, -1 for one that is not bound.
func (a *Asm) Offset(l Label) int { return a.labels[l] }

// Branch is a branch to a label.
func (a *Asm) Branch(cond Cond, l Label) {
	a.fixups = append(a.fixups, fixup{at: len(a.Buf), label: l})
	a.B(cond, 0)
}

// CallLabel is a call of a label.
func (a *Asm) CallLabel(cond Cond, l Label) {
	a.fixups = append(a.fixups, fixup{at: len(a.Buf), label: l})
	a.Bl(cond, 0)
}

// BranchTo is a branch to an address within 32 MiB of the code.
func (a *Asm) BranchTo(cond Cond, addr uint32) {
	a.fixups = append(a.fixups, fixup{at: len(a.Buf), addr: addr, absolute: true})
	a.B(cond, 0)
}

// Call is a call of an address within 32 MiB of the code. A farther one needs
// Const and Blx.
func (a *Asm) Call(cond Cond, addr uint32) {
	a.fixups = append(a.fixups, fixup{at: len(a.Buf), addr: addr, absolute: true})
	a.Bl(cond, 0)
}

// Const loads a constant: one instruction, and a word of the literal pool for
// what no immediate holds.
func (a *Asm) Const(cond Cond, rd Reg, v uint32) {
	if op, ok := ImmOp2(v); ok {
		a.Mov(cond, rd, op)
		return
	}
	if op, ok := ImmOp2(^v); ok {
		a.Mvn(cond, rd, op)
		return
	}
	slot := slices.Index(a.pool, v)
	if slot < 0 {
		slot = len(a.pool)
		a.pool = append(a.pool, v)
	}
	a.loads = append(a.loads, load{at: len(a.Buf), slot: slot})
	a.Ldr(cond, rd, At(PC, 0))
}

// Pool puts the literal pool here: the constants of all code since the last
// one. Nothing may run into it, and it must be within 4 KiB of its users. Bytes
// does it at the end.
func (a *Asm) Pool() error {
	at := len(a.Buf)
	for _, l := range a.loads {
		disp := at + 4*l.slot - (l.at + pcAhead)
		if disp > 0xfff {
			return fmt.Errorf("code at offset %#x is %#x bytes away from its constant: put a pool nearer", l.at, disp)
		}
		if disp < 0 { // the pool is right behind the load
			a.SetWord(l.at, a.WordAt(l.at)&^bitUp)
			disp = -disp
		}
		a.SetWord(l.at, a.WordAt(l.at)|uint32(disp))
	}
	for _, v := range a.pool {
		a.Word(v)
	}
	a.pool, a.loads = a.pool[:0], a.loads[:0]
	return nil
}

// Align fills up with nops to a multiple of n bytes from the start; n is a
// multiple of 4.
func (a *Asm) Align(n int) {
	for len(a.Buf)%n != 0 {
		a.Nop()
	}
}

// Bytes places the literal pool, resolves labels and addresses for code loaded
// at base, and returns the code, which shares the assembler's buffer. It may be
// called again with another base. Errors: a label that was never bound; an
// address that a branch cannot reach; a constant too far away.
func (a *Asm) Bytes(base uint32) ([]byte, error) {
	if err := a.Pool(); err != nil {
		return nil, err
	}
	for _, f := range a.fixups {
		from := base + uint32(f.at) + pcAhead
		target := f.addr
		if !f.absolute {
			if a.labels[f.label] < 0 {
				return nil, fmt.Errorf("code at offset %#x refers to label %d, which is bound nowhere", f.at, f.label)
			}
			target = base + uint32(a.labels[f.label])
		}
		disp := int32(target - from)
		if disp < -1<<25 || disp >= 1<<25 {
			return nil, fmt.Errorf("code at %#x cannot reach %#x: it is more than 32 MiB away", from-pcAhead, target)
		}
		a.SetWord(f.at, a.WordAt(f.at)&0xff000000|imm24(disp))
	}
	return a.Buf, nil
}

// Reset empties the assembler and keeps its buffers.
func (a *Asm) Reset() {
	a.Buf, a.labels, a.fixups = a.Buf[:0], a.labels[:0], a.fixups[:0]
	a.pool, a.loads = a.pool[:0], a.loads[:0]
}
