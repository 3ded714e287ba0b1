package x86

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Asm assembles a routine: the methods of [Buf], and jumps to labels and to
// addresses. The first pass is the calls of its methods, the second is Bytes,
// which knows the labels and the load address. Jumps and calls that it
// resolves have 32-bit displacements.
type Asm struct {
	Buf
	labels []int // offset of each label, -1 while unbound
	fixups []fixup
}

// Label is a place in the code of one Asm.
type Label int

// fixup is a 32-bit displacement to be filled in; it counts from its own end.
type fixup struct {
	at       int // offset of the displacement
	label    Label
	addr     uint64 // the target instead of a label
	absolute bool   // the target is addr
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

// Jmp is a jump to a label.
func (a *Asm) Jmp(l Label) { a.JmpNear(0); a.fix(l) }

// Jcc is a conditional jump to a label.
func (a *Asm) Jcc(cc Cond, l Label) { a.JccNear(cc, 0); a.fix(l) }

// CallLabel is a call of a label.
func (a *Asm) CallLabel(l Label) { a.CallNear(0); a.fix(l) }

// LeaLabel loads the address of a label.
func (a *Asm) LeaLabel(dst Reg, l Label) { a.Lea(W64, dst, RIP(0)); a.fix(l) }

// JmpTo is a jump to an address within 2 GiB of the code.
func (a *Asm) JmpTo(addr uint64) { a.JmpNear(0); a.fixAddr(addr) }

// Call is a call of an address within 2 GiB of the code. A farther one needs
// MovImm64 and CallRM.
func (a *Asm) Call(addr uint64) { a.CallNear(0); a.fixAddr(addr) }

// Align fills up with nops to a multiple of n bytes from the start.
func (a *Asm) Align(n int) {
	for len(a.Buf)%n != 0 {
		a.Bare(Nop)
	}
}

// fix makes the displacement that ends here one to a label.
func (a *Asm) fix(l Label) {
	a.fixups = append(a.fixups, fixup{at: len(a.Buf) - 4, label: l})
}

func (a *Asm) fixAddr(addr uint64) {
	a.fixups = append(a.fixups, fixup{at: len(a.Buf) - 4, addr: addr, absolute: true})
}

// Bytes resolves labels and addresses for code loaded at base and returns the
// code, which shares the assembler's buffer. It may be called again with
// another base. Errors: a label that was never bound; an address that a 32-bit
// displacement cannot reach.
func (a *Asm) Bytes(base uint64) ([]byte, error) {
	for _, f := range a.fixups {
		end := base + uint64(f.at) + 4
		target := f.addr
		if !f.absolute {
			if a.labels[f.label] < 0 {
				return nil, fmt.Errorf("code at offset %#x refers to label %d, which is bound nowhere", f.at, f.label)
			}
			target = base + uint64(a.labels[f.label])
		}
		disp := int64(target - end)
		if disp < math.MinInt32 || disp > math.MaxInt32 {
			return nil, fmt.Errorf("code at %#x cannot reach %#x: it is more than 2 GiB away", end-4, target)
		}
		binary.LittleEndian.PutUint32(a.Buf[f.at:], uint32(disp))
	}
	return a.Buf, nil
}

// Reset empties the assembler and keeps its buffers.
func (a *Asm) Reset() {
	a.Buf, a.labels, a.fixups = a.Buf[:0], a.labels[:0], a.fixups[:0]
}
