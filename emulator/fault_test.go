package emulator

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

func profile(t testing.TB, name string) *kernelabi.Profile {
	t.Helper()
	p, err := kernelabi.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run loads code at the profile's base and runs it.
func run(t testing.TB, m *Machine, image []byte, inputs ...kernelabi.Input) []Result {
	t.Helper()
	if err := m.Load(&kernelabi.Image{Code: image, Base: m.profile.Base}); err != nil {
		t.Fatal(err)
	}
	results, err := m.Run(inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// field is the operand of a field of the packet's sk_buff.
func skbField(p *kernelabi.Profile, name string) x86.RM {
	off, err := p.Layout.Offset(name)
	if err != nil {
		panic(err)
	}
	return x86.At32(x86.DI, int32(off))
}

func TestFaults(t *testing.T) {
	p := profile(t, "linux-3.10-x86_64")
	m := newMachine(t, p, WithBudget(1000))
	base := p.Base
	packet := kernelabi.NewSkb(make([]byte, 60))
	split := kernelabi.NewSkb(make([]byte, 300)).Split(100, 150)
	page := kernelabi.NewSkb(make([]byte, pageSize))
	data := skbField(p, kernelabi.SkbData)

	for _, test := range []struct {
		desc  string
		input *kernelabi.Skb
		emit  func(b *x86.Buf)
		want  Fault
		insns uint64
	}{
		{"a read through a null pointer", packet, func(b *x86.Buf) {
			b.Load(x86.W32, x86.AX, x86.Abs(8))
		}, Fault{Kind: NotPresent, Access: Read, Address: 8, Where: "a null pointer", PC: base}, 0},
		{"a write through a null pointer after three instructions", packet, func(b *x86.Buf) {
			b.Bare(x86.Nop + x86.Nop + x86.Nop)
			b.Mov(x86.W32, x86.Abs(0), x86.AX)
		}, Fault{Kind: NotPresent, Access: Write, Where: "a null pointer", PC: base + 3, Offset: 3}, 3},
		{"the byte behind the linear part", packet, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, data)
			b.Load(x86.W8, x86.AX, x86.At(x86.AX, 60))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind the packet's linear part", Offset: 7}, 1},
		{"a word of which the last byte is behind the linear part", packet, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, data)
			b.Load(x86.W32, x86.AX, x86.At(x86.AX, 57))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind the packet's linear part", Offset: 7}, 1},
		{"the byte behind the linear part of a packet with fragments", split, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, data)
			b.Load(x86.W8, x86.AX, x86.At(x86.AX, 100))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind the packet's linear part", Offset: 7}, 1},
		{"the byte behind the first fragment", split, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At32(x86.DI, hdrFrags))
			b.Load(x86.W64, x86.AX, x86.At8(x86.AX, 0))
			b.Load(x86.W8, x86.AX, x86.At32(x86.AX, 150))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind fragment 0 of the packet", Offset: 11}, 2},
		{"the byte behind the last fragment", split, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At32(x86.DI, hdrFrags))
			b.Load(x86.W64, x86.AX, x86.At8(x86.AX, 16))
			b.Load(x86.W8, x86.AX, x86.At32(x86.AX, 50))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page behind fragment 1 of the packet", Offset: 11}, 2},
		{"the byte in front of a packet that fills its page", page, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, data)
			b.Load(x86.W8, x86.AX, x86.At(x86.AX, -1))
		}, Fault{Kind: NotPresent, Access: Read, Where: "the guard page in front of the packet's linear part", Offset: 7}, 1},
		{"a write to the packet", packet, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, data)
			b.Mov(x86.W8, x86.At(x86.AX, 5), x86.AX)
		}, Fault{Kind: Protection, Access: Write, Where: "the packet's linear part", Offset: 7}, 1},
		{"a write to a fragment", split, func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At32(x86.DI, hdrFrags))
			b.Load(x86.W64, x86.AX, x86.At8(x86.AX, 16))
			b.Mov(x86.W8, x86.At8(x86.AX, 0), x86.AX)
		}, Fault{Kind: Protection, Access: Write, Where: "fragment 1 of the packet", Offset: 11}, 2},
		{"a write to the sk_buff", packet, func(b *x86.Buf) {
			b.Mov(x86.W32, skbField(p, kernelabi.SkbMark), x86.AX)
		}, Fault{Kind: Protection, Access: Write, Where: "an sk_buff or net_device", PC: base}, 0},
		{"a write to the program", packet, func(b *x86.Buf) {
			b.Mov(x86.W32, x86.At(x86.SI, 0), x86.AX)
		}, Fault{Kind: Protection, Access: Write, Where: "the program", PC: base}, 0},
		{"a write to the image", packet, func(b *x86.Buf) {
			b.Mov(x86.W32, x86.RIP(-6), x86.AX)
		}, Fault{Kind: Protection, Access: Write, Address: base, Where: "the image", PC: base}, 0},
		{"a write above the return address", packet, func(b *x86.Buf) {
			b.Mov(x86.W8, x86.At(x86.SP, 8), x86.AX)
		}, Fault{Kind: NotPresent, Access: Write, Where: "the caller's stack frame", PC: base}, 0},
		{"a push below the stack", packet, func(b *x86.Buf) {
			b.AluImm(x86.Sub, x86.W64, x86.R(x86.SP), int32(x86Plan.stackPages*pageSize-8))
			b.Push(x86.AX)
		}, Fault{Kind: NotPresent, Access: Write, Where: "the guard page in front of the stack", Offset: 7}, 1},
		{"a call of data", packet, func(b *x86.Buf) {
			b.CallRM(x86.R(x86.SP))
		}, Fault{Kind: NoExecute, Access: Fetch, Where: "the stack", Offset: -1}, 1},
		{"a jump to nowhere", packet, func(b *x86.Buf) {
			b.MovImm64(x86.AX, 0xffffffffb0001234)
			b.JmpRM(x86.R(x86.AX))
		}, Fault{Kind: NotPresent, Access: Fetch, Address: 0xffffffffb0001234, PC: 0xffffffffb0001234, Offset: -1}, 2},
		{"a jump to the page in front of the image", packet, func(b *x86.Buf) {
			b.JmpNear(-10)
		}, Fault{Kind: NotPresent, Access: Fetch, Address: base - 5, Where: "the guard page in front of the image", PC: base - 5, Offset: -1}, 1},
		{"a jump behind the image", packet, func(b *x86.Buf) {
			b.JmpNear(0)
		}, Fault{Kind: Breakpoint, Where: "outside the image, in what surrounds it", PC: base + 6, Offset: -1}, 2},
		{"running off the end", packet, func(b *x86.Buf) {
			b.Bare(x86.Nop)
		}, Fault{Kind: Breakpoint, Where: "outside the image, in what surrounds it", PC: base + 2, Offset: -1}, 2},
		{"a breakpoint in the image", packet, func(b *x86.Buf) {
			b.Bare(x86.Nop + x86.Int3)
		}, Fault{Kind: Breakpoint, PC: base + 2, Offset: 1}, 2},
		{"a non-canonical address", packet, func(b *x86.Buf) {
			b.MovImm64(x86.AX, 0x1234567800000000)
			b.Load(x86.W32, x86.AX, x86.At(x86.AX, 0))
		}, Fault{Kind: GeneralProtection, PC: base + 10, Offset: 10}, 1},
		{"an undefined instruction", packet, func(b *x86.Buf) {
			b.Bare(x86.Nop + x86.Ud2)
		}, Fault{Kind: InvalidOpcode, PC: base + 1, Offset: 1}, 1},
		{"a division by zero", packet, func(b *x86.Buf) {
			b.MovImm32(x86.CX, 0)
			b.Unary(x86.Div, x86.W32, x86.R(x86.CX))
		}, Fault{Kind: DivideError, PC: base + 5, Offset: 5}, 1},
		{"a system call by interrupt", packet, func(b *x86.Buf) {
			b.Raw(0xcd, 0x80)
		}, Fault{Kind: Exception, Number: 0x80, PC: base + 2, Offset: -1}, 1},
		{"a halt", packet, func(b *x86.Buf) {
			b.Bare(x86.Nop + x86.Hlt + x86.Nop)
		}, Fault{Kind: LostControl, Where: "the processor halted", PC: base + 2, Offset: 2}, 2},
		{"a jump into the driver", packet, func(b *x86.Buf) {
			b.MovImm64(x86.AX, m.driver.first)
			b.JmpRM(x86.R(x86.AX))
		}, Fault{Kind: LostControl, Where: "the code entered the harness, or overwrote its data", Offset: -1}, 2},
		{"a write to the driver's cursor", packet, func(b *x86.Buf) {
			b.MovImm64(x86.CX, m.va.page(pageControl))
			b.Mov(x86.W64, x86.At(x86.CX, ctlCursor), x86.CX)
			b.Bare(x86.Ret)
		}, Fault{Kind: LostControl, Where: "the code overwrote the harness's data", Offset: -1}, 3},
		{"an endless loop", packet, func(b *x86.Buf) {
			b.JmpShort(-2)
		}, Fault{Kind: Timeout, Where: "more than 1000 blocks executed", PC: base}, 1000},
		{"a breakpoint where the kernel has no routine", packet, func(b *x86.Buf) {
			b.MovImm64(x86.AX, p.Symbols["skb_copy_bits"]+32)
			b.JmpRM(x86.R(x86.AX))
		}, Fault{Kind: Breakpoint, Where: "the kernel's text", Offset: -1, Symbol: "skb_copy_bits"}, 3},
		{"a fault inside a helper", packet, func(b *x86.Buf) {
			b.MovImm64(x86.AX, p.Symbols["sk_load_word"])
			b.MovImm32(x86.SI, 0)
			b.MovImm32(x86.R8, 0)
			b.MovImm32(x86.R9, 100)
			b.CallRM(x86.R(x86.AX))
		}, Fault{Kind: NotPresent, Access: Read, Where: "a null pointer", Offset: -1, Symbol: "sk_load_word_positive_offset"}, 11},
	} {
		t.Run(test.desc, func(t *testing.T) {
			checkFault(t, m, code(test.emit), returning(7), test.input, test.want, test.insns)
		})
	}
}

