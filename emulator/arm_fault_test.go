package emulator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// armField is the operand of a field of the sk_buff at r0.
func armField(p *kernelabi.Profile, name string) arm.Mem {
	off, err := p.Layout.Offset(name)
	if err != nil {
		panic(err)
	}
	return arm.At(arm.R0, int32(off))
}

// onARM runs a test on every emulated ARM processor.
func onARM(t *testing.T, test func(t *testing.T, p *kernelabi.Profile)) {
	for _, name := range armProfiles {
		t.Run(name, func(t *testing.T) { test(t, profile(t, name)) })
	}
}

func TestARMFaults(t *testing.T) {
	onARM(t, testARMFaults)
}

func testARMFaults(t *testing.T, p *kernelabi.Profile) {
	m := newMachine(t, p, WithBudget(1000))
	base := p.Base
	packet := kernelabi.NewSkb(make([]byte, 60))
	split := kernelabi.NewSkb(make([]byte, 300)).Split(100, 150)
	page := kernelabi.NewSkb(make([]byte, pageSize))
	data := armField(p, kernelabi.SkbData)
	const r0, r1, al = arm.R0, arm.R1, arm.AL

	for _, test := range []struct {
		desc  string
		input *kernelabi.Skb
		emit  func(a *arm.Asm)
		want  Fault
		insns uint64
	}{
		{"a read through a null pointer", packet, func(a *arm.Asm) {
			a.Mov(al, r1, arm.Imm(0))
			a.Ldr(al, r0, arm.At(r1, 8))
		}, Fault{Kind: NotPresent, Access: Read, Address: 8, Where: "a null pointer", PC: base + 4, Offset: 4}, 1},
		{"a write through a null pointer", packet, func(a *arm.Asm) {
			a.Mov(al, r1, arm.Imm(0))
			a.Strb(al, r0, arm.At(r1, 0))
		}, Fault{Kind: NotPresent, Access: Write, Where: "a null pointer", PC: base + 4, Offset: 4}, 1},
		{"the byte behind the linear part", packet, func(a *arm.Asm) {
			a.Ldr(al, r0, data)
			a.Ldrb(al, r0, arm.At(r0, 60))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind the packet's linear part", Offset: 4}, 1},
		{"a halfword of which the last byte is behind the linear part", packet, func(a *arm.Asm) {
			a.Ldr(al, r0, data)
			a.Ldrh(al, r0, arm.At(r0, 59))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind the packet's linear part", Offset: 4}, 1},
		{"the byte behind the linear part of a packet with fragments", split, func(a *arm.Asm) {
			a.Ldr(al, r0, data)
			a.Ldrb(al, r0, arm.At(r0, 100))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind the packet's linear part", Offset: 4}, 1},
		{"the byte behind the last fragment", split, func(a *arm.Asm) {
			a.Ldr(al, r0, arm.At(r0, hdrFrags))
			a.Ldr(al, r0, arm.At(r0, fragEntry))
			a.Ldrb(al, r0, arm.At(r0, 50))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind fragment 1 of the packet", Offset: 8}, 2},
		{"the byte in front of a packet that fills its page", page, func(a *arm.Asm) {
			a.Ldr(al, r0, data)
			a.Ldrb(al, r0, arm.At(r0, -1))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page in front of the packet's linear part", Offset: 4}, 1},
		{"a write to the packet", packet, func(a *arm.Asm) {
			a.Ldr(al, r0, data)
			a.Strb(al, r0, arm.At(r0, 5))
		}, Fault{Kind: Protection, Access: Write, Where: "the packet's linear part", Offset: 4}, 1},
		{"a write to the sk_buff", packet, func(a *arm.Asm) {
			a.Str(al, r1, armField(p, kernelabi.SkbMark))
		}, Fault{Kind: Protection, Access: Write, Where: "an sk_buff or net_device", PC: base}, 0},
		{"a write to the program", packet, func(a *arm.Asm) {
			a.Str(al, r0, arm.At(r1, 0))
		}, Fault{Kind: Protection, Access: Write, Where: "the program", PC: base}, 0},
		{"a write to the image", packet, func(a *arm.Asm) {
			a.Str(al, r0, arm.At(arm.PC, -8))
		}, Fault{Kind: Protection, Access: Write, Address: base, Where: "the image", PC: base}, 0},
		{"a write above the frame", packet, func(a *arm.Asm) {
			a.Str(al, r0, arm.At(arm.SP, 0))
		}, Fault{Kind: NotPresent, Access: Write, Where: "the caller's stack frame", PC: base}, 0},
		{"a push below the stack", packet, func(a *arm.Asm) {
			a.Alu(al, arm.Sub, arm.SP, arm.SP, arm.Imm(pageSize))
			a.Push(arm.Regs(r0, r1))
		}, Fault{Kind: NotPresent, Access: Write, Where: "the guard page in front of the stack", Offset: 4}, 1},
		{"a call of data", packet, func(a *arm.Asm) {
			a.Alu(al, arm.Sub, r0, arm.SP, arm.Imm(16))
			a.Blx(al, r0)
		}, Fault{Kind: NoExecute, Access: Fetch, Where: "the stack", Offset: -1}, 2},
		{"a jump to nowhere", packet, func(a *arm.Asm) {
			a.Const(al, r0, 0xbf801230)
			a.Bx(al, r0)
		}, Fault{Kind: NotPresent, Access: Fetch, Address: 0xbf801230, PC: 0xbf801230, Offset: -1}, 2},
		{"a jump to the page in front of the image", packet, func(a *arm.Asm) {
			a.B(al, -12)
		}, Fault{Kind: NotPresent, Access: Fetch, Address: base - 4, Where: "the guard page in front of the image", PC: base - 4, Offset: -1}, 1},
		{"running off the end", packet, func(a *arm.Asm) {
			a.Nop()
		}, Fault{Kind: InvalidOpcode, Where: "outside the image, in what surrounds it", PC: base + 4, Offset: -1}, 1},
		{"a breakpoint", packet, func(a *arm.Asm) {
			a.Nop()
			a.Bare(arm.Bkpt)
		}, Fault{Kind: Breakpoint, PC: base + 4, Offset: 4}, 1},
		{"an undefined instruction", packet, func(a *arm.Asm) {
			a.Nop()
			a.Bare(arm.Udf)
			a.Nop()
		}, Fault{Kind: InvalidOpcode, PC: base + 4, Offset: 4}, 1},
		{"a system call", packet, func(a *arm.Asm) {
			a.Nop()
			a.Word(0xef000000)
			a.Nop()
		}, Fault{Kind: Exception, Number: 2, PC: base + 8, Offset: 8}, 2},
		{"a halt", packet, func(a *arm.Asm) {
			a.Nop()
			a.Word(armWord(m.plan.halt))
			a.Nop()
		}, Fault{Kind: LostControl, Where: "the processor halted", PC: base + 8, Offset: 8}, 2},
		{"a jump into the driver", packet, func(a *arm.Asm) {
			a.Const(al, r0, uint32(m.driver.first))
			a.Bx(al, r0)
		}, Fault{Kind: LostControl, Where: "the code entered the harness, or overwrote its data", Offset: -1}, 2},
		{"a write to the driver's cursor", packet, func(a *arm.Asm) {
			a.Const(al, r0, uint32(m.va.page(pageControl)))
			a.Str(al, r0, arm.At(r0, ctlCursor))
			a.Bx(al, arm.LR)
		}, Fault{Kind: LostControl, Where: "the code overwrote the harness's data", Offset: -1}, 3},
		{"an endless loop", packet, func(a *arm.Asm) {
			a.B(al, -8)
		}, Fault{Kind: Timeout, Where: "more than 1000 blocks executed", PC: base}, 1000},
		{"a call of a symbol's neighbourhood", packet, func(a *arm.Asm) {
			a.Const(al, r0, uint32(p.Symbols["jit_udiv"]+32))
			a.Bx(al, r0)
		}, Fault{Kind: InvalidOpcode, Where: "the kernel's text", Offset: -1, Symbol: "jit_udiv"}, 2},
		{"a fault inside a helper", packet, func(a *arm.Asm) {
			a.Mov(al, r0, arm.Imm(0))
			a.Const(al, arm.R3, uint32(p.Symbols["skb_get_poff"]))
			a.Blx(al, arm.R3)
		}, Fault{Kind: NotPresent, Access: Read, Offset: -1, Symbol: "skb_get_poff"}, 5},
	} {
		t.Run(test.desc, func(t *testing.T) {
			checkFault(t, m, armAsm(test.emit), armReturning(7), test.input, test.want, test.insns)
		})
	}
}

func TestARMCountsOfFaultsInLongBlocks(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		for _, n := range []int{0, 1, 100, 199, 250, 511, 512, 600, 1030, 3000} {
			image := armCode(func(b *arm.Buf) {
				b.Mov(arm.AL, arm.R1, arm.Imm(0))
				for range n {
					b.Nop()
				}
				b.Ldr(arm.AL, arm.R0, arm.At(arm.R1, 0))
				for range n / 2 {
					b.Nop()
				}
			})
			for _, r := range run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)) {
				diff := cmp.Diff(Result{Insns: uint64(n + 1)}, r, cmpopts.IgnoreFields(Result{}, "Fault"))
				if diff != "" || r.Fault == nil || r.Fault.Offset != 4*(n+1) {
					t.Fatalf("fault behind %d instructions: %v\n%s", n+1, r.Fault, diff)
				}
			}
		}
	})
}

func TestARMBrokenPromises(t *testing.T) {
	onARM(t, testARMBrokenPromises)
}

func testARMBrokenPromises(t *testing.T, p *kernelabi.Profile) {
	m := newMachine(t, p)
	const al = arm.AL
	flip := func(r arm.Reg) func(a *arm.Asm) {
		return func(a *arm.Asm) { a.Alu(al, arm.Eor, r, r, arm.Imm(1)) }
	}
	mode := func(v uint32) func(a *arm.Asm) {
		return func(a *arm.Asm) {
			a.Mov(al, arm.R2, arm.R(arm.LR)) // lr is banked
			a.Mov(al, arm.R3, arm.Imm(v))
			a.Msr(al, arm.R3)
			a.Mov(al, arm.LR, arm.R(arm.R2))
		}
	}
	for _, test := range []struct {
		desc string
		emit func(a *arm.Asm)
		want Broken
	}{
		{"nothing but caller-saved registers and flags change", func(a *arm.Asm) {
			for _, r := range []arm.Reg{arm.R0, arm.R1, arm.R2, arm.R3, arm.IP} {
				a.Mov(al, r, arm.Imm(0))
			}
			a.Compare(al, arm.Cmn, arm.R0, arm.Imm(0))
		}, 0},
		{"r4", flip(arm.R4), BrokenR4},
		{"r5", flip(arm.R5), BrokenR5},
		{"r6", flip(arm.R6), BrokenR6},
		{"r7", flip(arm.R7), BrokenR7},
		{"r8", flip(arm.R8), BrokenR8},
		{"r9", flip(arm.R9), BrokenR9},
		{"r10", flip(arm.R10), BrokenR10},
		{"r11", flip(arm.FP), BrokenR11},
		{"the stack pointer", func(a *arm.Asm) { a.Push(arm.Regs(arm.R0)) }, BrokenStack},
		{"interrupts are let in", mode(0x13), BrokenMode},
		{"another mode, which has its own stack pointer", mode(0xdb), BrokenMode | BrokenStack},
		{"several", func(a *arm.Asm) {
			for _, r := range armCalleeSaved {
				a.Mov(al, r, arm.Imm(0))
			}
		}, BrokenR4 | BrokenR5 | BrokenR6 | BrokenR7 | BrokenR8 | BrokenR9 | BrokenR10 | BrokenR11},
	} {
		image := armAsm(func(a *arm.Asm) {
			test.emit(a)
			a.Mov(al, arm.R0, arm.Imm(5))
			a.Bx(al, arm.LR)
		})
		for _, r := range run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)) {
			if r.Broken != test.want || r.Value != 5 || r.Fault != nil {
				t.Errorf("%s: %+v (%v), want %v; fault %v", test.desc, r, r.Broken, test.want, r.Fault)
			}
		}
	}
	if got, want := (BrokenR4 | BrokenStack | BrokenMode).String(), "stack pointer changed, r4 changed, processor mode or interrupt mask changed"; got != want {
		t.Errorf("String: %q, want %q", got, want)
	}
}

// TestARMLeftBehind: code that leaves the processor in a state in which the
// driver cannot run is found guilty, and nobody else.
func TestARMLeftBehind(t *testing.T) {
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p)
		good, bad := kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)
		bad.Mark = 1
		for _, test := range []struct {
			desc, want string
			v7         bool
			emit       func(a *arm.Asm)
		}{
			{"user mode, in which nothing is mapped", "", false, func(a *arm.Asm) {
				a.Mov(arm.AL, arm.R2, arm.R(arm.LR))
				a.Mov(arm.AL, arm.R3, arm.Imm(0xd0))
				a.Msr(arm.AL, arm.R3)
				a.Bx(arm.AL, arm.R2)
			}},
			{"big-endian", "the code returned with the processor in big-endian mode", true, func(a *arm.Asm) {
				a.Word(0xf1010200) // setend be
			}},
			{"Thumb", "the code returned with the processor in Thumb state", false, func(a *arm.Asm) {
				a.Alu(arm.AL, arm.Add, arm.LR, arm.LR, arm.Imm(1))
			}},
		} {
			if test.v7 && p.Arch == kernelabi.ARMv5 {
				continue
			}
			image := armAsm(func(a *arm.Asm) {
				out := a.NewLabel()
				a.Ldr(arm.AL, arm.R1, armField(p, kernelabi.SkbMark))
				a.Mov(arm.AL, arm.R0, arm.Imm(9))
				a.Compare(arm.AL, arm.Cmp, arm.R1, arm.Imm(0))
				a.Branch(arm.EQ, out)
				test.emit(a)
				a.Bind(out)
				a.Bx(arm.AL, arm.LR)
			})
			for i, r := range run(t, m, image, good, bad, good, good, bad, bad, good) {
				switch i {
				case 1, 4, 5:
					if r.Fault == nil {
						t.Errorf("%s: input %d returned %+v", test.desc, i, r)
					} else if (r.Fault.Kind == LostControl) != (test.want != "") || test.want != "" && r.Fault.Where != test.want {
						t.Errorf("%s: input %d: %v, want %s", test.desc, i, r.Fault, test.want)
					}
				default:
					if r != (Result{Value: 9, Insns: 5}) {
						t.Errorf("%s: input %d: %+v (%v)", test.desc, i, r, r.Fault)
					}
				}
			}
		}
	})
}

