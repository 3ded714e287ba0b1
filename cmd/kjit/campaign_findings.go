package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/cluster"
)

type campaignFindingsCmd struct{ clusterFlags }

type campaignExportCmd struct {
	clusterFlags
	Dir string `arg:"" help:"Folder to write to, made if it is not there."`
}

func (c *campaignFindingsCmd) Run(ctx context.Context, std streams, global *cli) error {
	r, poisons, err := c.findings(ctx, "findings", "")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for i := range r.Findings {
		f := &r.Findings[i]
		if global.JSON {
			if err := json.NewEncoder(&b).Encode(struct {
				Type string `json:"type"`
				*fuzzFinding
			}{"finding", f}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(&b, "%s\n    case %d; %s\n    %s\n", f.Signature, f.Case, plural(int(f.Programs), "program"), f.story())
	}
	for _, p := range poisons {
		if global.JSON {
			if err := json.NewEncoder(&b).Encode(struct {
				Type string `json:"type"`
				cluster.Poison
			}{"set_aside", p}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(&b, "range %d is set aside: %d workers were given it and none was done with it\n", p.Range, p.Deliveries)
	}
	if !global.JSON && b.Len() == 0 {
		fmt.Fprintln(&b, "nothing was found")
	}
	if _, err := std.out.Write(b.Bytes()); err != nil {
		return err
	}
	if len(r.Findings)+len(poisons) > 0 {
		return errDiverged
	}
	return nil
}

func (c *campaignExportCmd) Run(ctx context.Context, std streams, global *cli) error {
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return badInput(err)
	}
	r, _, err := c.findings(ctx, "export", c.Dir)
	if err != nil {
		return err
	}
	if err := r.writeJUnit(filepath.Join(c.Dir, "junit.xml")); err != nil {
		return environment(err)
	}
	var b bytes.Buffer
	if err := r.writeJSON(&b); err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(c.Dir, "summary.json"), b.Bytes()); err != nil {
		return badInput(err)
	}
	if global.JSON {
		return r.writeJSON(std.out)
	}
	_, err = fmt.Fprintf(std.out, "%s: %s, summary.json, junit.xml\n", c.Dir, plural(len(r.Findings), "finding"))
	return err
}

// findings reads all of a campaign, with a file for each finding in a folder ("":
// none). No JIT is started for that.
func (f *clusterFlags) findings(ctx context.Context, what, dir string) (*fuzzReport, []cluster.Poison, error) {
	c, err := f.open(ctx, what)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	found, err := c.Export(ctx, dir)
	if err != nil {
		return nil, nil, f.explain(err)
	}
	status, err := c.Status(ctx)
	if err != nil {
		return nil, nil, f.explain(err)
	}
	cfg := &campaign.Config{Settings: c.Spec.Settings}
	for _, name := range cfg.JITs {
		cfg.Targets = append(cfg.Targets, campaign.Target{Name: name})
	}
	r := newFuzzReport(f.where(), cfg, &campaign.Summary{State: found.State, Reports: found.Reports, Before: found.State.Totals})
	r.Coverage.Opcodes, r.Coverage.AllOpcodes = status.Summary.Opcodes, status.Summary.All
	return r, found.Poisons, nil
}
