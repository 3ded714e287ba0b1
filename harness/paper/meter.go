package paper

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness/guestcode"
	"github.com/kjit-project/kjit/jitarm"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// meter counts the instructions that code executes, in one machine per profile.
type meter struct {
	machines map[string]*emulator.Machine
	err      error // the first thing that went wrong; counts are None from then on
}

func newMeter() *meter { return &meter{machines: map[string]*emulator.Machine{}} }

func (m *meter) close() {
	for _, machine := range m.machines {
		machine.Close()
	}
}

// profile returns a built-in profile.
func profile(name string) *kernelabi.Profile {
	p, err := kernelabi.ProfileByName(name)
	if err != nil {
		panic(err) // the names are constants of this package
	}
	return p
}

// emitter returns the JIT of a profile.
func emitter(p *kernelabi.Profile) guestcode.Compiler {
	var c guestcode.Compiler
	var err error
	if p.Arch == kernelabi.X86_64 {
		c, err = jitx86.ByName(p.Emitter)
	} else {
		c, err = jitarm.ByName(p.Emitter)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// run returns the instructions executed by img on input; the returned value
// must be want.
func (m *meter) run(img *kernelabi.Image, err error, input kernelabi.Input, want uint32) Value {
	if m.err != nil {
		return None
	}
	fail := func(err error) Value { m.err = err; return None }
	if err != nil {
		return fail(err)
	}
	machine := m.machines[img.Profile.Name]
	if machine == nil {
		if machine, err = emulator.New(img.Profile); err != nil {
			return fail(err)
		}
		m.machines[img.Profile.Name] = machine
	}
	if err := machine.Load(img); err != nil {
		return fail(err)
	}
	results, err := machine.Run([]kernelabi.Input{input}, nil)
	if err != nil {
		return fail(err)
	}
	switch r := results[0]; {
	case r.Fault != nil:
		return fail(fmt.Errorf("%s: %w", img.Origin, r.Fault))
	case r.Value != want || r.Broken != 0 || r.Inexact:
		return fail(fmt.Errorf("%s returned %#x (broken: %v, inexact: %v), want %#x", img.Origin, r.Value, r.Broken, r.Inexact, want))
	}
	return Value(results[0].Insns)
}

// program counts a socket filter in the code that c makes of it.
func (m *meter) program(c guestcode.Compiler, p *kernelabi.Profile, prog bpf.Program, input kernelabi.Input, want uint32) Value {
	img, err := c.Compile(prog, bpf.Socket, p)
	return m.run(img, err, input, want)
}

// chain counts a chain of seccomp filters.
func (m *meter) chain(p *kernelabi.Profile, call uint32, arch uint32, filters ...guestcode.Filter) Value {
	img, err := guestcode.Chain(p, filters)
	input := &kernelabi.Syscall{Data: seccompdata.Data{Nr: call, Arch: arch, IP: 0x7f12_3456_7890}}
	return m.run(img, err, input, uint32(seccompdata.Allow))
}

// interpreted and compiled are a filter without and with a JIT.
func interpreted(prog bpf.Program) guestcode.Filter { return guestcode.Filter{Program: prog} }

func compiled(p *kernelabi.Profile, prog bpf.Program) guestcode.Filter {
	return guestcode.Filter{Program: prog, JIT: emitter(p)}
}
