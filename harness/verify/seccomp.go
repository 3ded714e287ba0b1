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
	if err := c.sameOnJITs(rec.Insns, data, rec.Ret); err != nil {
		return err
	}
	return c.sameOnHistoricJITs(m, data, rec.Ret)
}

// vectorRecord is a system call and the verdict of a named filter.
type vectorRecord struct {
	syscallRecord
	Filter   string `json:"filter"`
	Ret      uint32 `json:"ret"`
	Action   string `json:"action"` // of ret, in words
	Data     uint32 `json:"data"`   // low 16 bits of ret
	Executed int    `json:"executed"`
	PC       int    `json:"pc"` // the return that decided
}

func checkVector(c *Checker, rec *vectorRecord) error {
	f, err := c.filter(rec.Filter)
	if err != nil {
		return err
	}
	data, err := rec.data()
	if err != nil {
		return err
	}
	got := f.Run(data)
	if got.Ret != rec.Ret || got.Executed != rec.Executed || got.PC != rec.PC {
		return fmt.Errorf("the interpreter returns %#x at instruction %d after %d; the record has %#x, %d, %d",
			got.Ret, got.PC, got.Executed, rec.Ret, rec.PC, rec.Executed)
	}
	if action, data := got.Action().String(), got.Ret&seccompdata.DataMask; action != rec.Action || data != rec.Data {
		return fmt.Errorf("%#x is %s with data %d; the record has %s, %d", got.Ret, action, data, rec.Action, rec.Data)
	}
	return c.sameOnJITs(f.Program(), data, rec.Ret)
}

// filter finds a filter by its name: profiles/NAME.ddd beside the records.
func (c *Checker) filter(name string) (*seccompdata.Filter, error) {
	if f, ok := c.filters[name]; ok {
		return f, nil
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
	f, err := seccompdata.NewFilter(name, l.Program)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.filters == nil {
		c.filters = map[string]*seccompdata.Filter{}
	}
	c.filters[name] = f
	return f, nil
}
