package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Who stays does what a stopped campaign is told later, and comes to the same.
func TestStay(t *testing.T) {
	cfg := small(t, seed(t, 1))
	expect := want(t, cfg, testRanges)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, testRanges, 0)
	tell(t, store, Control{Stopped, testRanges})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c, err := NewCoordinator(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Stay = true
	w, err := NewWorker(ctx, store, cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Stay = true
	states, worked := make(chan *campaign.State, 1), make(chan error, 1)
	go func() {
		state, err := c.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		states <- state
	}()
	go func() { worked <- w.Run(ctx, context.Background()) }()
	until := func(mode Mode, ranges uint64) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; pause(ctx, tick) {
			st, err := store.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if st.Summary.Mode == mode && st.Summary.Ranges == ranges && st.Summary.Stays && len(st.Workers) == 1 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v", st)
			}
		}
	}
	until(Stopped, 0)
	tell(t, store, Control{Running, testRanges / 2})
	until(Finished, testRanges/2)
	tell(t, store, Control{Running, testRanges})
	until(Finished, testRanges)
	end()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(expect, stateText(t, <-states)); diff != "" {
		t.Errorf("another answer (-one process +stopped and resumed):\n%s", diff)
	}
}

// A range that is given back again and again, and never begun, is none that nobody
// survives.
func TestGivenBack(t *testing.T) {
	cfg := small(t, seed(t, 1))
	const ranges = 3
	expect := want(t, cfg, ranges)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, ranges, 0)
	states := make(chan *campaign.State, 1)
	go func() { states <- coordinate(t, t.Context(), store, cfg) }()
	consumer, err := store.work.Consumer(t.Context(), workConsumer)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 * MaxDeliveries * ranges {
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			m.Nak()
		}
	}
	wait := startWorker(t, t.Context(), nc, cfg, 1)
	got := <-states
	wait()
	if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
		t.Errorf("another answer (-one process +given back):\n%s", diff)
	}
	if p, err := store.Poisons(t.Context()); err != nil || len(p) > 0 {
		t.Errorf("set aside: %v, %v", p, err)
	}
}

// A worker that is told to end gives back what it has fetched and not begun.
func TestGivesBack(t *testing.T) {
	cfg := small(t, 1)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, 0, time.Minute)
	c, err := NewCoordinator(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	defer func() { end(); <-done }()
	w, err := NewWorker(ctx, store, cfg, 4)
	if err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	if err := w.Run(ctx, stop); err != nil {
		t.Fatal(err)
	}
	if w.Stats().Ranges == 0 {
		t.Error("it did nothing: the test shows nothing")
	}
	end()
	<-done
	st, err := store.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := store.work.Consumer(t.Context(), workConsumer)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.Fetch(int(st.Queue), jetstream.FetchMaxWait(5*time.Second)) // less than it takes for a worker to be dead
	if err != nil {
		t.Fatal(err)
	}
	var got uint64
	for range batch.Messages() {
		got++
	}
	if got != st.Queue {
		t.Errorf("%d of %d messages are still with it", st.Queue-got, st.Queue)
	}
}

// Whatever is in the place of the summary, the status of a campaign whose
// coordinator is gone is what is in its streams.
func TestSummaryLost(t *testing.T) {
	cfg := small(t, seed(t, 1))
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, testRanges, 0)
	wait := startWorker(t, t.Context(), nc, cfg, 1)
	coordinate(t, t.Context(), store, cfg)
	wait()
	before, err := store.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before.Summary.Opcodes == 0 || before.Summary.Findings == 0 || before.Summary.Time.IsZero() {
		t.Fatalf("the test shows nothing: %+v", before.Summary)
	}
	for _, junk := range []string{"junk", "{}", `{"time":"2020-01-01T00:00:00Z"}`} {
		if _, err := store.control.Put(t.Context(), summaryKey, []byte(junk)); err != nil {
			t.Fatal(err)
		}
		after, err := store.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before.Summary, after.Summary, cmpopts.IgnoreFields(Summary{}, "Time", "Rate", "Newest", "History", "Junk")); diff != "" {
			t.Errorf("%s in its place (-before +after):\n%s", junk, diff)
		}
	}
	if err := store.control.Delete(t.Context(), summaryKey); err != nil {
		t.Fatal(err)
	}
	if st, err := store.Status(t.Context()); err != nil || st.Summary.Opcodes != before.Summary.Opcodes {
		t.Errorf("without it: %+v, %v", st, err)
	}
}
