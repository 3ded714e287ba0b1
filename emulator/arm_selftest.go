package emulator

import (
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/internal/arm"
	"github.com/kjit-project/kjit/kernelabi"
)

// selfARM are the emulated ARM processors.
var selfARM = []selfMachine{
	{name: "ARM926", profile: selfARMProfile(kernelabi.ARMv5, false), code: selfARMCode, tests: []selfTest{
		{"addresses of aborts", selfFaultAddress},
		selfARMData,
		{"no movw", undefined(func(b *arm.Buf) { b.Movw(arm.AL, arm.R0, 1) })},
		{"no rev", undefined(func(b *arm.Buf) { b.Rev(arm.AL, arm.R0, arm.R0) })},
	}},
	{name: "ARM1176", profile: selfARMProfile(kernelabi.ARMv6, false), code: selfARMCode, tests: []selfTest{
		selfARMData,
		{"no movw", undefined(func(b *arm.Buf) { b.Movw(arm.AL, arm.R0, 1) })},
	}},
	{name: "Cortex-A9", profile: selfARMProfile(kernelabi.ARMv7, false), code: selfARMCode, tests: []selfTest{
		selfARMData,
		{"no udiv", undefined(func(b *arm.Buf) { b.Udiv(arm.AL, arm.R0, arm.R0, arm.R0) })},
	}},
	{name: "Cortex-A15", profile: selfARMProfile(kernelabi.ARMv7, true), code: selfARMCode, tests: []selfTest{
		selfARMData,
		{"udiv", selfDivide},
	}},
}

func selfARMProfile(a kernelabi.Arch, divide bool) kernelabi.Profile {
	return kernelabi.Profile{
		Arch: a, Layout: kernelabi.ARM44Full, Base: 0xbf000000, Features: kernelabi.Features{Idiva: divide},
		Symbols: map[string]uint64{"jit_get_skb_b": 0xc0700100},
	}
}

var selfARMCode = &selfCode{
	load: armLoad, store: armStore, jumpTo: armJumpTo, returning: armReturning,
	behindPacket: armCode(func(b *arm.Buf) {
		b.Ldr(arm.AL, arm.R0, arm.At(arm.R0, int32(kernelabi.ARM44Full[kernelabi.SkbData])))
		b.Ldrb(arm.AL, arm.R0, arm.At(arm.R0, selfPacket))
	}),
	toPacket: armCode(func(b *arm.Buf) {
		b.Ldr(arm.AL, arm.R0, arm.At(arm.R0, int32(kernelabi.ARM44Full[kernelabi.SkbData])))
		b.Strb(arm.AL, arm.R0, arm.At(arm.R0, 0))
	}),
	nop:     armCode(func(b *arm.Buf) { b.Nop() }),
	endless: armCode(func(b *arm.Buf) { b.B(arm.AL, -8) }),
}

var selfARMData = selfTest{"data is not executable", func(m *Machine) (string, error) {
	return expect(armJumpTo(m.va.page(m.plan.stack)), NoExecute, Fetch)(m)
}}

func selfFaultAddress(*Machine) (string, error) {
	return faultAddress.check("faults have no address"), nil
}

// undefined checks that an instruction does not exist.
func undefined(emit func(*arm.Buf)) func(*Machine) (string, error) {
	return func(m *Machine) (string, error) {
		results, err := selfRun(m, armCode(emit), 1)
		if err != nil {
			return "", err
		}
		f := results[0].Fault
		if f == nil || f.Kind != InvalidOpcode || f.Offset != 0 {
			return "", fmt.Errorf("it ended with %+v (%v)", results[0], f)
		}
		return f.Error(), nil
	}
}

func selfDivide(m *Machine) (string, error) {
	results, err := selfRun(m, armCode(func(b *arm.Buf) {
		b.Mov(arm.AL, arm.R0, arm.Imm(100))
		b.Mov(arm.AL, arm.R1, arm.Imm(7))
		b.Udiv(arm.AL, arm.R0, arm.R0, arm.R1)
		b.Bx(arm.AL, arm.LR)
	}), 1)
	if err != nil {
		return "", err
	}
	if results[0].Value != 14 {
		return "", errors.New("100 / 7 is not 14")
	}
	return "100 / 7 = 14", nil
}