func TestARMAlignment(t *testing.T) {
	const al = arm.AL
	onARM(t, func(t *testing.T, p *kernelabi.Profile) {
		m := newMachine(t, p, WithAccessChecks())
		v5 := p.Arch == kernelabi.ARMv5
		for _, test := range []struct {
			desc      string
			unaligned bool
			stack     bool
			emit      func(a *arm.Asm)
		}{
			{"a word at a multiple of 4", false, false, func(a *arm.Asm) { a.Ldr(al, arm.R1, arm.At(arm.SP, -8)) }},
			{"a word at 2 mod 4", true, false, func(a *arm.Asm) { a.Ldr(al, arm.R1, arm.At(arm.SP, -6)) }},
			{"a stored word", true, false, func(a *arm.Asm) { a.Str(al, arm.R1, arm.At(arm.SP, -7)) }},
			{"a halfword at an even address", false, false, func(a *arm.Asm) { a.Ldrh(al, arm.R1, arm.At(arm.SP, -6)) }},
			{"a halfword at an odd address", true, false, func(a *arm.Asm) { a.Ldrh(al, arm.R1, arm.At(arm.SP, -5)) }},
			{"a byte anywhere", false, false, func(a *arm.Asm) { a.Ldrb(al, arm.R1, arm.At(arm.SP, -5)) }},
			{"a helper called with an aligned stack", false, false, callUdiv(p, 0)},
			{"a helper called with the stack at 4 mod 8", false, true, callUdiv(p, 4)},
		} {
			image := armAsm(func(a *arm.Asm) {
				test.emit(a)
				a.Mov(al, arm.R0, arm.Imm(5))
				a.Bx(al, arm.LR)
			})
			want := Result{Value: 5, StackUnaligned: test.stack}
			if test.unaligned && v5 {
				want.Broken = BrokenAlignment
			}
			for _, r := range run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)) {
				if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(Result{}, "Insns")); diff != "" {
					t.Errorf("%s (-want +got):\n%s", test.desc, diff)
				}
			}
		}
	})
}

