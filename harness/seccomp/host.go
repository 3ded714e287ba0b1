package seccomp

import (
	"strings"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// JITs returns the profiles whose JITs take seccomp filters and are right on
// every input: kjit's own, by architecture.
func JITs() []string { return []string{"inline-x86_64", "kjit-armv5", "kjit-armv7"} }

// Host is a modelled kernel with a JIT.
type Host struct {
	seccompdata.Host
	jit *Compiler
}

// NewHost returns the kernel of a profile. Where kjit has its JIT, filters that
// it declines are interpreted, as in kernels from before the internal
// instructions; kernels whose images are imported only have no interpreter, nor
// any JIT here.
func NewHost(p *kernelabi.Profile, knob seccompdata.Knob, options ...emulator.Option) (*Host, error) {
	h := &Host{Host: seccompdata.Host{Kernel: kernelOf(p), Rules: p.Rules, Knob: knob, AlwaysOn: p.Emitter == ""}}
	if p.Emitter == "" {
		return h, nil
	}
	jit, err := NewCompiler(p, options...)
	if err != nil {
		return nil, err
	}
	h.jit, h.JIT = jit, jit
	return h, nil
}

// Close frees what the host holds.
func (h *Host) Close() error {
	if h.jit == nil {
		return nil
	}
	return h.jit.Close()
}

// kernelOf reads the release off a profile's name; what no kernel shipped counts
// as today's.
func kernelOf(p *kernelabi.Profile) seccompdata.Kernel {
	release, _, _ := strings.Cut(strings.TrimPrefix(p.Name, "linux-"), "-")
	if k, err := seccompdata.ParseKernel(release); err == nil {
		return k
	}
	return seccompdata.CurrentKernel
}
