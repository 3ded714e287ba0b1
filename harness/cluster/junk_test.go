package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/judge"
)

// junkMessages are what a hostile client sends: noise, lies about sizes, what
// belongs elsewhere, and good messages that are torn or changed.
func junkMessages(t testing.TB, rng *rand.Rand, cfg *campaign.Config, id string) [][]byte {
	t.Helper()
	noise := make([]byte, 1+rng.IntN(2000))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	out := [][]byte{nil, noise, []byte("{}"), []byte("null\n"), []byte(`{"mode":"away"}`), []byte(strings.Repeat("[", 50_000)),
		[]byte(`{"id":"` + id + `","range":18446744073709551615}`)}
	bomb, _, _ := makeFrame(contentResult, id, make([]byte, 60<<20))
	out = append(out, bomb)
	for what := range maxBody {
		for _, body := range []string{"", "{}", `{"range":0}`, `{"range":1e999}`} {
			m, _, f := makeFrame(what, id, []byte(body))
			out = append(out, m, m[:len(m)/2])
			f.Parts = maxParts
			head, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, append(head, '\n'))
			other, _, _ := makeFrame(what, "0123456789abcdef", []byte(body))
			out = append(out, other)
		}
	}
	worker, err := cfg.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	res, err := worker.RunRange(context.Background(), campaign.NewState(&cfg.Settings).Frozen(), 3)
	if err != nil {
		t.Fatal(err)
	}
	res.Findings = append(res.Findings, res.Findings...)
	res.Targets[0].Agree += 1 << 40
	body, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	m, _, _ := makeFrame(contentResult, id, body)
	return append(out, m)
}

// junkRanges are the ranges of TestJunk, which whoever begins it knows.
const junkRanges = 30

// A client that publishes junk into every subject, before and while the campaign
// runs, changes nothing but the time it takes.
func TestJunk(t *testing.T) {
	if testing.Short() {
		t.Skip("floods a server with junk: ten seconds")
	}
	s := seed(t, 1)
	rng := rand.New(rand.NewPCG(s, 1))
	cfg := small(t, s)
	const ranges = junkRanges
	expect := want(t, cfg, ranges)
	srv, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, ranges, 2*time.Second)
	hostile, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer hostile.Close()
	messages := junkMessages(t, rng, cfg, store.id)
	subjects := func() []string {
		r, e := rng.Uint64N(ranges+5), rng.Uint64N(4)
		kv := func(bucket, key string) string { return "$KV." + store.stream(bucket) + "." + key }
		return []string{
			store.config(), store.epoch(rng.Uint64N(8)), store.subject("epoch", "x"), store.epoch(1 << 47),
			store.rangeWork(r), store.rangeWork(rng.Uint64()), store.subject("work", "range", "x"), store.subject("work", "other"),
			store.shrinkWork(keyOf(randomSignature(rng))), store.shrinkWork("x"),
			store.result(campaign.EpochOf(r), r), store.result(e, r), store.subject("result", "x", "y", "z"), store.subject("result", "1"),
			store.blob(e, "x", 0), store.subject("blob", "x"),
			kv(findingBucket, keyOf(randomSignature(rng))), kv(findingBucket, "x.y"), kv(findingBucket, keyOf(knownSignature)),
			kv(workerBucket, "x"), kv(workerBucket, "host-1-A"), kv(controlBucket, summaryKey), kv(controlBucket, "poison.7"), kv(controlBucket, "x"),
			kv(controlBucket, controlKey),
		}
	}
	flood := func() {
		for _, subject := range subjects() {
			if err := hostile.PublishMsg(&nats.Msg{Subject: subject, Data: messages[rng.IntN(len(messages))]}); err != nil {
				t.Error(err)
			}
		}
		hostile.Flush()
	}
	for range 20 {
		flood()
	}
	var stop = make(chan struct{})
	var flooded = make(chan struct{})
	go func() {
		defer close(flooded)
		for range 100 { // and not for ever
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				flood()
			}
		}
	}()
	wait := startWorker(t, t.Context(), nc, cfg, 2)
	got := coordinate(t, t.Context(), store, cfg)
	close(stop)
	<-flooded
	h := wait()
	t.Logf("the worker saw %d junk messages", h.Junk)
	if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
		t.Errorf("another answer (-without junk +with):\n%s", diff)
	}
	f, err := store.Export(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expect, stateText(t, f.State)); diff != "" {
		t.Errorf("another answer for who reads it later:\n%s", diff)
	}
	if _, err := store.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

var knownSignature = (&campaign.Finding{Target: "linux-3.0-x86_64", Rule: "and-k", How: "value"}).Signature()

func randomSignature(rng *rand.Rand) (f judge.Signature) {
	f.Rule = fmt.Sprint(rng.Uint32())
	return f
}

