package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/harness/paper"
	"github.com/kjit-project/kjit/harness/selftest"
)

type benchSeccompCmd struct {
	samplesFlag
}

// samplesFlag is how often a call is timed.
type samplesFlag struct {
	Samples int `placeholder:"N" help:"Calls to time in each phase (default: as many as take a second or so in all)."`
}

// maxSamples take a few minutes.
const maxSamples = 100_000_000

func (f samplesFlag) checkSamples() error {
	if f.Samples < 0 || f.Samples > maxSamples {
		return badInput(fmt.Errorf("--samples %d: want up to %d, or 0 for as many as take a second or so", f.Samples, maxSamples))
	}
	return nil
}

// Help is the long help text.
func (c *benchSeccompCmd) Help() string {
	return `Does what seccomp_benchmark of the kernel's selftests does: times getpid without filters, with one and two that the result cache can prove, and with a third and fourth where it cannot, and compares the differences as that program does. It takes the least of many blocks and does not round, so that it can be believed on a busy machine, too. Nothing depends on what comes out: the exit code is 0 also where an expectation is missed, and where nothing can be measured; then the reason is printed, and the tables have the published and the counted numbers only.

The filters let every call pass, and are put on processes that are thrown away.`
}

// beside are the published tables that go with the benchmark.
var beside = []string{"zhu-2020", "hromatka-2018", "schichan-2013"}

func (c *benchSeccompCmd) Run(ctx context.Context, g *cli, std streams) error {
	if err := c.checkSamples(); err != nil {
		return err
	}
	tables, err := paper.Tables(append([]string{"cook-2020"}, beside...)...)
	if err != nil {
		return err
	}
	slices.Reverse(tables) // the newest, which has the benchmark, first
	measured, err := paper.MeasureBenchmark(ctx, c.Samples)
	var not *probe.UnavailableError
	switch {
	case errors.As(err, &not):
	case err != nil:
		return err
	default:
		if err := tables[slices.IndexFunc(tables, isBenchmark)].AddBenchmark(measured); err != nil {
			return err
		}
	}
	if err := printHost(std.out, g.JSON, measured, not); err != nil {
		return err
	}
	return printTables(std.out, g.JSON, tables)
}

func isBenchmark(t *paper.Table) bool { return t.Name == "cook-2020" }

// hostJSON says what was measured, or why nothing was.
type hostJSON struct {
	Type      string         `json:"type"` // "host"
	Available bool           `json:"available"`
	Why       string         `json:"why,omitempty"`
	Host      *selftest.Host `json:"host,omitempty"`
	Samples   int            `json:"samples,omitempty"`
	Phases    *paper.Phases  `json:"phases,omitempty"` // nanoseconds
}

func printHost(w io.Writer, asJSON bool, m *paper.Measurement, not *probe.UnavailableError) error {
	out := hostJSON{Type: "host"}
	text := ""
	if m != nil {
		out.Available, out.Host, out.Samples, out.Phases = true, &m.Host, m.Samples, &m.Phases
		text = fmt.Sprintf("measured: %s; %s of getpid in each phase", m.Host, plural(m.Samples, "call"))
	} else {
		out.Why = not.Error()
		text = "nothing is measured: " + out.Why
	}
	if asJSON {
		return json.NewEncoder(w).Encode(out)
	}
	_, err := fmt.Fprintf(w, "%s\n\n", text)
	return err
}
