package verify

import (
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/seccomp"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// sameOnJITs runs the filter as machine code of every architecture and compares
// the value. These JITs decline nothing.
func (c *Checker) sameOnJITs(prog bpf.Program, data *seccompdata.Data, ret uint32) error {
	for _, name := range seccomp.JITs() {
		if !c.wants(name) {
			continue
		}
		got, err := c.outcome(name, prog, &kernelabi.Syscall{Data: *data}, false)
		if err != nil {
			return err
		}
		if got.Kind != harness.Value || got.Broken != 0 || got.Value != ret {
			return fmt.Errorf("%s gives %s, the record has %#x", name, got.Long(), ret)
		}
	}
	return nil
}

// A slip is something that a run of a filter does and a historic JIT is known to
// do wrong. It looks at the state before each instruction, with X not written
// since the start.
type slip func(s bpf.State, ins bpf.Instruction, unwritten bool) bool

// historicJITs are those of kernels, with what they are known to do wrong.
var historicJITs = []struct {
	profiles []string
	slips    []slip
}{
	{[]string{"linux-4.5-armv5", "linux-4.5-armv7"}, []slip{largeShift, callersX}},
	{[]string{"seccomp-2013-armv5", "seccomp-2013-armv7"}, []slip{largeShift, callersX, reciprocal, shiftBy0}},
}

// largeShift: the processor takes 8 bits of a count.
func largeShift(s bpf.State, ins bpf.Instruction, _ bool) bool {
	return (ins.Code == bpf.LshX || ins.Code == bpf.RshX) && s.X > 31
}

// callersX: X is what the caller had where something writes it on other ways.
func callersX(_ bpf.State, ins bpf.Instruction, unwritten bool) bool {
	return unwritten && ins.Reads()&bpf.RegX != 0
}

// reciprocal: division is multiplication by something that is not quite right.
func reciprocal(_ bpf.State, ins bpf.Instruction, _ bool) bool { return ins.Code == bpf.DivK }

// shiftBy0 is taken for one by 32.
func shiftBy0(_ bpf.State, ins bpf.Instruction, _ bool) bool {
	return ins.Code == bpf.RshK && ins.K == 0
}

// sameOnHistoricJITs does the same with the JITs of kernels, which may decline a
// filter, and be wrong where they are known to be.
func (c *Checker) sameOnHistoricJITs(m *bpf.Machine, data *seccompdata.Data, ret uint32) error {
	for _, jit := range historicJITs {
		for _, name := range jit.profiles {
			if !c.wants(name) {
				continue
			}
			got, err := c.outcome(name, m.Program(), &kernelabi.Syscall{Data: *data}, false)
			if err != nil {
				return err
			}
			right := got.Kind == harness.Value && got.Value == ret || got.Kind == harness.Refused
			if (!right || got.Broken != 0) && (got.Kind != harness.Value || !does(m, data, jit.slips)) {
				return fmt.Errorf("%s gives %s, the record has %#x", name, got.Long(), ret)
			}
		}
	}
	return nil
}

// does reports whether the run of a filter has one of the slips.
func does(m *bpf.Machine, data *seccompdata.Data, slips []slip) bool {
	prog, found, unwritten := m.Program(), false, true
	m.Trace(data, func(s bpf.State) {
		ins := prog[s.PC]
		for _, is := range slips {
			found = found || is(s, ins, unwritten)
		}
		unwritten = unwritten && ins.Writes()&bpf.RegX == 0
	})
	return found
}
