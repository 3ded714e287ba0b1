package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	o, err := c.open(ctx, "findings")
	if err != nil {
		return err
	}
	defer o.close()
	r, poisons, err := o.findings(ctx, "")
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

// exported is a summary that says whose it is.
type exported struct {
	*fuzzReport
	ID string `json:"campaign_id"` // equal for campaigns that are the same
}

func (c *campaignExportCmd) Run(ctx context.Context, std streams, global *cli) error {
	junit, summary := filepath.Join(c.Dir, "junit.xml"), filepath.Join(c.Dir, "summary.json")
	o, err := c.open(ctx, "export")
	if err != nil {
		return err
	}
	defer o.close()
	id := o.Spec.ID()
	if err := c.ready(id, junit, summary); err != nil {
		return badInput(err)
	}
	r, _, err := o.findings(ctx, c.Dir)
	if err != nil {
		return err
	}
	if err := r.writeJUnit(junit); err != nil {
		return environment(err)
	}
	data, err := json.Marshal(exported{r, id})
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if err := writeWhole(summary, data); err != nil {
		return environment(err)
	}
	if global.JSON {
		_, err = std.out.Write(data)
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s: %s, summary.json, junit.xml\n", c.Dir, plural(len(r.Findings), "finding"))
	return err
}

// ready makes the folder for what the campaign has found, and looks whether all of
// it can be written there, and nothing of another campaign is there.
func (c *campaignExportCmd) ready(id, junit, summary string) error {
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return err
	}
	for _, name := range []string{junit, summary} {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder, and a file of that name is to be written: remove it, or choose another folder", name)
		}
		if err := (&output{name: name}).check(); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(summary)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	old := exported{fuzzReport: new(fuzzReport)}
	switch err := json.Unmarshal(data, &old); {
	case err != nil || old.ID == "":
		return fmt.Errorf("%s is not of kjit campaign export: choose another folder", summary)
	case old.ID != id:
		return fmt.Errorf("%s has the report of another campaign (%s, seed %d): choose another folder", c.Dir, old.State, old.Seed)
	}
	return nil
}

// findings reads all of a campaign, with a file for each finding in a folder ("":
// none). No JIT is started for that.
func (o *opened) findings(ctx context.Context, dir string) (*fuzzReport, []cluster.Poison, error) {
	found, err := o.Export(ctx, dir)
	if err != nil {
		return nil, nil, o.flags.explain(err)
	}
	status, err := o.Store.Status(ctx)
	if err != nil {
		return nil, nil, o.flags.explain(err)
	}
	cfg := &campaign.Config{Settings: o.Spec.Settings}
	for _, name := range cfg.JITs {
		cfg.Targets = append(cfg.Targets, campaign.Target{Name: name})
	}
	r := newFuzzReport(o.flags.where(), cfg, &campaign.Summary{State: found.State, Reports: found.Reports, Before: found.State.Totals})
	r.Coverage.Opcodes, r.Coverage.AllOpcodes = status.Summary.Opcodes, status.Summary.All
	return r, found.Poisons, nil
}
