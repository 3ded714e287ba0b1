package cluster

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// cpu is the processor time of this process so far.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// overhead is what messages cost a worker, beside what it does.
type overhead struct {
	work, messaging time.Duration // of processor time, for a range
	wall            time.Duration // of a range, without messages
	messages, bytes float64       // that a range takes
}

// measure measures it for ranges of the default settings, with a server in
// another process. The result that is sent is one of those that were done.
func measure(t testing.TB, ranges, sent uint64) overhead {
	t.Helper()
	s := campaign.Default()
	s.Version = "test"
	cfg, err := campaign.NewConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := cfg.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx := context.Background()
	frozen := campaign.NewState(&s).Frozen()
	if _, err := w.RunRange(ctx, frozen, 3); err != nil { // what is only done once
		t.Fatal(err)
	}
	var o overhead
	var res *campaign.Result
	before, began := cpu(t), time.Now()
	for r := range ranges {
		if res, err = w.RunRange(ctx, frozen, r%3); err != nil {
			t.Fatal(err)
		}
	}
	o.work, o.wall = (cpu(t)-before)/time.Duration(ranges), time.Since(began)/time.Duration(ranges)

	n := node{Name: "one", Dir: t.TempDir(), Client: freePort(t)}
	child(t, nodeEnv, n)
	nodes := &nodes{t: t, node: [3]node{n, n, n}}
	nc := nodes.connect()
	store, err := Create(ctx, nc, DefaultName, specOf(t, cfg), Options{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := NewWorker(ctx, store, cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCoordinator(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := campaign.EpochRanges(20)
	for r := range sent {
		if err := c.ask(ctx, c.rangeWork(first+r), rangeWork{c.id, first + r}); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := store.work.Consumer(ctx, workConsumer)
	if err != nil {
		t.Fatal(err)
	}
	messages, bytes := store.messages.Load(), store.bytes.Load()
	before = cpu(t)
	for range sent {
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			t.Fatal(err)
		}
		worker.messages.Add(1)
		for m := range batch.Messages() {
			r := *res
			words, _ := store.words(m.Subject(), "work")
			r.Range, _ = number(words[1])
			worker.send(ctx, sending{&r, m})
		}
	}
	o.messaging = (cpu(t) - before) / time.Duration(sent)
	o.messages, o.bytes = float64(store.messages.Load()-messages)/float64(sent), float64(store.bytes.Load()-bytes)/float64(sent)
	if worker.Stats().Ranges != sent {
		t.Fatalf("%d of %d results were sent: %s", worker.Stats().Ranges, sent, worker.Stats().Error)
	}
	return o
}

func (o *overhead) percent() float64 { return 100 * float64(o.messaging) / float64(o.work) }

// Messages take less than 2 % of a worker's processor time at the default size of
// ranges.
func TestMessagingOverhead(t *testing.T) {
	if testing.Short() {
		t.Skip("measures, which takes some seconds")
	}
	if underRace {
		t.Skip("the race detector makes Go slower, and the engine's C code not")
	}
	o := measure(t, 6, 60)
	t.Logf("a range: %v of work, %v for its messages (%.2f %%)", o.work, o.messaging, o.percent())
	if o.percent() >= 2 {
		t.Errorf("messages take %.2f %% of a worker's processor time", o.percent())
	}
}

// BenchmarkMessaging reports what messages cost a worker for a range of the
// default size, and how many of them it sends in a second of its time.
func BenchmarkMessaging(b *testing.B) {
	for b.Loop() {
		o := measure(b, 12, 200)
		b.ReportMetric(o.percent(), "%cpu")
		b.ReportMetric(float64(o.work.Microseconds()), "work-µs/range")
		b.ReportMetric(float64(o.messaging.Microseconds()), "messaging-µs/range")
		b.ReportMetric(o.messages, "messages/range")
		b.ReportMetric(o.bytes, "bytes/range")
		b.ReportMetric(o.messages/o.wall.Seconds(), "messages/s/worker")
	}
}
