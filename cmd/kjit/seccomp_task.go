package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// taskFlags name the filters that a task has.
type taskFlags struct {
	Filters []string `arg:"" optional:"" help:"The filters of a task, in the order in which it installs them: program files in any form, -, corpus:NAME, profiles, docker-default, or pid:N."`
	PID     int      `name:"pid" placeholder:"N" help:"The filters of a process, in place of files."`
}

// load loads the filters: those of files, or of a process.
func (f *taskFlags) load(ctx context.Context, flags *profileFlags, std streams) (seccompdata.Chain, error) {
	args := f.Filters
	if f.PID != 0 {
		if len(args) > 0 {
			return seccompdata.Chain{}, badInput(errors.New("--pid and filters exclude each other"))
		}
		args = []string{fmt.Sprint(pidPrefix, f.PID)}
	}
	loaded, err := loadChain(ctx, args, flags, std)
	if err != nil {
		return seccompdata.Chain{}, err
	}
	return newChain(loaded)
}

// newChain attaches filters to a task, as a kernel takes them.
func newChain(loaded []*seccompFilter) (seccompdata.Chain, error) {
	chain, err := seccompdata.NewChain(plainFilters(loaded)...)
	if err != nil {
		return chain, badInput(fmt.Errorf("a kernel does not take them all: %w", err))
	}
	return chain, nil
}

// plainFilters are the filters without what a command knows of them.
func plainFilters(loaded []*seccompFilter) []*seccompdata.Filter {
	var out []*seccompdata.Filter
	for _, f := range loaded {
		out = append(out, f.Filter)
	}
	return out
}

// placeIn is where an instruction is in a chain: FILTER:INSTRUCTION if there are
// several filters.
func placeIn(chain seccompdata.Chain, filter, pc int) string {
	if chain.Len() > 1 {
		return fmt.Sprintf("%d:%d", filter, pc)
	}
	return fmt.Sprint(pc)
}

// machineOf guesses for which machine filters were made, by the architectures
// that they compare with: x86_64 if they have none.
func machineOf(chain seccompdata.Chain) *seccompdata.ABI {
	compared := map[uint32]bool{}
	for _, f := range chain.Filters() {
		for _, ins := range f.Program() {
			if ins.Code == bpf.JeqK {
				compared[ins.K] = true
			}
		}
	}
	for _, abi := range []*seccompdata.ABI{seccompdata.X86_64, seccompdata.AARCH64, seccompdata.I386, seccompdata.ARM} {
		if compared[abi.Arch] {
			return seccompdata.NativeOf(abi)
		}
	}
	return seccompdata.X86_64
}

// abisOn are the ABIs that processes on a machine may use.
var abisOn = map[*seccompdata.ABI][]*seccompdata.ABI{
	seccompdata.X86_64:  {seccompdata.X86_64, seccompdata.I386, seccompdata.X32},
	seccompdata.ARM:     {seccompdata.ARM},
	seccompdata.AARCH64: {seccompdata.AARCH64, seccompdata.ARM},
}

// reportWriter is where a report goes that is long.
type reportWriter struct {
	w   *bufio.Writer
	enc *json.Encoder // nil: text
}

func newReportWriter(out io.Writer, asJSON bool) reportWriter {
	r := reportWriter{w: bufio.NewWriter(out)}
	if asJSON {
		r.enc = json.NewEncoder(r.w)
	}
	return r
}
