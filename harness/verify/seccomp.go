package verify

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// syscallRecord is the system call of a record.
type syscallRecord struct {
	Nr   int64               `json:"nr"`
	Arch uint32              `json:"arch"`
	IP   kernelabi.HexUint   `json:"ip"`
	Args []kernelabi.HexUint `json:"args"` // none: all 0
}

func (r *syscallRecord) data() (*seccompdata.Data, error) {
	if r.Nr < -1<<31 || r.Nr > 1<<32-1 {
		return nil, &invalidRecord{fmt.Errorf("nr %d does not fit in 32 bits", r.Nr)}
	}
	d := &seccompdata.Data{Nr: uint32(r.Nr), Arch: r.Arch, IP: uint64(r.IP)}
	if len(r.Args) > len(d.Args) {
		return nil, &invalidRecord{fmt.Errorf("%d arguments: a system call has %d", len(r.Args), len(d.Args))}
	}
	for i, arg := range r.Args {
		d.Args[i] = uint64(arg)
	}
	return d, nil
}

// seccompJITs run what the interpreter is held to as well: the emitters that
// compile seccomp filters and are correct on every input.
var seccompJITs = []string{"kjit-armv5", "kjit-armv7"}

// runtimeRecord is a filter and what the kernel's own run of it returned.
type runtimeRecord struct {
	syscallRecord
	Insns    bpf.Program `json:"insns"`
	Ret      uint32      `json:"ret"`
	Executed int         `json:"executed"`
	DivZero  bool        `json:"divzero"`
}

func checkRuntime(c *Checker, rec *runtimeRecord) error {
	m, err := bpf.Compile(rec.Insns, bpf.Seccomp, bpf.RulesCurrent)
	if err != nil {
		return err
	}
	data, err := rec.data()
	if err != nil {
		return err
	}
	res := m.Run(data)
	if res.Value != rec.Ret || res.Executed != rec.Executed || res.DivZero != rec.DivZero {
		return fmt.Errorf("the interpreter returns %#x after %d instructions, division by zero %v; the record has %#x, %d, %v",
			res.Value, res.Executed, res.DivZero, rec.Ret, rec.Executed, rec.DivZero)
	}
	return c.sameOnJITs(rec.Insns, data, rec.Ret)
}

// vectorRecord is a system call and the verdict of a named filter.
type vectorRecord struct {
	syscallRecord
	Filter   string `json:"filter"`
	Ret      uint32 `json:"ret"`
	Data     uint32 `json:"data"` // low 16 bits of ret
	Executed int    `json:"executed"`
	PC       int    `json:"pc"` // the return that decided
}

func checkVector(c *Checker, rec *vectorRecord) error {
	m, err := c.filter(rec.Filter)
	if err != nil {
		return err
	}
	data, err := rec.data()
	if err != nil {
		return err
	}
	res := m.Run(data)
	if res.Value != rec.Ret || res.Value&0xffff != rec.Data || res.Executed != rec.Executed || res.PC != rec.PC {
		return fmt.Errorf("the interpreter returns %#x at instruction %d after %d; the record has %#x, %d, %d",
			res.Value, res.PC, res.Executed, rec.Ret, rec.PC, rec.Executed)
	}
	return c.sameOnJITs(m.Program(), data, rec.Ret)
}

// filter finds a filter by its name: profiles/NAME.ddd beside the records.
func (c *Checker) filter(name string) (*bpf.Machine, error) {
	if m, ok := c.filters[name]; ok {
		return m, nil
	}
	if name != filepath.Base(name) {
		return nil, &invalidRecord{fmt.Errorf("filter %q is no name", name)}
	}
	file := filepath.Join(c.dir, "profiles", name+".ddd")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, skipped("the filter is not beside the records, as profiles/NAME.ddd")
	}
	l, err := bpftext.ParseAs(bpftext.DDD, file, text)
	if err != nil {
		return nil, err
	}
	m, err := bpf.Compile(l.Program, bpf.Seccomp, bpf.RulesCurrent)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.filters == nil {
		c.filters = map[string]*bpf.Machine{}
	}
	c.filters[name] = m
	return m, nil
}

// sameOnJITs runs the filter as machine code and compares the value. What a
// JIT declines it need not give.
func (c *Checker) sameOnJITs(prog bpf.Program, data *seccompdata.Data, ret uint32) error {
	inputs := []kernelabi.Input{&kernelabi.Syscall{Data: *data}}
	for _, name := range seccompJITs {
		if !c.wants(name) {
			continue
		}
		r, err := c.machines.runner(name, false)
		if err != nil {
			return err
		}
		out, err := r.Run(prog, bpf.Seccomp, inputs, nil)
		if err != nil {
			return err
		}
		if got := out[0]; got.Why == "" && (got.Fault != nil || got.Broken != 0 || got.Value != ret) {
			return fmt.Errorf("%s gives %s, the record has %#x", name, got.Long(), ret)
		}
	}
	return nil
}
