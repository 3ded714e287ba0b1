package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kjit-project/kjit/harness/cluster"
)

type campaignPauseCmd struct{ clusterFlags }

type campaignResumeCmd struct{ clusterFlags }

type campaignStopCmd struct{ clusterFlags }

func (c *campaignPauseCmd) Run(ctx context.Context, std streams, global *cli) error {
	return c.change(ctx, std, global, "pause", cluster.Paused, cluster.Running)
}

func (c *campaignResumeCmd) Run(ctx context.Context, std streams, global *cli) error {
	return c.change(ctx, std, global, "resume", cluster.Running, cluster.Paused)
}

func (c *campaignStopCmd) Run(ctx context.Context, std streams, global *cli) error {
	return c.change(ctx, std, global, "stop", cluster.Stopped, cluster.Running, cluster.Paused)
}

// change changes what a campaign should do, from one of others. What it does
// already is no error.
func (f *clusterFlags) change(ctx context.Context, std streams, global *cli, what string, to cluster.Mode, from ...cluster.Mode) error {
	c, err := f.open(ctx, what)
	if err != nil {
		return err
	}
	defer c.close()
	if to == cluster.Running && c.server == nil { // else nobody runs on the folder
		st, err := c.Status(ctx)
		if err != nil {
			return f.explain(err)
		}
		if st.Summary.Stays && coordinated(st, time.Now()) { // somebody is there to go on with it
			from = append(from, cluster.Stopped)
		}
	}
	err = c.SetControl(ctx, func(now *cluster.Control) error {
		if slices.Contains(append(from, to), now.Mode) {
			now.Mode = to
			return nil
		}
		return badInput(fmt.Errorf("campaign %s is %s: kjit campaign start goes on with it", f.Name, now.Mode))
	})
	if err != nil {
		return f.explain(err)
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(struct {
			Type string       `json:"type"`
			Mode cluster.Mode `json:"mode"`
		}{"campaign", to})
	}
	_, err = fmt.Fprintf(std.out, "campaign %s is %s\n", f.Name, to)
	return err
}