// Once is once, whoever writes, and however.
func TestOnce(t *testing.T) {
	cfg := small(t, 1)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, 1, 0)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	r := emptyResult(2, &cfg.Settings)
	r.Programs = uint64(cfg.Size)
	if err := store.putResult(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := store.putResult(t.Context(), r); !errors.Is(err, errExists) {
		t.Errorf("a second time: %v", err)
	}
	if err := store.putPoison(t.Context(), Poison{Range: 2}); !errors.Is(err, errExists) {
		t.Errorf("set aside with a result: %v", err)
	}
	for _, subject := range []string{store.result(0, 2), store.config()} {
		if _, err := js.Publish(t.Context(), subject, []byte("x")); !isTaken(err) {
			t.Errorf("a client that does not ask wrote %s: %v", subject, err)
		}
	}
}

// What others have to be, in what each differs.
func TestRefused(t *testing.T) {
	cfg := small(t, 1)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, 1, 0)
	for _, test := range []struct {
		desc   string
		change func(*campaign.Settings)
		err    string
	}{
		{"another version", func(s *campaign.Settings) { s.Version = "newer" }, `the campaign is done with version "test", and this worker has "newer": all of a campaign must have the same`},
		{"other JITs", func(s *campaign.Settings) { s.JITs = []string{"kjit-armv7"} }, `the campaign is done with JITs ["linux-3.0-x86_64"], and this worker has ["kjit-armv7"]: all of a campaign must have the same`},
		{"another seed", func(s *campaign.Settings) { s.Seed++ }, `the campaign that is there has --seed "1", and now it is "2"`},
	} {
		t.Run(test.desc, func(t *testing.T) {
			s := cfg.Settings
			test.change(&s)
			other, err := campaign.NewConfig(s)
			if err != nil {
				t.Fatal(err)
			}
			_, err = NewWorker(t.Context(), store, other, 1)
			if err == nil || err.Error() != test.err {
				t.Errorf("%v, want %s", err, test.err)
			}
		})
	}
	t.Run("emitters that do something else", func(t *testing.T) {
		s := &Store{Spec: store.Spec}
		s.Spec.Probe = strings.Repeat("0", 64)
		var mismatch *MismatchError
		if _, err := NewWorker(t.Context(), s, cfg, 1); !errors.As(err, &mismatch) {
			t.Error(err)
		}
	})
	t.Run("one that does not look itself is named by the coordinator", func(t *testing.T) {
		if err := store.write(t.Context(), store.workers, "w", Heartbeat{ID: "w", Version: "old", Format: 1, JITs: cfg.JITs}); err != nil {
			t.Fatal(err)
		}
		ours, others, err := store.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(ours) != 0 || len(others) != 1 || others["w"].Error() != `the campaign is done with version "test", and this worker has "old": all of a campaign must have the same` {
			t.Errorf("%v, %v", ours, others)
		}
	})
}

// A range that nobody survives is set aside, and the campaign goes on.
func TestPoison(t *testing.T) {
	cfg := small(t, 1)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, 6, 0)
	c, err := NewCoordinator(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *campaign.State, 1)
	go func() {
		state, err := c.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		done <- state
	}()
	consumer, err := store.work.Consumer(t.Context(), workConsumer)
	if err != nil {
		t.Fatal(err)
	}
	var held []jetstream.Msg
	for deaths := 0; deaths < MaxDeliveries; {
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if m.Subject() == store.rangeWork(1) {
				deaths++
				if _, err := store.begin(t.Context(), rangeKey(1), 2); err != nil {
					t.Error(err)
				}
				m.Nak()
			} else {
				held = append(held, m)
			}
		}
	}
	for _, m := range held {
		m.Nak()
	}
	wait := startWorker(t, t.Context(), nc, cfg, 1)
	state := <-done
	wait()
	if state.Ranges != 6 || state.Programs != 5*uint64(cfg.Size) {
		t.Errorf("%d ranges with %d programs", state.Ranges, state.Programs)
	}
	got, err := store.Poisons(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Poison{{Range: 1, Deliveries: MaxDeliveries}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Two coordinators, one of which begins late, do no harm.
func TestCoordinators(t *testing.T) {
	s := seed(t, 1)
	cfg := small(t, s)
	expect := want(t, cfg, testRanges)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, testRanges, 0)
	second, err := Open(t.Context(), nc, DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan *campaign.State, 2)
	for i, st := range []*Store{store, second} {
		go func() {
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			c, err := NewCoordinator(st, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			state, err := c.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			states <- state
		}()
	}
	wait := startWorker(t, t.Context(), nc, cfg, 1)
	for range 2 {
		<-states
	}
	wait()
	got, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
		t.Errorf("another answer (-one process +two coordinators):\n%s", diff)
	}
}
