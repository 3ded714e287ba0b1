package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/repro"
)

// defaultJITs are what kjit replay runs when nothing else is asked for.
const defaultJITs = "linux-3.0-x86_64,linux-3.10-x86_64,inline-x86_64"

// isRepro reports whether a program's name is that of a recorded divergence.
func isRepro(name string) bool { return strings.HasSuffix(name, repro.Extension) }

// loadRepro reads a recorded divergence for a command line that names no other
// packet and no other image.
func loadRepro(name string, others bool) (*repro.Repro, error) {
	r, err := readRepro(name)
	if err != nil {
		return nil, badInput(err)
	}
	if others {
		return nil, badInput(fmt.Errorf("%s has its own packet and its own image: name no others", name))
	}
	return r, nil
}

// readRepro reads a file, or a finding of the corpus.
func readRepro(name string) (*repro.Repro, error) {
	finding, ok := strings.CutPrefix(name, corpusPrefix)
	if !ok {
		return repro.Read(name)
	}
	all, err := corpus.Findings()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range all {
		if f.Name == finding {
			return repro.Parse(name, f.Data)
		}
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("the corpus has no finding %q: there are %s", finding, strings.Join(names, ", "))
}

// runRepro runs a recorded divergence again: in the JIT that it was found in,
// and in those of --jit.
func (c *replayCmd) runRepro(ctx context.Context, std streams, global *cli) error {
	if c.Attribute {
		return badInput(fmt.Errorf("--attribute is for a program and packets, not for a recorded divergence (kjit convert --to d %s prints the program)", c.Program))
	}
	r, err := loadRepro(c.Program, len(c.Inputs)+len(c.Hex) > 0 || c.Image != "")
	if err != nil {
		return err
	}
	job, err := c.reproJob(ctx, r)
	if err != nil {
		return err
	}
	defer job.close()
	tallies, err := c.compare(ctx, std, global, job)
	if err != nil {
		return err
	}
	res, err := r.Run(job.runners[0])
	if err != nil {
		return err
	}
	if err := reportRepro(std, global, c.Program, r, res); err != nil {
		return err
	}
	switch {
	case res.Status == repro.NotRun:
		return badInput(fmt.Errorf("%s: nothing was compared: %s: %s", c.Program, r.JIT, res.Why))
	case res.Status != repro.Gone:
		return errDiverged
	case len(tallies) > 1:
		return c.judge(tallies[1:])
	}
	return nil
}

// reproJob opens what the repro names and what --jit adds to that.
func (c *replayCmd) reproJob(ctx context.Context, r *repro.Repro) (_ *replayJob, err error) {
	job := &replayJob{kind: r.Kind, inputs: &inputSet{LinkTypes: map[string]int{}}}
	defer func() {
		if err != nil {
			job.close()
		}
	}()
	job.prog = &source{Name: c.Program, Kind: &job.kind, Listing: &bpftext.Listing{Program: r.Program, Form: bpftext.Asm}}
	if err := job.inputs.addInput(c.Program, r.Input, &metadata{}); err != nil {
		return nil, err
	}
	r.Accesses = r.Accesses || c.Accesses
	var recorded harness.Runner
	if usesPlugin(r.JIT) {
		if !slices.Contains(c.JIT, r.JIT) {
			return nil, distrusted(c.Program, r)
		}
		recorded, err = c.openRunner(ctx, r.JIT)
	} else if recorded, err = r.Open(); err != nil {
		err = badInput(fmt.Errorf("%s: %w", c.Program, err))
	}
	if err != nil {
		return nil, err
	}
	job.closers = append(job.closers, func() { recorded.Close() })
	job.runners = append(job.runners, recorded)
	if strings.Join(c.JIT, ",") == defaultJITs {
		return job, nil
	}
	c.JIT = slices.DeleteFunc(c.JIT, func(name string) bool { return name == r.JIT })
	if len(c.JIT) == 0 {
		return job, nil
	}
	return job, c.openAll(ctx, job)
}

// distrusted is the error for a command that only a file names: files come from
// anywhere, and what they say is not executed unless the user says it too.
func distrusted(file string, r *repro.Repro) error {
	return badInput(fmt.Errorf("%s was found with a JIT of its own, %q, which is not started because a file says so: if you trust it, add --jit '%s'", file, r.JIT, r.JIT))
}

// reportRepro tells what became of the divergence.
func reportRepro(std streams, global *cli, file string, r *repro.Repro, res *repro.Result) error {
	now := ""
	if res.Divergence != nil {
		now = res.Divergence.Signature.String()
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(struct {
			Type      string       `json:"type"`
			File      string       `json:"file"`
			Signature string       `json:"signature"`
			Expect    repro.Expect `json:"expect"`
			Status    repro.Status `json:"status"`
			Now       string       `json:"now,omitempty"` // the signature of what shows
			Why       string       `json:"why,omitempty"`
		}{"repro", file, r.Signature().String(), r.Expect, res.Status, now, res.Why})
	}
	text := map[repro.Status]string{
		repro.Shows:  "the recorded divergence still shows",
		repro.Other:  "another divergence shows than the recorded one: now " + now,
		repro.Gone:   "the recorded divergence no longer shows",
		repro.NotRun: "not run",
	}[res.Status]
	switch {
	case r.Divergence == "" && res.Status == repro.Gone:
		text = "it agrees, as recorded"
	case r.Divergence == "":
		text = "it diverges, and is recorded as agreeing: now " + now
	case res.Status == repro.Shows && res.Why != "":
		text += ", but " + res.Why
	}
	recorded := "agreement"
	if r.Divergence != "" {
		recorded = fmt.Sprintf("%s at %s", r.Divergence, r.Rule)
	}
	_, err := fmt.Fprintf(std.out, "%s (%s): %s\n", r.JIT, recorded, text)
	return err
}
