package emulator

import "github.com/kjit-project/kjit/internal/arm"

// armCalleeSaved are the registers that code must leave as they were, in the
// order of the Broken bits from BrokenR4 on.
var armCalleeSaved = []arm.Reg{arm.R4, arm.R5, arm.R6, arm.R7, arm.R8, arm.R9, arm.R10, arm.FP}

// armPattern is what a callee-saved register holds at entry: those of the
// mock-up that historic leaks were measured with.
func armPattern(r arm.Reg) uint32 { return 0xdead0000 + uint32(r)*0x1111 }

// armPoison is what a register holds that is worth nothing: no address where
// anything is.
func armPoison(r arm.Reg) uint32 { return 0xa14e5000 + uint32(r)*0x111 }

// armDriverPlan is what the driver has to know.
type armDriverPlan struct {
	control uint32 // address of the control page
	stack   uint32 // sp in the caller
	program uint32 // the second argument
	cpsr    uint32 // the state that code has to leave, flags aside
	halt    []byte
}

// The driver starts with a table of words, by their offsets.
const (
	armTabCPSR    = 0
	armTabSaved   = 4  // patterns of the callee-saved registers
	armTabStack   = 36 // and sp behind them
	armTabProgram = 40 // what r1, r12 and lr hold at entry
	armTabR12     = 44
	armTabLeave   = 48
	armTabR2      = 52
	armTabPause   = 56
	armTabSize    = 60
)

