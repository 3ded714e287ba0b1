package scaling

import (
	"context"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Check is a number of workers simulated and run.
type Check struct {
	Workers   int     `json:"workers"`
	Simulated float64 `json:"simulated_programs_a_second"`
	Measured  float64 `json:"measured_programs_a_second"`
}

// Far reports whether the two differ by more than a third.
func (c *Check) Far() bool { return max(c.Simulated/c.Measured, c.Measured/c.Simulated) > 4.0/3 }

// CheckHere runs the first ranges of the campaign with 1 and with 2 workers on
// this machine and simulates the same, without a network.
func (c *Costs) CheckHere(ctx context.Context, s campaign.Settings, ranges int) ([]Check, error) {
	local := *c
	local.RoundTrip, local.Begin = 0, nil // workers of one process share the state
	epochs := campaign.EpochOf(uint64(ranges)-1) + 1
	_, ranged := campaign.EpochRanges(epochs - 1)
	var checks []Check
	for _, workers := range []int{1, 2} {
		cfg, err := campaign.NewConfig(s)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		summary, err := campaign.Run(ctx, cfg, campaign.Options{Jobs: workers, Programs: ranged * uint64(s.Size)})
		if err != nil {
			return nil, err
		}
		checks = append(checks, Check{
			workers, local.play(epochs, workers).Programs, float64(summary.Totals.Programs) / time.Since(began).Seconds(),
		})
	}
	return checks, nil
}
