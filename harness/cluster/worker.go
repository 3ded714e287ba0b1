package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/judge"
)

// Worker does ranges of a campaign, and makes its findings smaller.
type Worker struct {
	*Store
	cfg  *campaign.Config
	Jobs int  // ranges at once; at least 1
	Stay bool // Run goes on when the campaign has ended: it may be resumed

	// Log, if not nil, is told what people should know.
	Log func(format string, args ...any)

	ackWait time.Duration
	mode    atomic.Pointer[Control]
	mu      sync.Mutex
	beat    Heartbeat
	rate    meter
	frozen  *campaign.Frozen
	known   map[judge.Signature]bool
	held    map[jetstream.Msg]bool
}

// How often a worker says that it is there, and reads what it should do.
const (
	beatEvery = 5 * time.Second
	fetchWait = 2 * time.Second
)

// NewWorker returns a worker for a campaign whose settings, targets and version
// are ours: another is a *MismatchError. It runs a few programs to know.
func NewWorker(ctx context.Context, s *Store, cfg *campaign.Config, jobs int) (*Worker, error) {
	if err := s.Spec.Fits(cfg.Version); err != nil {
		return nil, err
	}
	if err := s.Spec.fitsJITs(cfg.JITs); err != nil {
		return nil, err
	}
	if err := s.Spec.Settings.Differs(&cfg.Settings); err != nil {
		return nil, err
	}
	probe, err := Probe(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.Spec.fitsProbe(probe); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	w := &Worker{Store: s, cfg: cfg, Jobs: max(jobs, 1), known: map[judge.Signature]bool{}, held: map[jetstream.Msg]bool{}}
	w.beat = Heartbeat{
		ID: idOf(host), Host: cut(host, maxText), Version: cfg.Version, Format: campaign.Format, JITs: cfg.JITs, Jobs: w.Jobs, Began: time.Now().UTC(),
	}
	return w, nil
}

// idOf makes a name that no other worker has.
func idOf(host string) string {
	safe := strings.Map(func(r rune) rune {
		if isAlphanumeric(r) {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%s-%d-%s", safe[:min(len(safe), 40)], os.Getpid(), rand.Text()[:8])
}

// ID is the worker's name.
func (w *Worker) ID() string { return w.beat.ID }

// Stats returns what the worker says of itself.
func (w *Worker) Stats() Heartbeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.beat
	b.Messages, b.Bytes = w.messages.Load(), w.bytes.Load()
	return b
}

// Run works until the campaign has ended, stop is done, or ctx is: with stop the
// ranges that have begun are finished, with ctx they are given back. It waits for a
// server that is away.
func (w *Worker) Run(ctx, stop context.Context) error {
	if w.Log == nil {
		w.Log = func(string, ...any) {}
	}
	ctx = patiently(ctx, w.Log)
	var consumer jetstream.Consumer
	err := w.retry(ctx, func(ctx context.Context) (err error) {
		consumer, err = w.work.Consumer(ctx, workConsumer)
		return err
	})
	if err != nil {
		return err
	}
	w.ackWait = max(consumer.CachedInfo().Config.AckWait, 300*time.Millisecond)
	stop, cancel := context.WithCancel(stop)
	defer cancel()
	if err := w.obey(ctx, cancel); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var jobs, others sync.WaitGroup
	others.Go(func() { w.tellAll(ctx, cancel) })
	others.Go(func() { w.keepAll(ctx) })
	for range w.Jobs {
		jobs.Go(func() {
			if err := w.job(ctx, stop, consumer); err != nil {
				end(err)
			}
		})
	}
	jobs.Wait()
	cause := context.Cause(ctx)
	end(nil)
	others.Wait()
	late, cancel2 := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel2()
	w.workers.Delete(late, w.ID())
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return cause
}

// obey reads what the campaign is told to do.
func (w *Worker) obey(ctx context.Context, stop func()) error {
	c, err := w.Control(ctx)
	if isBad(err) {
		return nil // as it was
	}
	if err != nil {
		return err
	}
	w.mode.Store(&c)
	if c.Ended() && !w.Stay {
		stop()
	}
	return nil
}

// running reports whether ranges are to be begun.
func (w *Worker) running() bool {
	c := w.mode.Load()
	return c != nil && c.Mode == Running
}

// tellAll says that the worker lives, and reads what it should do.
func (w *Worker) tellAll(ctx context.Context, stop func()) {
	var told time.Time
	for ctx.Err() == nil {
		if time.Since(told) >= beatEvery {
			told = time.Now()
			w.tell(ctx)
		}
		pause(ctx, min(time.Second, beatEvery))
		if err := w.obey(ctx, stop); err != nil && ctx.Err() == nil {
			w.note(err)
		}
	}
}

func (w *Worker) tell(ctx context.Context) {
	w.mu.Lock()
	now := time.Now().UTC()
	w.beat.Seen = now
	w.beat.Rate = w.rate.rate(now, w.beat.Programs)
	if c := w.mode.Load(); c != nil {
		w.beat.Mode = c.Mode
	}
	w.mu.Unlock()
	if err := w.write(ctx, w.workers, w.ID(), w.Stats()); err != nil && ctx.Err() == nil {
		w.note(err)
	}
}

// note keeps the last error for the heartbeat.
func (w *Worker) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beat.Error = cut(strings.ToValidUTF8(err.Error(), "?"), maxText)
}

// count changes what the worker says of itself.
func (w *Worker) count(change func(*Heartbeat)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.beat)
}

// keepAll tells the server again and again that the messages which are held are
// being worked on.
func (w *Worker) keepAll(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, w.ackWait/3)
		w.mu.Lock()
		var held []jetstream.Msg
		for m := range w.held {
			held = append(held, m)
		}
		w.mu.Unlock()
		for _, m := range held {
			w.messages.Add(1)
			m.InProgress() // if it does not get there the message is given to another as well
		}
	}
}

