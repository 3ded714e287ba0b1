// Package selftest times system calls under seccomp filters, on the kernel that
// runs here, as the kernel's own seccomp_benchmark (tools/testing/selftests/
// seccomp) does: but all filters in turn, the least of many blocks, and without
// rounding to whole nanoseconds. The filters go into processes that are thrown
// away.
package selftest

import (
	"context"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/seccompdata"
)

// Block is how many calls are timed at a stretch.
const Block = 500

// perProcess is up to how many calls one process makes, so that it is done
// within its time.
const perProcess = 10_000_000

// Job is what to time.
type Job struct {
	Nr      uint32          `json:"nr"`     // the call, made with all arguments 0
	Chains  [][]bpf.Program `json:"chains"` // filters of a task, oldest first; they let every call pass
	Samples int             `json:"samples"`
}

// Times is what came of it.
type Times struct {
	Nanoseconds []float64 `json:"nanoseconds"` // processor time of one call, by chain
	Samples     int       `json:"samples"`     // calls made under each chain
}

// Host is the machine, as far as it matters to filters.
type Host struct {
	probe.System
	Harden  string `json:"harden"`  // net.core.bpf_jit_harden; "": not readable
	Filters int    `json:"filters"` // that this process has already: they run, too
}

// String describes the host in words.
func (h Host) String() string {
	text := fmt.Sprintf("Linux %s on %s", h.Release, h.Machine)
	for _, knob := range []struct{ name, value string }{{"bpf_jit_enable", h.JIT}, {"bpf_jit_harden", h.Harden}} {
		if knob.value == "" {
			knob.value = "unknown"
		}
		text += fmt.Sprintf(", %s %s", knob.name, knob.value)
	}
	if h.Filters > 0 {
		text += fmt.Sprintf(", where filters are in force already (%d)", h.Filters)
	}
	return text
}

// Time times the call under each chain. With samples 0 it makes as many calls as
// take a second or so in all. The error for a machine that cannot is a
// *probe.UnavailableError; others are that of ctx, and a filter that would not
// let the call pass.
func Time(ctx context.Context, nr uint32, chains [][]bpf.Program, samples int) (*Times, error) {
	if err := check(nr, chains); err != nil {
		return nil, err
	}
	var total *Times
	for rest := samples; ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		times, err := inProcess(&Job{nr, chains, min(rest, perProcess/len(chains))})
		if err != nil {
			return nil, err
		}
		total = total.merge(times)
		if rest -= times.Samples; rest <= 0 {
			return total, nil
		}
	}
}

// merge takes the least of both, and the sum of their samples.
func (t *Times) merge(other *Times) *Times {
	if t == nil {
		return other
	}
	t.Samples += other.Samples
	for i, ns := range other.Nanoseconds {
		t.Nanoseconds[i] = min(t.Nanoseconds[i], ns)
	}
	return t
}

// check reports a filter that would not let the call pass.
func check(nr uint32, chains [][]bpf.Program) error {
	if len(chains) == 0 {
		return fmt.Errorf("nothing to time")
	}
	for _, chain := range chains {
		for i, prog := range chain {
			f, err := seccompdata.NewFilter("", prog)
			if err != nil {
				return fmt.Errorf("filter %d: %w", i, err)
			}
			for _, arch := range []uint32{seccompdata.ArchX86_64, seccompdata.ArchI386, seccompdata.ArchARM, seccompdata.ArchAARCH64} {
				if v := f.Run(&seccompdata.Data{Nr: nr, Arch: arch}); v.Action() != seccompdata.Allow {
					return fmt.Errorf("filter %d returns %s to the call", i, seccompdata.FormatRet(v.Ret))
				}
			}
		}
	}
	return nil
}