// assembleARMDriver makes the driver for base.
func assembleARMDriver(base uint32, p armDriverPlan) (*driver, error) {
	var a arm.Asm
	for range armTabSize / 4 {
		a.Word(0)
	}
	first, leave, pause := a.NewLabel(), a.NewLabel(), a.NewLabel()

	// Everything here but code under test has r3 = control page, lr = table.
	begin := a.Here()
	a.Const(arm.AL, arm.R3, p.control)
	a.Const(arm.AL, arm.R2, base)
	a.Ldr(arm.AL, arm.R1, arm.At(arm.R2, armTabCPSR))
	a.Word(msrAllR1)
	a.Mov(arm.AL, arm.LR, arm.R(arm.R2)) // every mode has its own lr
	a.Branch(arm.AL, first)

	// enter calls the image, whose address is in r3, for the packet in r0. lr
	// points to armTabProgram. Of the registers that code may change all but
	// these and r1 are poison.
	enter := func() {
		a.Ldm(arm.AL, arm.LR, arm.Regs(arm.R1, arm.IP, arm.LR))
		a.Bx(arm.AL, arm.R3)
	}

	a.Bind(first)
	a.Alu(arm.AL, arm.Add, arm.IP, arm.LR, arm.Imm(armTabSaved))
	a.Ldm(arm.AL, arm.IP, arm.Regs(armCalleeSaved...))
	a.Ldr(arm.AL, arm.SP, arm.At(arm.LR, armTabStack))
	a.Ldr(arm.AL, arm.R2, arm.At(arm.LR, armTabR2))
	a.Ldr(arm.AL, arm.R1, arm.At(arm.R3, ctlCursor))
	a.Ldr(arm.AL, arm.R0, arm.At(arm.R1, descSkb))
	a.Ldr(arm.AL, arm.R3, arm.At(arm.R3, ctlEntry))
	a.Alu(arm.AL, arm.Add, arm.LR, arm.LR, arm.Imm(armTabProgram))
	enter()

	a.Bind(leave)
	const stateDiff, diff = arm.R2, arm.IP
	a.Mrs(arm.AL, stateDiff)
	a.Const(arm.AL, arm.R3, p.control)
	a.Ldr(arm.AL, arm.R1, arm.At(arm.R3, ctlCursor))
	a.Str(arm.AL, arm.R0, arm.At(arm.R1, descValue))
	a.Ldr(arm.AL, arm.R0, arm.Pre(arm.R1, descSize+descSkb))
	a.Str(arm.AL, arm.R1, arm.At(arm.R3, ctlCursor))
	a.Alu(arm.AL, arm.Sub, arm.LR, arm.R3, arm.Imm(p.control-base))
	a.Ldr(arm.AL, arm.R3, arm.At(arm.R3, ctlEntry))
	a.Ldr(arm.AL, arm.R1, arm.Post(arm.LR, 4))
	a.Alu(arm.AL, arm.Eor, stateDiff, stateDiff, arm.R(arm.R1))
	a.Alu(arm.AL, arm.Bic, stateDiff, stateDiff, arm.Imm(0xf8000000)) // the flags
	a.Alu(arm.AL, arm.Bic, stateDiff, stateDiff, arm.Imm(0x000f0000))
	a.Mov(arm.AL, diff, arm.R(stateDiff))
	for _, r := range append(armCalleeSaved, arm.SP) {
		a.Ldr(arm.AL, arm.R1, arm.Post(arm.LR, 4))
		a.Alu(arm.AL, arm.Eor, arm.R1, arm.R1, arm.R(r))
		a.Alu(arm.AL, arm.Orr, diff, diff, arm.R(arm.R1))
	}
	// pause wants to know the state; in any other case r2 is poison now.
	a.Ldr(arm.AL, arm.R1, arm.At(arm.LR, armTabR2-armTabProgram))
	a.Alu(arm.AL, arm.Eor, stateDiff, stateDiff, arm.R(arm.R1))
	a.Compare(arm.AL, arm.Cmp, diff, arm.Imm(0))
	a.Ldr(arm.AL, diff, arm.At(arm.LR, armTabPause-armTabProgram))
	a.Mov(arm.NE, arm.R3, arm.R(diff))
	a.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
	a.Mov(arm.EQ, arm.R3, arm.R(diff))
	enter()

	// The window is done, or a promise was broken: find out which, a bit for
	// each.
	a.Bind(pause)
	const broken = arm.IP
	a.Const(arm.AL, arm.R3, p.control)
	a.Alu(arm.AL, arm.Sub, arm.LR, arm.R3, arm.Imm(p.control-base))
	a.Mov(arm.AL, broken, arm.Imm(0))
	note := func(r arm.Reg, entry int, bit Broken) {
		a.Ldr(arm.AL, arm.R1, arm.At(arm.LR, int32(entry)))
		a.Compare(arm.AL, arm.Cmp, r, arm.R(arm.R1))
		a.Alu(arm.NE, arm.Orr, broken, broken, arm.Imm(uint32(bit)))
	}
	for i, r := range armCalleeSaved {
		note(r, armTabSaved+4*i, BrokenR4<<i)
	}
	note(arm.SP, armTabStack, BrokenStack)
	note(stateDiff, armTabR2, BrokenMode)
	a.Ldr(arm.AL, arm.R1, arm.At(arm.R3, ctlCursor))
	a.Str(arm.AL, broken, arm.At(arm.R1, descBroken-descSize))
	a.Compare(arm.AL, arm.Cmp, arm.R0, arm.Imm(0))
	a.Branch(arm.NE, begin)
	halt := a.Here()
	a.Word(armWord(p.halt))
	halted := a.Here()
	a.Bare(arm.Udf)

	code, err := a.Bytes(base)
	if err != nil {
		return nil, err
	}
	at := func(l arm.Label) uint64 { return uint64(base) + uint64(a.Offset(l)) }
	for offset, value := range map[int]uint32{
		armTabCPSR: p.cpsr, armTabStack: p.stack, armTabProgram: p.program, armTabR12: armPoison(arm.IP),
		armTabLeave: uint32(at(leave)), armTabR2: armPoison(arm.R2), armTabPause: uint32(at(pause)),
	} {
		a.SetWord(offset, value)
	}
	for i, r := range armCalleeSaved {
		a.SetWord(armTabSaved+4*i, armPattern(r))
	}
	return &driver{code: code, begin: at(begin), first: at(first), leave: at(leave), pause: at(pause), halt: at(halt), halted: at(halted)}, nil
}

// msrAllR1 is `msr cpsr_fsxc, r1`.
const msrAllR1 = 0xe12ff001
