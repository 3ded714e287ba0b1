package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/scaling"
)

type benchScalingCmd struct {
	Ranges int    `default:"252" placeholder:"N" help:"Ranges to measure, rounded up to whole epochs (default ${default})."`
	Epochs uint64 `default:"40" placeholder:"N" help:"Epochs of the simulated campaign (default ${default})."`
	Check  bool   `help:"Also run that campaign with 1 and with 2 workers here, and put it beside the simulation."`
}

func (c *benchScalingCmd) Help() string {
	return `Measures what the parts of a campaign cost on this machine, and tells on paper
what 1 to 1024 machines with one worker each would do: the network of the
simulation has 1 Gbit/s and 0.5 ms.

  kjit bench scaling
  kjit bench scaling --check --json`
}

// scalingJSON is the command's answer for programs.
type scalingJSON struct {
	Costs   *scaling.Costs  `json:"costs"`
	Points  []scaling.Point `json:"simulated"`
	Bend    int             `json:"bend"` // first number of workers below half of their worth; 0: none
	Checked []scaling.Check `json:"checked,omitempty"`
}

func (c *benchScalingCmd) Run(ctx context.Context, g *cli, std streams) error {
	if c.Ranges < 1 || c.Ranges > 4096 || c.Epochs < 1 || c.Epochs > 10_000 {
		return badInput(fmt.Errorf("--ranges is 1 to 4096, --epochs 1 to 10000"))
	}
	spareThreads()
	settings := campaign.Default()
	costs, err := scaling.Measure(ctx, settings, c.Ranges)
	if err != nil {
		return err
	}
	out := scalingJSON{Costs: costs, Points: costs.Simulate(c.Epochs, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)}
	out.Bend = scaling.Bend(out.Points)
	if c.Check {
		if out.Checked, err = costs.CheckHere(ctx, settings, len(costs.Range)); err != nil {
			return err
		}
	}
	if g.JSON {
		return json.NewEncoder(std.out).Encode(out)
	}
	c.print(std, &out)
	return nil
}

func (c *benchScalingCmd) print(std streams, out *scalingJSON) {
	sum := time.Duration(0)
	for _, d := range out.Costs.Range {
		sum += d
	}
	mean := sum / time.Duration(len(out.Costs.Range))
	fmt.Fprintf(std.out, "measured on %d ranges of %d programs: %v a range, %v to merge it, %d bytes sent\n",
		len(out.Costs.Range), out.Costs.Programs, mean.Round(time.Millisecond), out.Costs.Merge.Round(10*time.Microsecond), out.Costs.ResultBytes)
	for _, b := range out.Costs.Begin {
		fmt.Fprintf(std.out, "to begin an epoch behind %d ranges: %d bytes to every worker, %v to write and %v to read them\n",
			b.Ranges, b.Bytes, b.Freeze.Round(time.Millisecond), b.Start.Round(time.Millisecond))
	}
	fmt.Fprintf(std.out, "simulated: %d epochs; behind the measured ones the state grows until the corpus is full\n\n", c.Epochs)
	tab := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "workers\tprograms/s\tof their worth\twaiting for an epoch\tfetching\tcoordinator merges\t")
	for _, p := range out.Points {
		fmt.Fprintf(tab, "%d\t%.0f\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t\n", p.Workers, p.Programs, 100*p.Efficiency, 100*p.Waiting, 100*p.Fetching, 100*p.Merging)
	}
	tab.Flush()
	if out.Bend == 0 {
		fmt.Fprintln(std.out, "\nit does not bend: every number of workers does more than half of its worth")
	} else {
		fmt.Fprintf(std.out, "\nit bends at %d workers: they do less than half of their worth\n", out.Bend)
	}
	for _, check := range out.Checked {
		fmt.Fprintf(std.out, "%d workers here, of %d processors: %.0f programs/s, simulated %.0f", check.Workers, runtime.NumCPU(), check.Measured, check.Simulated)
		if check.Far() {
			fmt.Fprint(std.out, ": far from each other; was anything else running?")
		}
		fmt.Fprintln(std.out)
	}
}
