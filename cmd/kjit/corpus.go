package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/campaign"
)

// corpusCmd is about the working corpus of a campaign.
type corpusCmd struct {
	Min    corpusMinCmd    `cmd:"" help:"Take out the programs that others make superfluous: the rest covers the same."`
	List   corpusListCmd   `cmd:"" help:"List the programs."`
	Export corpusExportCmd `cmd:"" help:"Write the programs into a folder, a file each."`
}

type corpusMinCmd struct{ campaignFlags }

type corpusListCmd struct{ stateFlag }

type corpusExportCmd struct {
	stateFlag
	Dir string `arg:"" help:"Folder to write to, made if it is not there."`
}

// load opens the campaign of a folder that must be there.
func (f *stateFlag) load() (*campaign.Folder, *campaign.State, error) {
	s, found, err := f.settings()
	if err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, nil, badInput(fmt.Errorf("--state %s: there is no campaign: kjit fuzz starts one", f.State))
	}
	folder, err := f.openFolder(&s)
	if err != nil {
		return nil, nil, err
	}
	state, _, err := folder.Load()
	if err != nil {
		folder.Close()
		return nil, nil, environment(err)
	}
	return folder, state, nil
}

func (c *corpusMinCmd) Run(ctx context.Context, std streams, global *cli) error {
	folder, state, err := c.load()
	if err != nil {
		return err
	}
	defer folder.Close()
	cfg, err := c.config(ctx, folder.Settings())
	if err != nil {
		return err
	}
	bar := newProgress(std.err, len(state.Corpus()), "programs")
	m, err := folder.Minimise(ctx, cfg, state, func() { bar.add(1) })
	bar.close()
	if err != nil {
		return err
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(struct {
			Type     string `json:"type"`
			Programs int    `json:"programs"`
			Kept     int    `json:"kept"`
			Insns    int    `json:"instructions"`
			Left     int    `json:"instructions_kept"`
			Features int    `json:"features"`
		}{"corpus", m.Programs, m.Kept, m.Insns, m.Left, m.Features})
	}
	_, err = fmt.Fprintf(std.out, "%d of %s are left, %d of %s: they cover the same %d rules and edges\n",
		m.Kept, plural(m.Programs, "program"), m.Left, plural(m.Insns, "instruction"), m.Features)
	return err
}

func (c *corpusListCmd) Run(std streams, global *cli) error {
	folder, state, err := c.load()
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, e := range state.Corpus() {
		if global.JSON {
			err = json.NewEncoder(std.out).Encode(e)
		} else {
			_, err = fmt.Fprintf(std.out, "case %d: %s, %s\n", e.Case, e.Kind, plural(len(e.Program), "instruction"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *corpusExportCmd) Run(std streams, global *cli) error {
	folder, state, err := c.load()
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return environment(err)
	}
	all := state.Corpus()
	for _, e := range all {
		data, ext, err := programFile(e.Program)
		if err != nil {
			return err
		}
		path := filepath.Join(c.Dir, fmt.Sprintf("case%08d-%s%s", e.Case, e.Kind, ext))
		if err := writeWhole(path, data); err != nil {
			return environment(err)
		}
	}
	if !global.JSON {
		fmt.Fprintf(std.err, "%s written to %s\n", plural(len(all), "program"), c.Dir)
	}
	return nil
}

// programFile is a program as bpf_asm source, or if that has no words for it as
// JSON.
func programFile(prog bpf.Program) (data []byte, ext string, err error) {
	if data, err = bpftext.Format(bpftext.Asm, prog); err == nil {
		return data, ".asm", nil
	}
	data, err = bpftext.Format(bpftext.JSON, prog)
	return data, ".json", err
}
