package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/kjit-project/kjit/harness/paper"
	"github.com/kjit-project/kjit/harness/report"
)

type reportCmd struct {
	From []string `arg:"" optional:"" help:"What to report on: the folder of a campaign, or of findings; a finding (.txtar); what kjit --json replay, verify, mutants, fuzz or bench paper printed; - for that on standard input."`

	Paper  bool   `help:"Also count the five published tables anew."`
	Title  string `placeholder:"TEXT" help:"Title of the page."`
	Limit  int    `default:"50" placeholder:"N" help:"Tell at most N divergences in full (default ${default})."`
	Output string `short:"o" default:"report.html" placeholder:"FILE" help:"The file to write; - for standard output (default ${default})."`
}

func (c *reportCmd) Help() string {
	return `Writes one HTML file that needs no network and no script.

  kjit report kjit-fuzz --paper
  kjit --json replay filter.txt trace.pcap >replay.jsonl; kjit report replay.jsonl
  kjit --json mutants | kjit report - kjit-fuzz -o all.html

A campaign that is at work can be reported on as well. The exit code says whether
the file was written, not what is in it.`
}

func (c *reportCmd) Run(ctx context.Context, std streams, global *cli) error {
	switch {
	case len(c.From) == 0 && !c.Paper:
		return badInput(errors.New("nothing to report on: name the folder of a campaign, findings, or what kjit --json printed; or give --paper"))
	case c.Limit < 0:
		return badInput(fmt.Errorf("--limit %d: want 0 or more", c.Limit))
	case count(c.From, "-") > 1:
		return badInput(errors.New("standard input can be read once"))
	case global.JSON && c.Output == "-":
		return badInput(errors.New("--json and -o - both want standard output"))
	}
	out, err := openOutput(c.Output, std.out)
	if err != nil {
		return err
	}
	r := report.New(report.Options{Title: c.Title, Versions: versions(), Limit: c.Limit})
	for _, name := range c.From {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if name == "-" {
			err = r.AddJSON("standard input", std.in)
		} else {
			err = r.Add(name)
		}
		if err != nil {
			return reportError(err)
		}
	}
	if c.Paper {
		tables, err := paper.Tables()
		if err != nil {
			return environment(err)
		}
		r.AddTables("kjit bench paper", tables...)
	}
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		return err
	}
	if err := out.write(page.Bytes()); err != nil {
		return environment(err)
	}
	wrong := r.Wrong()
	switch {
	case c.Output == "-":
		return nil
	case global.JSON:
		return json.NewEncoder(std.out).Encode(struct {
			Type     string `json:"type"`
			File     string `json:"file"`
			Bytes    int    `json:"bytes"`
			Findings int    `json:"findings"` // divergences
			Facts    int    `json:"wrong_facts"`
			Mutants  int    `json:"mutants_not_found"`
			Errors   int    `json:"errors"`
			Bad      bool   `json:"bad"` // something is not as it should be
		}{"report", c.Output, page.Len(), wrong.Divergences, wrong.Facts, wrong.Mutants, wrong.Errors, r.Bad()})
	}
	fmt.Fprintf(std.err, "%s: %d kB, %s\n", c.Output, (page.Len()+1023)/1024, wrong)
	return nil
}

// reportError is bad input, whatever was wrong with it.
func reportError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err // exitCode knows it
	}
	return badInput(err)
}

// versions are those of kjit and of the engine that it runs code in.
func versions() []string {
	return []string{version(), "Unicorn " + moduleVersion(unicornModule)}
}
