package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/cluster"
)

// What a campaign on the network wants to be run here is run only if our own
// command line says so.
func TestTrusted(t *testing.T) {
	for _, test := range []struct {
		desc        string
		wants, ours []string
		err         string // "": it is allowed
	}{
		{"kjit's own", []string{"kjit-armv7"}, nil, ""},
		{"a command that nobody named here", []string{"exec:rm -rf x"}, nil, `the campaign wants "exec:rm -rf x" run here: give it with --jit to allow that`},
		{"a command beside one that was named", []string{"exec:./jit", "exec:./other"}, []string{"exec:./jit"}, `the campaign wants "exec:./other" run here`},
		{"a command that was named", []string{"exec:./jit"}, []string{"exec:./jit"}, ""},
		{"other JITs than were named", []string{"kjit-armv7"}, []string{"kjit-armv5"}, "the campaign is done with JITs kjit-armv7, and this worker has kjit-armv5"},
	} {
		err := trusted(&campaign.Settings{JITs: test.wants}, test.ours)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, want %s", test.desc, err, test.err)
		}
	}
}

// The status fits a terminal, and has no more than the campaign says.
func TestStatusText(t *testing.T) {
	now := time.Unix(1000, 0)
	st := &cluster.Status{Control: cluster.Control{Mode: cluster.Running}, Queue: 3, Given: 2}
	c := &campaignStatusCmd{clusterFlags: clusterFlags{Name: "main"}}
	if got := c.text(st, now); got != "campaign main is running; no coordinator has been there yet\n" {
		t.Errorf("%q", got)
	}
	st.Summary = cluster.Summary{Time: now, Programs: 1234, Rate: 10, History: []cluster.Point{{Time: time.Unix(0, 0), Covered: 1}, {Time: time.Unix(900, 0), Covered: 80}, {Time: now, Covered: 100}},
		Targets: []cluster.TargetSummary{{JIT: "evil\x1b[2J"}}}
	st.Workers = []cluster.Heartbeat{{ID: "w", Error: "a\nb\x1b[2J"}}
	text := c.text(st.Clean(), now)
	for _, want := range []string{"programs  1,234 (10/s)", "▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▆▆▆▆▆█ over 16m40s", "evil?[2J", "1 worker\n", "a?b?[2J"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("a terminal would act upon %q", text)
	}
	for _, line := range strings.Split(fit(text, 40, 10), "\n") {
		if len([]rune(line)) >= 40 {
			t.Errorf("%q is too wide", line)
		}
	}
	if lines := strings.Count(fit(text, 40, 10), "\n"); lines > 9 {
		t.Errorf("%d lines on 10", lines)
	}
}