func (w *Worker) hold(m jetstream.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[m] = true
}

// letGo ends what the server was told: done, or to be done by another.
func (w *Worker) letGo(m jetstream.Msg, how func() error) {
	w.mu.Lock()
	delete(w.held, m)
	w.mu.Unlock()
	w.messages.Add(1)
	how() // if it does not get there the message comes again, and is found done
}

// job does ranges one after another. While it does one, the next is fetched and
// the result of the one before is sent.
func (w *Worker) job(ctx, stop context.Context, consumer jetstream.Consumer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fetched := make(chan jetstream.Msg)
	results := make(chan sending, 1)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	helpers.Go(func() { w.fetchAll(ctx, stop, consumer, fetched) })
	defer close(results)
	helpers.Go(func() {
		for r := range results {
			w.send(ctx, r)
		}
	})
	j := &job{Worker: w, stop: stop, results: results}
	defer j.close()
	for m := range fetched {
		if err := j.do(ctx, m); err != nil {
			cancel()
			for m := range fetched {
				w.letGo(m, m.Nak)
			}
			return err
		}
	}
	return nil
}

// fetchAll fetches work, one message at a time, until stop is done.
func (w *Worker) fetchAll(ctx, stop context.Context, consumer jetstream.Consumer, to chan<- jetstream.Msg) {
	defer close(to)
	for stop.Err() == nil && ctx.Err() == nil {
		if !w.running() {
			pause(stop, tick)
			continue
		}
		w.messages.Add(1)
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(fetchWait))
		if err == nil {
			for m := range batch.Messages() {
				w.hold(m)
				select {
				case to <- m:
				case <-ctx.Done():
					w.letGo(m, m.Nak)
				case <-stop.Done():
					w.letGo(m, m.Nak)
				}
			}
			err = batch.Error()
		}
		if err != nil && !errors.Is(err, jetstream.ErrNoMessages) && !isTransient(err) {
			w.note(err)
		}
		if err != nil {
			pause(stop, tick)
		}
	}
}

// sending is a result on its way.
type sending struct {
	*campaign.Result
	message jetstream.Msg
}

// send writes a result. Only then its range is done.
func (w *Worker) send(ctx context.Context, r sending) {
	if err := w.sendFindings(ctx, r.Result); err != nil && ctx.Err() == nil {
		w.note(err)
	}
	err := w.putResult(ctx, r.Result)
	if errors.Is(err, errExists) {
		w.compare(ctx, r.Result)
		err = nil
	}
	if err != nil {
		if ctx.Err() == nil {
			w.note(err)
			w.Log("range %d: its result cannot be sent: %v", r.Range, err)
		}
		w.letGo(r.message, r.message.Nak)
		return
	}
	w.letGo(r.message, r.message.Ack)
	w.count(func(b *Heartbeat) {
		b.Ranges++
		b.Programs += r.Programs
		b.Pairs += r.Pairs
	})
}

// sendFindings puts signatures that this worker has not seen before where all
// see them at once. The results have them too: nothing is lost without.
func (w *Worker) sendFindings(ctx context.Context, r *campaign.Result) error {
	for i := range r.Findings {
		f := r.Findings[i]
		w.mu.Lock()
		known := w.known[f.Signature()]
		w.mu.Unlock()
		if known {
			continue
		}
		f.Count = 1
		data, err := w.formatEntry(&Entry{Finding: f, Insns: len(f.Program)})
		if err != nil {
			return err
		}
		if err := w.swap(ctx, w.findings, keyOf(f.Signature()), data, 0); err != nil && !errors.Is(err, errExists) {
			return err
		}
		w.mu.Lock()
		w.known[f.Signature()] = true
		w.mu.Unlock()
	}
	return nil
}

// compare looks at the result that another wrote for the same range.
func (w *Worker) compare(ctx context.Context, r *campaign.Result) {
	subject := w.result(campaign.EpochOf(r.Range), r.Range)
	other, _, err := w.get(ctx, w.results, subject, contentResult)
	if err != nil {
		return // junk, which the coordinator deletes, or set aside, or swept
	}
	ours, err := json.Marshal(r)
	w.count(func(b *Heartbeat) {
		b.Again++
		if err == nil && string(ours) != string(other) {
			b.Differ++
		}
	})
	if string(ours) != string(other) {
		w.Log("range %d: another worker came to another result: the results of this campaign depend on who does them", r.Range)
	}
}

// frozenOf returns what an epoch starts from, which all jobs share.
func (w *Worker) frozenOf(ctx context.Context, epoch uint64) (*campaign.Frozen, error) {
	w.mu.Lock()
	f := w.frozen
	w.mu.Unlock()
	if f != nil && f.Epoch == epoch {
		return f, nil
	}
	if f != nil && epoch < f.Epoch {
		return nil, nil
	}
	fresh, err := w.Store.frozen(ctx, epoch)
	if err != nil || fresh == nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen == nil || w.frozen.Epoch < epoch {
		w.frozen = fresh
	} else if w.frozen.Epoch == epoch {
		fresh = w.frozen // one and the same, which a generator knows
	}
	return fresh, nil
}