// checkFault runs an image three times on an input and demands a fault, its address
// and program counter only if they are not 0, after so many instructions; and that the
// machine is none the worse for it: good returns 7.
func checkFault(t *testing.T, m *Machine, image, good []byte, input kernelabi.Input, want Fault, insns uint64) {
	t.Helper()
	for _, r := range run(t, m, image, input, input, input) {
		if r.Fault == nil {
			t.Fatalf("returned %+v, want %v", r, &want)
		}
		got := *r.Fault
		if want.PC == 0 {
			got.PC = 0
		}
		if want.Address == 0 {
			got.Address = 0
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s%v", diff, r.Fault)
		}
		if want := strings.HasPrefix(want.Where, "the code overwrote"); r.Inexact != want {
			t.Errorf("inexact %v, want %v", r.Inexact, want)
		}
		if !r.Inexact && r.Insns != insns {
			t.Errorf("%d instructions, want %d", r.Insns, insns)
		}
	}
	after := []Result{{Value: 7, Insns: 2}}
	if diff := cmp.Diff(after, run(t, m, good, kernelabi.NewSkb(make([]byte, 60)))); diff != "" {
		t.Fatalf("afterwards (-want +got):\n%s", diff)
	}
}

func TestCountsOfFaultsInLongBlocks(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	for _, n := range []int{0, 1, 100, 199, 250, 511, 512, 600, 4090, 9000} {
		image := code(func(b *x86.Buf) {
			for range n {
				b.Bare(x86.Nop)
			}
			b.Load(x86.W32, x86.AX, x86.Abs(0))
			for range n / 2 {
				b.Bare(x86.Nop)
			}
		})
		got := run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil))
		want := Result{Insns: uint64(n)}
		for _, r := range got {
			if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(Result{}, "Fault")); diff != "" || r.Fault == nil || r.Fault.Offset != n {
				t.Fatalf("fault behind %d instructions: %v\n%s", n, r.Fault, diff)
			}
		}
	}
}

