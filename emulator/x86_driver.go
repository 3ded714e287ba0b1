package emulator

import "github.com/kjit-project/kjit/internal/x86"

// calleeSaved are the registers that code must leave as they were, in the
// order of the Broken bits.
var calleeSaved = []x86.Reg{x86.BX, x86.BP, x86.R12, x86.R13, x86.R14, x86.R15}

// pattern is what a callee-saved register holds at entry. It looks like a
// kernel address where nothing is, and no 32-bit operation leaves it alone.
func pattern(r x86.Reg) int32 { return -0x2152c000 + int32(r)*0x101 }

// assembleDriver makes the driver for base. stack is the address that rsp has
// in the caller, program that of the second argument; all addresses are within
// 2 GiB.
func assembleDriver(base, control, stack, program uint64) (*driver, error) {
	var a x86.Asm
	abs := func(addr uint64, emit func(x86.RM)) {
		// The displacement counts from the end, so the length comes first.
		start := len(a.Buf)
		emit(x86.RIP(0))
		end := base + uint64(len(a.Buf))
		a.Buf = a.Buf[:start]
		emit(x86.RIP(int32(addr - end)))
	}
	first, leave, pause := a.NewLabel(), a.NewLabel(), a.NewLabel()

	// enter calls the image, whose address is in r11, for the packet in rdi.
	// Of the registers that it may change all but these two, rsi and rcx are
	// poison.
	enter := func() {
		a.LeaLabel(x86.AX, leave)
		abs(stack-8, func(m x86.RM) { a.Mov(x86.W64, m, x86.AX) })
		abs(stack-8, func(m x86.RM) { a.Lea(x86.W64, x86.SP, m) })
		abs(program, func(m x86.RM) { a.Lea(x86.W64, x86.SI, m) })
		for _, r := range []x86.Reg{x86.AX, x86.DX, x86.R8, x86.R9, x86.R10} {
			a.MovImm(x86.W64, x86.R(r), poisonFor(r))
		}
		a.JmpRM(x86.R(x86.R11))
	}

	a.Bind(first)
	a.Bare(x86.Cld)
	for _, r := range calleeSaved {
		a.MovImm(x86.W64, x86.R(r), pattern(r))
	}
	abs(control+ctlCursor, func(m x86.RM) { a.Load(x86.W64, x86.AX, m) })
	a.Load(x86.W64, x86.DI, x86.At(x86.AX, descSkb))
	a.MovImm(x86.W64, x86.R(x86.CX), poisonFor(x86.CX))
	abs(control+ctlEntry, func(m x86.RM) { a.Load(x86.W64, x86.R11, m) })
	enter()

	a.Bind(leave)
	const cursor, difference = x86.R10, x86.DX
	abs(control+ctlCursor, func(m x86.RM) { a.Load(x86.W64, cursor, m) })
	a.Mov(x86.W32, x86.At(cursor, descValue), x86.AX)
	a.AluImm8(x86.Add, x86.W64, x86.R(cursor), descSize)
	abs(control+ctlCursor, func(m x86.RM) { a.Mov(x86.W64, m, cursor) })
	// Load the next packet's address in a way that shows the direction flag:
	// rsi moves on by 8, or back.
	a.Mov(x86.W64, x86.R(x86.SI), cursor)
	a.Bare(lodsq)
	a.Mov(x86.W64, x86.R(x86.DI), x86.AX)
	a.Lea(x86.W64, difference, x86.At(x86.SI, -8))
	a.Alu(x86.Xor, x86.W64, x86.R(difference), cursor)
	abs(stack, func(m x86.RM) { a.Lea(x86.W64, x86.CX, m) })
	a.Alu(x86.Xor, x86.W64, x86.R(x86.CX), x86.SP)
	a.Alu(x86.Or, x86.W64, x86.R(difference), x86.CX)
	// pause wants to know; in any other case rcx is poison now.
	a.Lea(x86.W64, x86.CX, x86.At(x86.CX, poisonFor(x86.CX)))
	for _, r := range calleeSaved {
		a.Lea(x86.W64, x86.R8, x86.At(r, -pattern(r)))
		a.Alu(x86.Or, x86.W64, x86.R(difference), x86.R8)
	}
	abs(control+ctlEntry, func(m x86.RM) { a.Load(x86.W64, x86.R11, m) })
	a.LeaLabel(x86.R8, pause)
	a.Test(x86.W64, x86.R(difference), difference)
	a.Cmov(x86.CondNE, x86.W64, x86.R11, x86.R(x86.R8))
	a.Test(x86.W64, x86.R(x86.DI), x86.DI)
	a.Cmov(x86.CondE, x86.W64, x86.R11, x86.R(x86.R8))
	enter()

	// The window is done, or a promise was broken: find out which, a bit for
	// each.
	a.Bind(pause)
	a.Alu(x86.Xor, x86.W32, x86.R(x86.R8), x86.R8)
	bit := uint8(0)
	note := func(difference x86.Reg) {
		a.Alu(x86.Xor, x86.W32, x86.R(x86.DX), x86.DX)
		a.Test(x86.W64, x86.R(difference), difference)
		a.Setcc(x86.CondNE, x86.R(x86.DX))
		a.ShiftImm(x86.Shl, x86.W32, x86.R(x86.DX), bit)
		a.Alu(x86.Or, x86.W32, x86.R(x86.R8), x86.DX)
		bit++
	}
	for _, r := range calleeSaved {
		a.Lea(x86.W64, x86.R9, x86.At(r, -pattern(r)))
		note(x86.R9)
	}
	a.Lea(x86.W64, x86.CX, x86.At(x86.CX, -poisonFor(x86.CX)))
	note(x86.CX)
	abs(control+ctlCursor, func(m x86.RM) { a.Lea(x86.W64, x86.SI, m) })
	a.Mov(x86.W64, x86.R(x86.R9), x86.SI)
	a.Bare(lodsq) // rax = cursor
	a.Lea(x86.W64, x86.SI, x86.At(x86.SI, -8))
	a.Alu(x86.Xor, x86.W64, x86.R(x86.SI), x86.R9)
	note(x86.SI)
	a.Mov(x86.W32, x86.At(x86.AX, descBroken-descSize), x86.R8)
	a.Test(x86.W64, x86.R(x86.DI), x86.DI)
	a.Jcc(x86.CondNE, first)
	halt := a.Here()
	a.Bare(x86.Hlt)
	halted := a.Here()

	code, err := a.Bytes(base)
	if err != nil {
		return nil, err
	}
	at := func(l x86.Label) uint64 { return base + uint64(a.Offset(l)) }
	return &driver{code: code, begin: at(first), first: at(first), leave: at(leave), pause: at(pause), halt: at(halt), halted: at(halted)}, nil
}

const (
	lodsq x86.Bare = "\x48\xad" // rax = [rsi]; rsi moves on, or back if the direction flag is set
)
