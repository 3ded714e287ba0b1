package emulator

import "github.com/kjit-project/kjit/internal/x86"

// The batch driver: guest code that calls the image once for every input of a
// window, so that entering and leaving the engine is paid for once. It finds
// what to do in the control page.
//
//	control page:  0 cursor   address of the next descriptor
//	               8 end      address behind the last
//	              16 entry    address of the image
//	              24 stale    pages from here on to [32] were mapped anew
//	              64 ...      descriptors
//	descriptor:    0 skb, 8 value returned, 12 promises broken
//
// Every memory access of it counts in the time per packet. So registers that
// code has to preserve are set once and again only after code that did not,
// and what all inputs of a window have in common is not in the descriptors.
const (
	ctlCursor      = 0
	ctlEnd         = 8
	ctlEntry       = 16
	ctlStale       = 24
	ctlStaleEnd    = 32
	ctlDescriptors = 64

	descSkb    = 0
	descValue  = 8
	descBroken = 12
	descSize   = 16
)

// calleeSaved are the registers that code must leave as they were, in the
// order of the Broken bits.
var calleeSaved = []x86.Reg{x86.BX, x86.BP, x86.R12, x86.R13, x86.R14, x86.R15}

// pattern is what a callee-saved register holds at entry. It looks like a
// kernel address where nothing is, and no 32-bit operation leaves it alone.
func pattern(r x86.Reg) int32 { return -0x2152c000 + int32(r)*0x101 }

// driver is the assembled driver.
type driver struct {
	code         []byte
	begin        uint64 // where a window starts
	enter, leave uint64 // the block that starts an input, the address it returns to
	halted       uint64 // RIP after the window
}

