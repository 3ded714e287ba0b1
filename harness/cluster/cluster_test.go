package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/kjit-project/kjit/harness/campaign"
)

func seed(t testing.TB, fixed uint64) uint64 {
	if s := os.Getenv("KJIT_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("KJIT_SEED: %v", err)
		}
		fixed = v
	}
	t.Logf("KJIT_SEED=%d", fixed)
	return fixed
}

// small returns a campaign of short ranges against an emitter with faults that are
// found soon.
func small(t testing.TB, seed uint64) *campaign.Config {
	t.Helper()
	s := campaign.Default()
	s.Version, s.Seed, s.Size, s.Inputs, s.JITs = "test", seed, 8, 16, []string{"linux-3.0-x86_64"}
	cfg, err := campaign.NewConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// want is what a campaign comes to without any network.
func want(t testing.TB, cfg *campaign.Config, ranges uint64) string {
	t.Helper()
	w, err := cfg.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	state := campaign.NewState(&cfg.Settings)
	for r := range ranges {
		res, err := w.RunRange(context.Background(), state.Frozen(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := state.Merge(res); err != nil {
			t.Fatal(err)
		}
	}
	if len(state.Findings()) == 0 {
		t.Fatal("nothing is found: the test shows nothing")
	}
	return stateText(t, state)
}

// stateText is all of a state that people see.
func stateText(t testing.TB, s *campaign.State) string {
	t.Helper()
	data, err := json.MarshalIndent(struct {
		campaign.Totals
		Next     uint64
		Findings []*campaign.Finding
		Corpus   []campaign.Entry
	}{s.Totals, s.Next, s.Findings(), s.Corpus()}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func specOf(t testing.TB, cfg *campaign.Config) Spec {
	t.Helper()
	spec, err := NewSpec(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// begin begins a campaign of so many ranges.
func begin(t testing.TB, nc *nats.Conn, cfg *campaign.Config, ranges uint64, ackWait time.Duration) *Store {
	t.Helper()
	s, err := Create(t.Context(), nc, DefaultName, specOf(t, cfg), Options{AckWait: ackWait})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, s, Control{Running, ranges})
	return s
}

func tell(t testing.TB, s *Store, c Control) {
	t.Helper()
	if err := s.SetControl(context.Background(), func(now *Control) error { *now = c; return nil }); err != nil {
		t.Fatal(err)
	}
}

// embedded starts a server and connects to it.
func embedded(t testing.TB, dir string, cfg *campaign.Config) (*Server, *nats.Conn) {
	t.Helper()
	srv, err := StartServer(dir, Listen{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return srv, nc
}

// coordinate runs a coordinator to the end.
func coordinate(t testing.TB, ctx context.Context, s *Store, cfg *campaign.Config) *campaign.State {
	t.Helper()
	c, err := NewCoordinator(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Log = func(format string, args ...any) { t.Logf("coordinator: "+format, args...) }
	if c.Told, err = s.Control(ctx); isBad(err) {
		c.Told = Control{Running, junkRanges}
	}
	state, err := c.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}
	return state
}

// startWorker runs a worker; the function that is returned waits for its end.
func startWorker(t testing.TB, ctx context.Context, nc *nats.Conn, cfg *campaign.Config, jobs int) (wait func() Heartbeat) {
	t.Helper()
	s, err := Open(ctx, nc, DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorker(ctx, s, cfg, jobs)
	if err != nil {
		t.Fatal(err)
	}
	w.Log = func(format string, args ...any) { t.Logf("worker: "+format, args...) }
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, context.Background()) }()
	return func() Heartbeat {
		if err := <-done; err != nil {
			t.Error(err)
		}
		return w.Stats()
	}
}

const testRanges = 10

// The same answer for 1, 2 and 4 workers, and without any.
func TestSameAnswer(t *testing.T) {
	cfg := small(t, seed(t, 1))
	expect := want(t, cfg, testRanges)
	var files map[string]string
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			_, nc := embedded(t, t.TempDir(), cfg)
			s := begin(t, nc, cfg, testRanges, 0)
			var waits []func() Heartbeat
			for range workers {
				waits = append(waits, startWorker(t, t.Context(), nc, cfg, 1))
			}
			got := coordinate(t, t.Context(), s, cfg)
			var ranges uint64
			for _, wait := range waits {
				h := wait()
				ranges += h.Ranges
				t.Logf("%s: %d ranges, %d messages, %d bytes, %d again, %d junk", h.ID, h.Ranges, h.Messages, h.Bytes, h.Again, h.Junk)
			}
			if ranges != testRanges {
				t.Errorf("the workers did %d ranges", ranges)
			}
			if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
				t.Errorf("another answer (-one process +cluster):\n%s", diff)
			}
			loaded, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expect, stateText(t, loaded)); diff != "" {
				t.Errorf("another answer for who reads it later:\n%s", diff)
			}
			entries, err := s.Entries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			now := map[string]string{}
			for _, e := range entries {
				sig := e.Finding.Signature().String()
				if !e.Final {
					t.Errorf("%s is not final", sig)
				}
				now[sig] = e.File
			}
			if files == nil {
				files = now
			}
			if diff := cmp.Diff(files, now); diff != "" {
				t.Errorf("other files of findings (-before +now):\n%s", diff)
			}
			if len(entries) != len(got.Findings()) {
				t.Errorf("%d entries of %d findings", len(entries), len(got.Findings()))
			}
			st, err := s.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if st.Summary.Ranges != testRanges || st.Control.Mode != Finished || st.Queue != 0 || st.Summary.Waiting != 0 {
				t.Errorf("status %+v", st)
			}
		})
	}
}
