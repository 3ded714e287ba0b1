package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/kjit-project/kjit/harness/cluster"
)

type campaignStatusCmd struct {
	clusterFlags
	Once bool `help:"Show it once on a terminal, too."`
}

// statusJSON is a campaign's status for programs.
type statusJSON struct {
	Type     string `json:"type"` // "status"
	Campaign string `json:"campaign"`
	Mode     string `json:"mode"`
	cluster.Summary
	Coordinator bool                `json:"coordinator"` // one has been there in the last seconds
	Queue       uint64              `json:"queue"`
	Given       int                 `json:"given"`
	Workers     []cluster.Heartbeat `json:"workers"`
	Refused     int                 `json:"refused"`
}

func (c *campaignStatusCmd) Run(ctx context.Context, std streams, global *cli) error {
	o, err := c.open(ctx, "status")
	if err != nil {
		return err
	}
	defer o.close()
	screen := terminal(std.out)
	live := screen != nil && !c.Once && !global.JSON && os.Getenv("TERM") != "dumb"
	for lines := 0; ; {
		st, err := o.Status(ctx)
		if err != nil {
			return c.explain(err)
		}
		st = st.Clean()
		if global.JSON {
			return json.NewEncoder(std.out).Encode(c.json(st))
		}
		text := c.text(st, time.Now())
		if !live {
			_, err := io.WriteString(std.out, text)
			return err
		}
		if width, height, err := term.GetSize(int(screen.Fd())); err == nil {
			text = fit(text, width, height)
		}
		// What was there before is written over, line by line.
		frame := strings.ReplaceAll(text, "\n", "\x1b[K\n")
		if lines > 0 {
			frame = fmt.Sprintf("\x1b[%dA\x1b[J%s", lines, frame)
		}
		if _, err := io.WriteString(std.out, frame); err != nil {
			return err
		}
		lines = strings.Count(text, "\n")
		if st.Control.Ended() {
			return nil
		}
		if pause(ctx, time.Second) != nil {
			return nil
		}
	}
}

func (c *campaignStatusCmd) json(st *cluster.Status) statusJSON {
	if st.Workers == nil {
		st.Workers = []cluster.Heartbeat{}
	}
	return statusJSON{"status", c.Name, string(st.Control.Mode), st.Summary, coordinated(st, time.Now()), st.Queue, st.Given, st.Workers, len(st.Refused)}
}

// coordinated reports whether a coordinator has been there lately.
func coordinated(st *cluster.Status, now time.Time) bool {
	return now.Sub(st.Summary.Time) < 10*time.Second
}

// fit cuts a text to a terminal.
func fit(text string, width, height int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if height > 2 && len(lines) > height-1 {
		lines = append(lines[:height-2], "...\n")
	}
	for i, l := range lines {
		l = strings.TrimSuffix(l, "\n")
		if r := []rune(l); width > 1 && len(r) >= width {
			l = string(r[:width-1])
		}
		lines[i] = l + "\n"
	}
	return strings.Join(lines, "")
}

