package campaign

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// small returns a campaign with short ranges.
func small(t testing.TB, seed uint64, size int, jits ...string) *Config {
	t.Helper()
	s := Default()
	s.Seed, s.Size = seed, size
	if len(jits) > 0 {
		s.JITs = jits
	}
	cfg, err := NewConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newWorker(t testing.TB, cfg *Config) *Worker {
	t.Helper()
	w, err := cfg.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// text is a value as JSON, which has all of a result and of a state.
func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A range gives the same whatever its worker has done before: nothing, or ranges
// with faults, time-outs and coverage of its own.
func TestRangeIsPure(t *testing.T) {
	cfg := small(t, seed(t, 1), 40, "linux-3.10-x86_64", "kjit-armv5", "linux-3.0-x86_64", "mutant:arm-v5-swap16-left", "mutant:x86-jcc-skip6", "mutant:arm-pool-overflow", "seccomp-2013-armv7")
	frozen := NewState(&cfg.Settings).Frozen()
	used := newWorker(t, cfg)
	ctx := context.Background()
	for _, r := range []uint64{3, 1, 0, 2} {
		var got [2]string
		for i, w := range []*Worker{used, newWorker(t, cfg)} {
			res, err := w.RunRange(ctx, frozen, r)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = text(t, res)
			if again, err := ParseResult([]byte(got[i]), &cfg.Settings); err != nil {
				t.Error(err)
			} else if diff := cmp.Diff(got[i], text(t, again)); diff != "" {
				t.Errorf("range %d is another one when it is read again:\n%s", r, diff)
			}
		}
		if diff := cmp.Diff(got[1], got[0]); diff != "" {
			t.Errorf("range %d depends on what its worker did before (-fresh worker +used):\n%s", r, diff)
		}
	}
}
