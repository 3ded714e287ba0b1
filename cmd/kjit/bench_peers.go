package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kjit-project/kjit/harness/plugin"
)

type benchPeersCmd struct {
	Count int    `default:"1" placeholder:"N" help:"Run every benchmark so often; the tables show medians (default ${default})."`
	Time  string `default:"0.3s" placeholder:"D" help:"Time for each, or 100x for a number of rounds (default ${default})."`
	Raw   bool   `help:"Print the lines of go test, for benchstat."`
	Dir   string `placeholder:"DIR" help:"The checkout of kjit (default: the one around the current folder)."`
}

func (c *benchPeersCmd) Help() string {
	return `Runs the interpreter and the emulator beside other people's machines for BPF:
golang.org/x/net/bpf, gVisor's pkg/bpf, libpcap. They are in a module of their
own, peers/, so this needs a checkout and the go command.

  kjit bench peers
  kjit bench peers --count 10 --raw > new.txt && benchstat old.txt new.txt`
}

func (c *benchPeersCmd) Run(ctx context.Context, g *cli, std streams) error {
	switch {
	case c.Count < 1 || c.Count > 1000:
		return badInput(fmt.Errorf("--count is 1 to 1000"))
	case !benchTime(c.Time):
		return badInput(fmt.Errorf("--time %q: want a time as 0.3s, or a number of rounds as 100x", c.Time))
	case c.Raw && g.JSON:
		return badInput(fmt.Errorf("--raw and --json are two forms of output: choose one"))
	}
	dir, err := peersModule(c.Dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkRun$",
		"-benchtime", c.Time, "-count", strconv.Itoa(c.Count), ".")
	cmd.Dir, cmd.Stderr = dir, std.err
	// The go command starts a program, which is to end with it.
	plugin.OwnGroup(cmd)
	cmd.Cancel = func() error {
		plugin.KillGroup(cmd.Process)
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return environment(err)
	}
	if err := cmd.Start(); err != nil {
		return environment(fmt.Errorf("%w (it needs the go command: https://go.dev/dl)", err))
	}
	results, said, err := readBenchmarks(out, func(line string) {
		if c.Raw {
			fmt.Fprintln(std.out, line)
		}
	})
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return environment(fmt.Errorf("go test in %s: %w\n%s", dir, err, said))
	}
	for line := range strings.SplitSeq(said, "\n") {
		if _, left, ok := strings.Cut(line, "left out: "); ok {
			fmt.Fprintln(std.err, "kjit: left out:", strings.TrimSpace(left))
		}
	}
	switch {
	case c.Raw:
		return nil
	case g.JSON:
		enc := json.NewEncoder(std.out)
		for _, r := range results {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	printPeers(std.out, results)
	return nil
}

// benchTime reports whether go test takes a text as the time of a benchmark.
func benchTime(text string) bool {
	if rounds, ok := strings.CutSuffix(text, "x"); ok {
		n, err := strconv.ParseUint(rounds, 10, 31)
		return err == nil && n > 0
	}
	d, err := time.ParseDuration(text)
	return err == nil && d > 0
}

// peersModule finds the folder peers of a checkout.
func peersModule(dir string) (string, error) {
	start := dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", environment(err)
		}
		start = dir
	}
	for {
		peers := filepath.Join(dir, "peers")
		mod, err := os.ReadFile(filepath.Join(peers, "go.mod"))
		if err == nil && strings.Contains(string(mod), "kjit-project/kjit/peers") {
			return peers, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", environment(fmt.Errorf("%s is in no checkout of kjit, and the peers are a module of their own there: name one with --dir", start))
		}
		dir = up
	}
}

// peerResult is what a runner needs for a packet.
type peerResult struct {
	Program string    `json:"program"`
	Runner  string    `json:"runner"`
	NS      []float64 `json:"ns_per_packet"` // one of each run
}

func (r *peerResult) median() float64 {
	sorted := slices.Sorted(slices.Values(r.NS))
	return sorted[len(sorted)/2]
}

// readBenchmarks reads go test's lines; said is what else it printed.
func readBenchmarks(r io.Reader, each func(line string)) (results []*peerResult, said string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		each(line)
		fields := strings.Fields(line)
		at := slices.Index(fields, "ns/packet")
		if at < 1 || !strings.HasPrefix(line, "BenchmarkRun/") {
			said += line + "\n"
			continue
		}
		ns, err := strconv.ParseFloat(fields[at-1], 64)
		if err != nil {
			return nil, said, fmt.Errorf("%q: %w", line, err)
		}
		program, runner, _ := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkRun/"), "/")
		// Behind the name stands the number of processors.
		if dash := strings.LastIndexByte(runner, '-'); dash > 0 {
			if _, err := strconv.Atoi(runner[dash+1:]); err == nil {
				runner = runner[:dash]
			}
		}
		i := slices.IndexFunc(results, func(r *peerResult) bool { return r.Program == program && r.Runner == runner })
		if i < 0 {
			i = len(results)
			results = append(results, &peerResult{Program: program, Runner: runner})
		}
		results[i].NS = append(results[i].NS, ns)
	}
	return results, said, lines.Err()
}

// printPeers prints a row for each runner and a column for each program.
func printPeers(w io.Writer, results []*peerResult) {
	var programs, runners []string
	cells := map[[2]string]string{}
	for _, r := range results {
		if !slices.Contains(programs, r.Program) {
			programs = append(programs, r.Program)
		}
		if !slices.Contains(runners, r.Runner) {
			runners = append(runners, r.Runner)
		}
		cells[[2]string{r.Program, r.Runner}] = fmt.Sprintf("%.1f", r.median())
	}
	fmt.Fprintln(w, "ns a packet")
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "\t"+strings.Join(programs, "\t"))
	for _, runner := range runners {
		row := []string{runner}
		for _, program := range programs {
			cell := cells[[2]string{program, runner}]
			if cell == "" {
				cell = "-"
			}
			row = append(row, cell)
		}
		fmt.Fprintln(tab, strings.Join(row, "\t"))
	}
	tab.Flush()
}
