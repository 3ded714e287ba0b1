package verify

import (
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// expansionRecord is what an instruction counts against the limit of a task's
// filters.
type expansionRecord struct {
	Code      uint16 `json:"code"`
	JT        uint8  `json:"jt"`
	JF        uint8  `json:"jf"`
	K         uint32 `json:"k"`
	Converted int    `json:"converted"`
}

func checkExpansion(_ *Checker, rec *expansionRecord) error {
	ins := bpf.Instruction{Code: rec.Code, JT: rec.JT, JF: rec.JF, K: rec.K}
	if !bpf.RulesCurrent.Accepts(ins.Code, bpf.Seccomp) {
		return fmt.Errorf("code %#x is not allowed in seccomp filters", ins.Code)
	}
	if got := seccompdata.ConvertedInsns(ins); got != rec.Converted {
		return fmt.Errorf("counts %d, the record has %d", got, rec.Converted)
	}
	return nil
}

// probeRecord is a system call under a chain of filters, and what became of it.
type probeRecord struct {
	Filters []bpf.Program      `json:"filters"` // in the order of installation
	Nr      uint32             `json:"nr"`
	Outcome seccompdata.Effect `json:"outcome"`
}

func checkProbe(c *Checker, rec *probeRecord) error {
	var filters []*seccompdata.Filter
	for i, prog := range rec.Filters {
		f, err := seccompdata.NewFilter("", prog)
		if err != nil {
			return fmt.Errorf("filter %d: %w", i, err)
		}
		filters = append(filters, f)
	}
	chain, err := seccompdata.NewChain(filters...)
	if err != nil {
		return err
	}
	call := &seccompdata.Data{Nr: rec.Nr, Arch: seccompdata.ArchX86_64}
	decision := chain.Run(call, seccompdata.CurrentKernel)
	// Probes saw a signal, and not whom it ended.
	got := seccompdata.EffectOf(decision.Ret, seccompdata.CurrentKernel)
	got.WholeProcess = rec.Outcome.WholeProcess
	if diff := cmp.Diff(rec.Outcome, got); diff != "" {
		return fmt.Errorf("the chain returns %s: %s; the record has: %s", seccompdata.FormatRet(decision.Ret), got, rec.Outcome)
	}
	for i, prog := range rec.Filters {
		if err := c.sameOnJITs(prog, call, decision.Verdicts[i].Ret); err != nil {
			return fmt.Errorf("filter %d: %w", i, err)
		}
	}
	return nil
}