// assembleDriver makes the driver for base. stack is the address that rsp has
// before the call, program that of the second argument; all addresses are
// within 2 GiB.
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
	const cursor, left, difference = x86.R10, x86.R9, x86.DX
	bad := a.NewLabel()

	begin := a.Here()
	// Pages of a new image: this leaves the rest of the TLB alone, which the
	// host cannot do.
	abs(control+ctlStale, func(m x86.RM) { a.Load(x86.W64, x86.CX, m) })
	again, fresh := a.Here(), a.NewLabel()
	abs(control+ctlStaleEnd, func(m x86.RM) { a.AluLoad(x86.Cmp, x86.W64, x86.CX, m) })
	a.Jcc(x86.CondAE, fresh)
	a.Raw(0x0f, 0x01, 0x39) // invlpg [rcx]
	a.AluImm(x86.Add, x86.W64, x86.R(x86.CX), pageSize)
	abs(control+ctlStale, func(m x86.RM) { a.Mov(x86.W64, m, x86.CX) })
	a.Jmp(again)

	a.Bind(fresh)
	for _, r := range calleeSaved {
		a.MovImm(x86.W64, x86.R(r), pattern(r))
	}
	abs(stack, func(m x86.RM) { a.Lea(x86.W64, x86.SP, m) })
	abs(control+ctlCursor, func(m x86.RM) { a.Load(x86.W64, cursor, m) })
	a.Bare(x86.Cld)
	enter := a.NewLabel()
	a.Jmp(enter)

	a.Bind(enter)
	a.Load(x86.W64, x86.DI, x86.At(cursor, descSkb))
	abs(program, func(m x86.RM) { a.Lea(x86.W64, x86.SI, m) })
	for _, r := range []x86.Reg{x86.AX, x86.CX, x86.DX, x86.R8, x86.R9, x86.R10, x86.R11} {
		a.MovImm(x86.W64, x86.R(r), poisonFor(r))
	}
	abs(control+ctlEntry, func(m x86.RM) { a.CallRM(m) })

	leave := a.Here()
	abs(control+ctlCursor, func(m x86.RM) { a.Load(x86.W64, cursor, m) })
	a.Mov(x86.W32, x86.At(cursor, descValue), x86.AX)
	// The differences of all registers are gathered in one; rsi moves by 8 in
	// the direction that the flag says.
	abs(control+ctlEnd, func(m x86.RM) { a.Lea(x86.W64, x86.SI, m) })
	a.Bare(lodsq) // rax = end
	a.AluImm8(x86.Add, x86.W64, x86.R(cursor), descSize)
	abs(control+ctlCursor, func(m x86.RM) { a.Mov(x86.W64, m, cursor) })
	abs(control+ctlEnd+8, func(m x86.RM) { a.Lea(x86.W64, difference, m) })
	a.Alu(x86.Xor, x86.W64, x86.R(difference), x86.SI)
	abs(stack, func(m x86.RM) { a.Lea(x86.W64, x86.CX, m) })
	a.Alu(x86.Xor, x86.W64, x86.R(x86.CX), x86.SP)
	a.Alu(x86.Or, x86.W64, x86.R(difference), x86.CX)
	for _, r := range calleeSaved {
		a.Lea(x86.W64, x86.CX, x86.At(r, -pattern(r)))
		a.Alu(x86.Or, x86.W64, x86.R(difference), x86.CX)
	}
	// One conditional jump does for both ends of the loop: left is what is to
	// do, or 0 if there is a difference to look at.
	a.Mov(x86.W64, x86.R(left), x86.AX)
	a.Alu(x86.Sub, x86.W64, x86.R(left), cursor)
	a.Test(x86.W64, x86.R(difference), difference)
	a.MovImm32(x86.CX, 0)
	a.Cmov(x86.CondNE, x86.W64, left, x86.R(x86.CX))
	a.Test(x86.W64, x86.R(left), left)
	a.Jcc(x86.CondNE, enter)
	a.Test(x86.W64, x86.R(difference), difference)
	a.Jcc(x86.CondNE, bad)
	stop := a.Here()
	a.Bare(x86.Hlt)
	halted := a.Here()

	// Which promises were broken, a bit for each.
	a.Bind(bad)
	a.Alu(x86.Xor, x86.W32, x86.R(x86.R8), x86.R8)
	bit := uint8(0)
	note := func() { // whether rcx is not 0
		a.Alu(x86.Xor, x86.W32, x86.R(x86.DX), x86.DX)
		a.Test(x86.W64, x86.R(x86.CX), x86.CX)
		a.Setcc(x86.CondNE, x86.R(x86.DX))
		a.ShiftImm(x86.Shl, x86.W32, x86.R(x86.DX), bit)
		a.Alu(x86.Or, x86.W32, x86.R(x86.R8), x86.DX)
		bit++
	}
	for _, r := range calleeSaved {
		a.Lea(x86.W64, x86.CX, x86.At(r, -pattern(r)))
		note()
	}
	abs(stack, func(m x86.RM) { a.Lea(x86.W64, x86.CX, m) })
	a.Alu(x86.Xor, x86.W64, x86.R(x86.CX), x86.SP)
	note()
	abs(control+ctlEnd+8, func(m x86.RM) { a.Lea(x86.W64, x86.CX, m) })
	a.Alu(x86.Xor, x86.W64, x86.R(x86.CX), x86.SI)
	note()
	a.Mov(x86.W32, x86.At(cursor, descBroken-descSize), x86.R8)
	a.Alu(x86.Cmp, x86.W64, x86.R(cursor), x86.AX)
	a.Jcc(x86.CondE, stop)
	a.Jmp(begin)

	code, err := a.Bytes(base)
	if err != nil {
		return nil, err
	}
	return &driver{
		code:   code,
		begin:  base + uint64(a.Offset(begin)),
		enter:  base + uint64(a.Offset(enter)),
		leave:  base + uint64(a.Offset(leave)),
		halted: base + uint64(a.Offset(halted)),
	}, nil
}

// lodsq loads [rsi] into rax and moves rsi on, or back if the direction flag
// is set.
const lodsq x86.Bare = "\x48\xad"
