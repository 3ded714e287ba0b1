package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/kjit-project/kjit/harness/campaign"
)

// fuzzProgress shows how far a campaign is: a line that changes on a terminal, a
// line now and then elsewhere.
type fuzzProgress struct {
	w        io.Writer
	cfg      *campaign.Config
	ctx      context.Context // done: the campaign is ending
	terminal *os.File        // nil: it is none
	shown    time.Time
}

// lineEvery is the time between two lines where they stay.
const lineEvery = 30 * time.Second

func newFuzzProgress(w io.Writer, cfg *campaign.Config, ctx context.Context) *fuzzProgress {
	return &fuzzProgress{w: w, cfg: cfg, ctx: ctx, terminal: drawable(w), shown: time.Now()}
}

func (p *fuzzProgress) show(s *campaign.Status) {
	if p.terminal != nil {
		text := p.line(s)
		if width, _, err := term.GetSize(int(p.terminal.Fd())); err == nil && width > 0 && len(text) >= width {
			text = text[:width-1]
		}
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		return
	}
	if time.Since(p.shown) >= lineEvery {
		p.shown = time.Now()
		fmt.Fprintln(p.w, p.line(s))
	}
}

func (p *fuzzProgress) close() {
	if p.terminal != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// line is the state in a line, the most important first.
func (p *fuzzProgress) line(s *campaign.Status) string {
	took := time.Since(s.Began)
	rate := func(now, before uint64) string {
		return thousands(uint64(float64(now-before) / max(took.Seconds(), 0.001)))
	}
	parts := []string{
		took.Round(time.Second).String(),
		fmt.Sprintf("%s programs (%s/s)", thousands(s.Programs), rate(s.Programs, s.Before.Programs)),
		fmt.Sprintf("%s pairs (%s/s)", thousands(s.Pairs), rate(s.Pairs, s.Before.Pairs)),
	}
	findings := plural(len(s.Findings()), "finding")
	if s.Waiting > 0 {
		findings += fmt.Sprintf(" (%d being made smaller)", s.Waiting)
	}
	c := coverageOf(p.cfg, s.State)
	parts = append(parts, findings, fmt.Sprintf("opcodes %d/%d, rules %s, edges %s", c.Opcodes, c.AllOpcodes, thousands(c.Rules), thousands(c.Edges)))
	if !s.Newest.IsZero() {
		parts = append(parts, "last new "+time.Since(s.Newest).Round(time.Second).String()+" ago")
	}
	if p.ctx.Err() != nil {
		parts[0] += ", ending (Ctrl-C again: at once)"
	}
	return strings.Join(parts, "  ")
}

// thousands writes a number with commas.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
