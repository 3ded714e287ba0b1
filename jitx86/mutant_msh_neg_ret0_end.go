package jitx86

import "github.com/kjit-project/kjit/bpf"

// mshNegRet0End: LDX MSH with a negative offset, thought to be always out of
// range, jumps to the end of the first RET #0 instead of its start. In the
// kernels that had it, whose pass 0 knew no frame, sizes could also fail to
// settle (ReasonFatal); with the passes of linux-3.10 they do settle.
func mshNegRet0End() *Emitter {
	t := linux310()
	t.Replace(map[uint16]rule{bpf.LdxMsh: bySignOfK(loadMsh, mshReturn0(ret0End))})
	return &Emitter{
		Name:    "x86-msh-neg-ret0-end",
		Summary: "LDX MSH with a negative offset continues behind the first RET #0",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.2",
			Fixed:    "3.3 (d00a9dd21bdf, a998d4342337)",
			Rules:    []string{"ldx-msh"},
		},
		rules: t,
	}
}

// mshReturn0 ends the program with 0, at a RET #0 if there is one.
func mshReturn0(target ret0Target) rule {
	return func(c *Compiler, _ bpf.Instruction) {
		if addr, ok := target(c); ok {
			c.jmp(addr - c.end())
			return
		}
		c.clearA()
		c.jmp(c.cleanup - c.end())
	}
}
