package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// job is one of a worker's goroutines with its machines.
type job struct {
	*Worker
	stop     context.Context // nothing is begun when it is done
	results  chan<- sending
	worker   *campaign.Worker
	finisher *campaign.Finisher
}

func (j *job) close() {
	if j.worker != nil {
		j.worker.Close()
	}
	if j.finisher != nil {
		j.finisher.Close()
	}
}

// do does what a message says. An error is one of the worker, not of the message.
func (j *job) do(ctx context.Context, m jetstream.Msg) error {
	words, _ := j.words(m.Subject(), "work")
	meta, err := m.Metadata()
	if err != nil || len(words) != 2 {
		return j.junk(m)
	}
	if j.giveBack(m) {
		return nil
	}
	switch words[0] {
	case "range":
		var work rangeWork
		r, ok := number(words[1])
		if !ok || decode(m.Data(), maxHead, &work) != nil || work.ID != j.id || work.Range != r {
			return j.junk(m)
		}
		return j.doRange(ctx, m, r, meta.NumDelivered)
	case "shrink":
		var work shrinkWork
		if !isKey(words[1]) || decode(m.Data(), maxHead, &work) != nil || work.ID != j.id {
			return j.junk(m)
		}
		return j.doShrink(ctx, m, words[1], meta.NumDelivered)
	}
	return j.junk(m)
}

// junk takes a message that is none out of the queue.
func (j *job) junk(m jetstream.Msg) error {
	j.count(func(b *Heartbeat) { b.Junk++ })
	j.letGo(m, m.Term)
	return nil
}

// giveBack gives back work that was fetched and is not to be begun any more.
func (j *job) giveBack(m jetstream.Msg) bool {
	if j.stop.Err() == nil && j.running() {
		return false
	}
	j.letGo(m, m.Nak)
	return true
}

func (j *job) doRange(ctx context.Context, m jetstream.Msg, r, deliveries uint64) error {
	frozen, err := j.frozenOf(ctx, campaign.EpochOf(r))
	switch {
	case err != nil:
		j.letGo(m, m.Nak)
		return nil // ctx is done
	case frozen == nil: // of an epoch that is over, or not begun
		return j.junk(m)
	}
	if deliveries > 1 {
		if _, err := j.last(ctx, j.Store.results, j.result(frozen.Epoch, r)); err == nil {
			j.letGo(m, m.Ack) // done, but for its acknowledgement
			return nil
		}
	}
	if j.worker == nil {
		if j.worker, err = j.cfg.NewWorker(); err != nil {
			j.letGo(m, m.Nak)
			return err
		}
		if j.giveBack(m) {
			return nil
		}
	}
	begun, err := j.begin(ctx, rangeKey(r), deliveries)
	if err == nil && begun > MaxDeliveries {
		err = j.putPoison(ctx, Poison{r, MaxDeliveries, j.trouble(ctx, r)})
		if err == nil || errors.Is(err, errExists) {
			j.letGo(m, m.Term)
			return nil
		}
	}
	if err != nil {
		j.letGo(m, m.Nak)
		return nil
	}
	res, err := j.worker.RunRange(ctx, frozen, r)
	if err != nil {
		if ctx.Err() != nil {
			j.letGo(m, m.Nak)
			return nil
		}
		// The engine may be broken, and the next one may do it.
		j.note(fmt.Errorf("range %d: %w", r, err))
		j.Log("range %d: %v", r, err)
		j.write(ctx, j.control, troubleKey(r), Poison{r, MaxDeliveries, cut(err.Error(), maxText)})
		j.worker.Close()
		j.worker = nil
		j.letGo(m, func() error { return m.NakWithDelay(time.Second) })
		return nil
	}
	select {
	case j.results <- sending{res, m}:
	case <-ctx.Done():
		j.letGo(m, m.Nak)
	}
	return nil
}

// troubleKey is where the last error of a range is kept.
func troubleKey(r uint64) string { return fmt.Sprintf("trouble.%d", r) }

// trouble returns the last error of a range, if one was told.
func (j *job) trouble(ctx context.Context, r uint64) string {
	e, err := j.control.Get(ctx, troubleKey(r))
	if err != nil {
		return ""
	}
	var p Poison
	if decode(e.Value(), maxSmall, &p) != nil || p.Validate() != nil {
		return ""
	}
	return p.Error
}

// doShrink makes a finding smaller.
func (j *job) doShrink(ctx context.Context, m jetstream.Msg, key string, deliveries uint64) error {
	e, _, err := j.entry(ctx, key)
	switch {
	case err != nil:
		j.letGo(m, m.Nak)
		return nil
	case e == nil:
		return j.junk(m) // the coordinator writes it again, and asks again
	case e.Final:
		j.letGo(m, m.Ack)
		return nil
	}
	begun, err := j.begin(ctx, shrinkKey(key), deliveries)
	if err != nil {
		j.letGo(m, m.Nak)
		return nil
	}
	final := *e
	final.Final = true
	if begun > MaxDeliveries {
		final.Story = "set aside: workers that made it smaller died"
	} else if err := j.shrink(&final); err != nil {
		j.note(err)
		j.Log("%s: %v", e.Finding.Signature(), err)
		j.letGo(m, func() error { return m.NakWithDelay(time.Second) })
		return nil
	}
	if _, err := j.offer(ctx, &final); err != nil {
		if ctx.Err() == nil {
			j.note(err)
		}
		j.letGo(m, m.Nak)
		return nil
	}
	j.count(func(b *Heartbeat) { b.Shrunk++ })
	j.letGo(m, m.Ack)
	return nil
}

// shrink fills in what is known of a finding when it is as small as it gets.
func (j *job) shrink(e *Entry) error {
	if !slices.Contains(j.cfg.JITs, e.Finding.Target) {
		return bad("%s is no target", quote(e.Finding.Target))
	}
	if j.finisher == nil {
		j.finisher = j.cfg.NewFinisher()
	}
	r, file, err := j.finisher.Finish(&e.Finding)
	if err != nil {
		return err
	}
	e.File, e.Story, e.Insns, e.Bytes, e.Shows, e.Shrunk = string(file), cut(r.Story, 4*maxText), r.Insns, r.Bytes, r.Shows, r.Shrunk
	return nil
}
