package kernelabi

import (
	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// Syscall is a system call as an [Input], with the JSON form of
// [seccompdata.Data].
type Syscall struct{ seccompdata.Data }

// Under returns the system call itself: all kernels read it alike.
func (s *Syscall) Under(Semantics) bpf.Input { return &s.Data }