func TestBrokenPromises(t *testing.T) {
	m := newMachine(t, profile(t, "linux-3.10-x86_64"))
	clobber := func(r x86.Reg) func(b *x86.Buf) {
		return func(b *x86.Buf) { b.Mov(x86.W32, x86.R(r), r) } // the upper half becomes 0
	}
	for _, test := range []struct {
		desc string
		emit func(b *x86.Buf)
		want Broken
	}{
		{"nothing but caller-saved registers changes", func(b *x86.Buf) {
			for _, r := range []x86.Reg{x86.AX, x86.CX, x86.DX, x86.SI, x86.DI, x86.R8, x86.R9, x86.R10, x86.R11} {
				b.MovImm32(r, 0)
			}
		}, 0},
		{"rbx", clobber(x86.BX), BrokenRBX},
		{"rbp", clobber(x86.BP), BrokenRBP},
		{"r12", clobber(x86.R12), BrokenR12},
		{"r13", clobber(x86.R13), BrokenR13},
		{"r14", clobber(x86.R14), BrokenR14},
		{"r15", clobber(x86.R15), BrokenR15},
		{"the direction flag", func(b *x86.Buf) { b.Bare(x86.Std) }, BrokenDirection},
		{"everything", func(b *x86.Buf) {
			for _, r := range calleeSaved {
				b.MovImm32(r, 0)
			}
			b.Bare(x86.Std)
		}, BrokenRBX | BrokenRBP | BrokenR12 | BrokenR13 | BrokenR14 | BrokenR15 | BrokenDirection},
	} {
		image := code(func(b *x86.Buf) {
			test.emit(b)
			b.MovImm32(x86.AX, 5)
			b.Bare(x86.Ret)
		})
		for _, r := range run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)) {
			if r.Broken != test.want || r.Value != 5 || r.Fault != nil {
				t.Errorf("%s: %+v (%v), want %v", test.desc, r, r.Broken, test.want)
			}
		}
	}
	image := code(func(b *x86.Buf) {
		b.MovImm32(x86.AX, 6)
		b.Raw(0xc2, 8, 0) // ret 8
	})
	for _, r := range run(t, m, image, kernelabi.NewSkb(nil), kernelabi.NewSkb(nil)) {
		if want := (Result{Value: 6, Insns: 2, Broken: BrokenStack}); r != want {
			t.Errorf("stack pointer: %+v, want %+v", r, want)
		}
	}
	if got, want := (BrokenRBX | BrokenStack).String(), "rbx changed, stack pointer changed"; got != want {
		t.Errorf("String: %q, want %q", got, want)
	}
}

