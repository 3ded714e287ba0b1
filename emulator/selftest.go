package emulator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/internal/x86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Check is one property of the emulator that everything else relies on.
type Check struct {
	Name   string // "guard pages"
	Detail string // what was seen
	Err    error  // nil: it holds
}

// SelfTest checks on this host, with the library that is linked in, what the
// verdicts about images rely on: that forbidden accesses fault and are told
// apart, that code is never stale, that endless code ends.
func SelfTest() []Check {
	major, minor := uc.Version()
	checks := []Check{{Name: "library", Detail: fmt.Sprintf("Unicorn %d.%d, as the binding expects", major, minor)}}
	m, err := New(&kernelabi.Profile{
		Name: "self-test", Arch: kernelabi.X86_64, Layout: kernelabi.L68, Base: 0xffffffffa0000000,
		Symbols: map[string]uint64{"sk_load_word": 0xffffffff81000000, perCPUSymbol: 0xb0a0},
	}, withUserPage)
	if err != nil {
		checks[0].Err = err
		checks[0].Detail = fmt.Sprintf("Unicorn %d.%d", major, minor)
		return checks
	}
	defer m.Close()
	for _, test := range []struct {
		name string
		run  func(*Machine) (string, error)
	}{
		{"error codes of page faults", selfCalibration},
		{"data is not executable", expect(jumpTo(m.va.page(pageStack)), NoExecute, Fetch)},
		{"code is read-only", expect(store(m.profile.Base), Protection, Write)},
		{"packets are read-only", expect(code(func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At(x86.DI, int32(kernelabi.L68[kernelabi.SkbData])))
			b.Mov(x86.W8, x86.At(x86.AX, 0), x86.AX)
		}), Protection, Write)},
		{"guard pages", expect(code(func(b *x86.Buf) {
			b.Load(x86.W64, x86.AX, x86.At(x86.DI, int32(kernelabi.L68[kernelabi.SkbData])))
			b.Load(x86.W8, x86.AX, x86.At(x86.AX, selfPacket))
		}), NotPresent, Read)},
		{"supervisor code does not execute user pages (SMEP)", expect(jumpTo(m.va.page(pageUser)), Protection, Fetch)},
		{"supervisor code does not read user pages (SMAP)", expect(load(m.va.page(pageUser)), Protection, Read)},
		{"three faults in a row", selfFaults},
		{"code is never stale", selfStale},
		{"endless code ends", selfEndless},
	} {
		detail, err := test.run(m)
		checks = append(checks, Check{Name: test.name, Detail: detail, Err: err})
	}
	return checks
}

const selfPacket = 60 // bytes of the self-test's packet

// selfRun runs code on one packet of selfPacket bytes, n times.
func selfRun(m *Machine, image []byte, n int) ([]Result, error) {
	if err := m.Load(&kernelabi.Image{Code: image, Base: m.profile.Base}); err != nil {
		return nil, err
	}
	inputs := make([]kernelabi.Input, n)
	for i := range inputs {
		inputs[i] = kernelabi.NewSkb(make([]byte, selfPacket))
	}
	return m.Run(inputs, nil)
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

// expect checks that code ends with a page fault.
func expect(image []byte, kind FaultKind, access Access) func(*Machine) (string, error) {
	return func(m *Machine) (string, error) {
		results, err := selfRun(m, image, 1)
		if err != nil {
			return "", err
		}
		f := results[0].Fault
		if f == nil {
			return "", errors.New("the access was allowed")
		}
		if f.Kind != kind || f.Access != access && f.Access != ReadOrWrite {
			return f.Error(), fmt.Errorf("want %s: %s", kind, access)
		}
		return f.Error(), nil
	}
}

func selfCalibration(*Machine) (string, error) {
	errorCode.Lock()
	defer errorCode.Unlock()
	if errorCode.at < 0 {
		// Nothing is wrong then, but faults tell less.
		return "not found in the processor state: reads and writes are told apart by the page tables only", nil
	}
	return fmt.Sprintf("word %d of the processor state", errorCode.at), nil
}

// selfFaults: Unicorn turns a second exception into a double fault and drops
// the third, unless the state is restored in between.
func selfFaults(m *Machine) (string, error) {
	results, err := selfRun(m, load(0), 3)
	if err != nil {
		return "", err
	}
	var seen []string
	for i, r := range results {
		if r.Fault == nil || r.Fault.Kind != NotPresent {
			return "", fmt.Errorf("fault %d of 3 was seen as %+v", i+1, r)
		}
		seen = append(seen, r.Fault.Kind.String())
	}
	return strings.Join(seen, ", "), nil
}

// selfStale: Unicorn does not notice that code it has translated changes.
func selfStale(m *Machine) (string, error) {
	const programs = 64
	for i := range uint32(programs) {
		results, err := selfRun(m, returning(i), 2)
		if err != nil {
			return "", err
		}
		for _, r := range results {
			if r.Value != i || r.Fault != nil {
				return "", fmt.Errorf("program %d of %d at one address returned %d (%v)", i, programs, r.Value, r.Fault)
			}
		}
	}
	return fmt.Sprintf("%d programs at one address, which differ in one byte", programs), nil
}

// selfEndless: a loop that is warm calls no hook but that of blocks.
func selfEndless(m *Machine) (string, error) {
	results, err := selfRun(m, []byte{0xeb, 0xfe}, 2)
	if err != nil {
		return "", err
	}
	for _, r := range results {
		if r.Fault == nil || r.Fault.Kind != Timeout {
			return "", fmt.Errorf("a jump to itself ended with %+v", r)
		}
	}
	return results[0].Fault.Error(), nil
}
