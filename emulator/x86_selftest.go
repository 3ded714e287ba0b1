package emulator

import (
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

var selfX86 = selfMachine{
	name: "x86_64",
	profile: kernelabi.Profile{
		Arch: kernelabi.X86_64, Layout: kernelabi.L68, Base: 0xffffffffa0000000,
		Symbols: map[string]uint64{"sk_load_word": 0xffffffff81000000, perCPUSymbol: 0xb0a0},
	},
	code: &selfCode{
		load: load, store: store, jumpTo: jumpTo, returning: returning,
		behindPacket: code(func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At(x86.DI, int32(kernelabi.L68[kernelabi.SkbData])))
			b.Load(x86.W8, x86.AX, x86.At(x86.AX, selfPacket))
		}),
		toPacket: code(func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At(x86.DI, int32(kernelabi.L68[kernelabi.SkbData])))
			b.Mov(x86.W8, x86.At(x86.AX, 0), x86.AX)
		}),
		nop:     []byte(x86.Nop),
		endless: code(func(b *x86.Buf) { b.JmpShort(-2) }),
	},
	tests: []selfTest{
		{"error codes of page faults", func(*Machine) (string, error) {
			return errorCode.check("reads and writes are told apart by the page tables only"), nil
		}},
		{"data is not executable", func(m *Machine) (string, error) {
			return expect(jumpTo(m.va.page(m.plan.stack)), NoExecute, Fetch)(m)
		}},
		{"supervisor code does not execute user pages (SMEP)", func(m *Machine) (string, error) {
			return expect(jumpTo(m.va.page(pageUser)), Protection, Fetch)(m)
		}},
		{"supervisor code does not read user pages (SMAP)", func(m *Machine) (string, error) {
			return expect(load(m.va.page(pageUser)), Protection, Read)(m)
		}},
	},
}

func load(addr uint64) []byte {
	return code(func(b *x86.Buf) {
		b.MovImm64(x86.AX, addr)
		b.Load(x86.W32, x86.AX, x86.At(x86.AX, 0))
	})
}

func store(addr uint64) []byte {
	return code(func(b *x86.Buf) {
		b.MovImm64(x86.AX, addr)
		b.Mov(x86.W32, x86.At(x86.AX, 0), x86.AX)
	})
}

func jumpTo(addr uint64) []byte {
	return code(func(b *x86.Buf) {
		b.MovImm64(x86.AX, addr)
		b.JmpRM(x86.R(x86.AX))
	})
}

// returning is code that returns a value.
func returning(value uint32) []byte {
	return code(func(b *x86.Buf) {
		b.MovImm32(x86.AX, value)
		b.Bare(x86.Ret)
	})
}