func TestFaultsInABatch(t *testing.T) {
	p := profile(t, "linux-3.0-x86_64")
	m := newMachine(t, p)
	image := code(func(b *x86.Buf) { // 1000 / mark
		b.Alu(x86.Xor, x86.W32, x86.R(x86.DX), x86.DX)
		b.MovImm32(x86.AX, 1000)
		b.Unary(x86.Div, x86.W32, skbField(p, kernelabi.SkbMark))
		b.Bare(x86.Ret)
	})
	for _, zeros := range [][]int{nil, {0}, {63}, {64}, {199}, {0, 1, 2, 3}, {62, 63, 64, 65}, {100, 150, 198}} {
		var inputs []kernelabi.Input
		for i := range 200 {
			s := kernelabi.NewSkb(make([]byte, i%70))
			s.Mark = uint32(i + 1)
			if slices.Contains(zeros, i) {
				s.Mark = 0
			}
			inputs = append(inputs, s)
		}
		for i, r := range run(t, m, image, inputs...) {
			want := Result{Value: 1000 / uint32(i+1), Insns: 4}
			if slices.Contains(zeros, i) {
				if r.Fault == nil || r.Fault.Kind != DivideError {
					t.Fatalf("zeros at %v: input %d: %+v", zeros, i, r)
				}
				r.Fault = nil
				want = Result{Insns: 2}
			}
			if r != want {
				t.Fatalf("zeros at %v: input %d: %+v (%v), want %+v", zeros, i, r, r.Fault, want)
			}
		}
	}
}
