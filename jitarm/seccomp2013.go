package jitarm

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/internal/arm"
)

func seccomp2013Emitter() *Emitter {
	return &Emitter{
		Name:    "seccomp-2013-arm",
		Summary: "reconstruction: the seccomp JIT that was posted in 2013 and never merged",
		rules:   seccomp2013(),
	}
}

// seccomp2013 is linux312 with the series of 2013, by its description and not
// by its code: a load calls a C function, which finds the data by itself. No
// byte of it is historic.
func seccomp2013() table {
	t := linux312()
	t.Seccomp = seccompRules(loadDataByCall)
	return t
}

// loadDataByCall cannot fail.
func loadDataByCall(c *Compiler, in bpf.Instruction) {
	c.target(symSeccompLoad)
	c.mov(arm.R0, in.K)
	c.callTarget()
	c.Mov(arm.AL, a, arm.R(arm.R0))
}
