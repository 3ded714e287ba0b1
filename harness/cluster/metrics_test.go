package cluster

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	cfg := small(t, 1)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, 4, 0)
	handler := store.Metrics()
	get := func() string {
		r := httptest.NewRecorder()
		handler.ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
		if r.Code != 200 {
			t.Errorf("%d: %s", r.Code, r.Body)
		}
		return r.Body.String()
	}
	if text := get(); !strings.Contains(text, `kjit_campaign_up{campaign="main"} 0`) {
		t.Errorf("before a coordinator was there:\n%s", text)
	}
	wait := startWorker(t, t.Context(), nc, cfg, 1)
	coordinate(t, t.Context(), store, cfg)
	wait()
	// One that lives.
	if err := store.write(t.Context(), store.workers, "host-1-X", Heartbeat{ID: "host-1-X", Version: "test", Format: 1, JITs: cfg.JITs}); err != nil {
		t.Fatal(err)
	}
	text := get()
	for _, line := range []string{
		`kjit_campaign_up{campaign="main"} 1`,
		`kjit_campaign_programs_total{campaign="main"} 32`,
		`kjit_campaign_ranges_total{campaign="main"} 4`,
		`kjit_campaign_queue_messages{campaign="main"} 0`,
		`kjit_campaign_covered_rules{campaign="main",jit="linux-3.0-x86_64"} `,
		`kjit_campaign_worker_age_seconds{campaign="main",worker="host-1-X"} `,
		`kjit_campaign_pairs_total{campaign="main"} `,
		`kjit_campaign_findings{campaign="main"} `,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}