// callUdiv calls a helper with the stack pointer so much lower.
func callUdiv(p *kernelabi.Profile, lower uint32) func(a *arm.Asm) {
	return func(a *arm.Asm) {
		a.Alu(arm.AL, arm.Sub, arm.SP, arm.SP, arm.Imm(8+lower))
		a.Str(arm.AL, arm.LR, arm.At(arm.SP, 0))
		a.Const(arm.AL, arm.R3, uint32(p.Symbols["jit_udiv"]))
		a.Blx(arm.AL, arm.R3)
		a.Ldr(arm.AL, arm.LR, arm.At(arm.SP, 0))
		a.Alu(arm.AL, arm.Add, arm.SP, arm.SP, arm.Imm(8+lower))
	}
}

// TestThumbFaultIsInexact: what a block of Thumb code had left to do is not known.
func TestThumbFaultIsInexact(t *testing.T) {
	m := newMachine(t, profile(t, "linux-4.5-armv7"))
	// add r1, pc, #1; bx r1; then in Thumb: movs r0, #0; movs r0, #0; ldr r2, [r0], which
	// faults; movs r0, #0; movs r0, #0; bx lr
	image := unhex("01108fe2" + "11ff2fe1" + "0020" + "0020" + "0268" + "0020" + "0020" + "7047")
	r := run(t, m, image, kernelabi.NewSkb(make([]byte, 60)))[0]
	if r.Fault == nil || !r.Inexact {
		t.Errorf("%+v, %v: want a fault, and an inexact count", r, r.Fault)
	}
}
