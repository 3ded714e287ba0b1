package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/verify"
)

type verifyCmd struct {
	Kind  []string `placeholder:"KIND" help:"Check only records of these kinds: ${kinds}."`
	JIT   []string `name:"jit" placeholder:"NAME" help:"Check only what these JITs give (default: all)."`
	Files []string `arg:"" help:"JSON Lines files of recorded facts; - for standard input."`

	ciFlags
}

func (c *verifyCmd) Run(ctx context.Context, std streams, global *cli) error {
	checker, err := verify.NewChecker(c.Kind...)
	if err != nil {
		return badInput(fmt.Errorf("--kind: %w", err))
	}
	defer checker.Close()
	for _, name := range c.JIT {
		if _, err := jitProfile(name); err != nil {
			return badInput(err)
		}
	}
	if err := c.ciFlags.check(); err != nil {
		return err
	}
	checker.JITs = c.JIT
	ci := verifyRun{Run: ciformat.Run{Command: "verify", Name: strings.Join(c.Files, " ")}}
	report := verifyReport{std: std, json: global.JSON, skips: map[string]int{}}
	bar := newProgress(std.err, -1, "records")
	var bad []error
	for _, name := range c.Files {
		err := verifyFile(checker, name, std.in, func(res verify.Result) error {
			bar.add(1)
			ci.add(res)
			return cmp.Or(report.add(res), ctx.Err())
		})
		if err != nil {
			bad = append(bad, err)
			ci.bad(name, err)
		}
		if ctx.Err() != nil {
			break // the totals so far are worth something
		}
	}
	bar.close()
	if err := cmp.Or(report.end(), c.ciFlags.write(ci.end())); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(bad) > 0:
		return badInput(errors.Join(bad...))
	case report.failed > 0:
		return errDiverged
	case report.passed+report.skipped == 0:
		return badInput(errors.New("no records: nothing was checked"))
	}
	return nil
}

func verifyFile(checker *verify.Checker, name string, stdin io.Reader, each func(verify.Result) error) error {
	if name == "-" {
		return checker.File("standard input", stdin, each)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return checker.File(name, f, each)
}

// verifyReport prints failures as they come, and at the end how many checks
// were skipped for which reason, and the totals.
type verifyReport struct {
	std                     streams
	json                    bool
	passed, failed, skipped int
	skips                   map[string]int // by reason
}

func (r *verifyReport) add(res verify.Result) error {
	outcome := "passed"
	switch {
	case res.Skip != "":
		r.skipped++
		r.skips[res.Skip]++
		outcome = "skipped"
	case res.Err != nil:
		r.failed++
		outcome = "failed"
	default:
		r.passed++
	}
	if r.json {
		out := struct {
			Type    string `json:"type"`
			File    string `json:"file"`
			Line    int    `json:"line"`
			Kind    string `json:"kind"`
			Name    string `json:"name"`
			Outcome string `json:"outcome"`
			Reason  string `json:"reason,omitempty"`
		}{"check", res.File, res.Line, res.Kind, res.Name, outcome, res.Skip}
		if res.Err != nil {
			out.Reason = res.Err.Error()
		}
		return json.NewEncoder(r.std.out).Encode(out)
	}
	if res.Err == nil {
		return nil
	}
	detail := strings.ReplaceAll(res.Err.Error(), "\n", "\n    ")
	_, err := fmt.Fprintf(r.std.out, "%s:%d: %s %s: %s\n", res.File, res.Line, res.Kind, res.Name, detail)
	return err
}

func (r *verifyReport) end() error {
	if r.json {
		return json.NewEncoder(r.std.out).Encode(struct {
			Type    string `json:"type"`
			Passed  int    `json:"passed"`
			Failed  int    `json:"failed"`
			Skipped int    `json:"skipped"`
		}{"summary", r.passed, r.failed, r.skipped})
	}
	for _, reason := range slices.Sorted(maps.Keys(r.skips)) {
		fmt.Fprintf(r.std.out, "skipped %d: %s\n", r.skips[reason], reason)
	}
	_, err := fmt.Fprintf(r.std.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	return err
}