// text draws the status.
func (c *campaignStatusCmd) text(st *cluster.Status, now time.Time) string {
	var b bytes.Buffer
	s := &st.Summary
	fmt.Fprintf(&b, "campaign %s is %s", c.Name, st.Control.Mode)
	switch {
	case s.Time.IsZero() && s.Ranges == 0:
		fmt.Fprintf(&b, "; no coordinator has been there yet\n")
		return b.String()
	case s.Time.IsZero():
		fmt.Fprintf(&b, "; this is what is in its streams: no coordinator says more")
	case s.Stays && coordinated(st, now) && st.Control.Ended():
		fmt.Fprintf(&b, "; its coordinator waits until it is resumed")
	case !coordinated(st, now) && !st.Control.Ended():
		fmt.Fprintf(&b, "; no coordinator for %s: kjit campaign start goes on with it", ago(now, s.Time))
	}
	ranges := thousands(s.Ranges)
	if s.Bound > 0 {
		ranges += " of " + thousands(s.Bound)
	}
	fmt.Fprintf(&b, "\nprograms  %s (%s/s), %s pairs\n", thousands(s.Programs), thousands(uint64(s.Rate)), thousands(s.Pairs))
	fmt.Fprintf(&b, "ranges    %s (epoch %d), %d done ahead, %d in the queue, %d of them with workers\n", ranges, s.Epoch, s.Ahead, st.Queue, st.Given)
	rules, edges := 0, 0
	for i := range s.Targets {
		rules += s.Targets[i].Rules
		edges += s.Targets[i].Edges
	}
	opcodes := fmt.Sprint(s.Opcodes)
	if s.All > 0 {
		opcodes += fmt.Sprint(" of ", s.All)
	}
	fmt.Fprintf(&b, "coverage  %s opcodes, %s rules, %s edges; corpus %s", opcodes, thousands(uint64(rules)), thousands(uint64(edges)), plural(s.Corpus, "program"))
	if !s.Newest.IsZero() {
		fmt.Fprintf(&b, "; last new %s ago", ago(now, s.Newest))
	}
	fmt.Fprintln(&b)
	if line, span := sparkline(s.History, 50); line != "" {
		fmt.Fprintf(&b, "          %s over %s\n", line, span.Round(time.Second))
	}
	fmt.Fprintf(&b, "findings  %d", s.Findings)
	if s.Waiting > 0 {
		fmt.Fprintf(&b, " (%d being made smaller)", s.Waiting)
	}
	if s.More > 0 {
		fmt.Fprintf(&b, ", and other signatures in %s programs", thousands(s.More))
	}
	fmt.Fprintln(&b)
	if s.Poisoned > 0 {
		fmt.Fprintf(&b, "set aside %s that no worker survived\n", plural(s.Poisoned, "range"))
	}
	if s.Junk > 0 {
		fmt.Fprintf(&b, "junk      %s that were none of kjit's\n", plural(int(s.Junk), "message"))
	}
	fmt.Fprintln(&b)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "agree\tDIVERGE\tundefined\tnot run\trules\tedges\t  JIT")
	for i := range s.Targets {
		t := &s.Targets[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t  %s\n", thousands(t.Agree), thousands(t.Diverge), thousands(t.Undefined), thousands(t.NotRun), t.Rules, t.Edges, t.JIT)
	}
	table.Flush()
	fmt.Fprintf(&b, "\n%s\n", plural(len(st.Workers), "worker"))
	if len(st.Workers) > 0 {
		fmt.Fprintln(table, "jobs\tranges\tprograms/s\tage\tseen\t  ID")
	}
	for i := range st.Workers {
		w := &st.Workers[i]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s ago\t  %s", w.Jobs, thousands(w.Ranges), thousands(uint64(w.Rate)), ago(now, w.Began), ago(now, w.Seen), w.ID)
		if w.Error != "" {
			fmt.Fprintf(table, " (%s)", w.Error)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	for id, err := range st.Refused {
		fmt.Fprintf(&b, "worker %q is refused: %v\n", id, err)
	}
	return b.String()
}

func ago(now, then time.Time) time.Duration { return max(now.Sub(then), 0).Round(time.Second) }

// sparkline draws how coverage grew, in so many columns of equal time.
func sparkline(history []cluster.Point, columns int) (string, time.Duration) {
	if len(history) < 2 {
		return "", 0
	}
	first, last := history[0], history[len(history)-1]
	span := last.Time.Sub(first.Time)
	if span <= 0 || last.Covered <= 0 {
		return "", 0
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var line []rune
	for i, at := 0, 0; i < columns; i++ {
		until := first.Time.Add(span * time.Duration(i+1) / time.Duration(columns))
		for at+1 < len(history) && !history[at+1].Time.After(until) {
			at++
		}
		level := int(float64(len(levels)-1) * float64(history[at].Covered) / float64(last.Covered))
		line = append(line, levels[min(max(level, 0), len(levels)-1)])
	}
	return string(line), span
}
