package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Coordinator hands out a campaign's ranges and merges what comes back. There may
// be several: they write the same, and what one has written the others do not.
type Coordinator struct {
	*Store
	cfg *campaign.Config

	// Told is what the campaign is to do while its control is junk; the zero value:
	// nothing.
	Told Control

	// Merged, if not nil, is called with every state after something was merged,
	// or a finding was made smaller, from one goroutine.
	Merged func(*campaign.State, map[string]*Entry)

	// Log, if not nil, is told what people should know.
	Log func(format string, args ...any)

	state   *campaign.State
	done    map[uint64]outcome // ranges that others have to come before
	queued  uint64             // up to which ranges of the epoch are in the queue
	entries map[string]*Entry  // by key
	poisons map[uint64]Poison
	junk    uint64
	history []Point
	newest  time.Time
	rate    meter
	moved   time.Time // when a result last came
	tended  time.Time
	shown   time.Time
	read    time.Time // when the control was
	warned  map[string]bool
	told    Control
	sums    map[string][sha256.Size]byte // of final entries in their bucket, by key
}

// How often what is done.
const (
	tick        = 100 * time.Millisecond
	readEvery   = time.Second     // the control is read
	tendEvery   = 3 * time.Second // findings and the queue are looked after
	showEvery   = time.Second     // the summary is written
	quietResume = 5 * time.Second
)

// NewCoordinator returns one for a campaign.
func NewCoordinator(s *Store, cfg *campaign.Config) (*Coordinator, error) {
	if err := s.Spec.Settings.Differs(&cfg.Settings); err != nil {
		return nil, err
	}
	return &Coordinator{Store: s, cfg: cfg, entries: map[string]*Entry{}, poisons: map[uint64]Poison{}, sums: map[string][sha256.Size]byte{}, warned: map[string]bool{}}, nil
}

// Run goes on with the campaign until it is finished or stopped, or ctx is done,
// and returns the state that it came to.
func (c *Coordinator) Run(ctx context.Context) (*campaign.State, error) {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if err := c.recall(ctx); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		if err := c.obey(ctx); err != nil {
			return c.state, c.ended(ctx, err)
		}
		if c.told.Ended() {
			break
		}
		if err := c.runEpoch(ctx); err != nil {
			return c.state, c.ended(ctx, err)
		}
	}
	// What it came to is still to be shown.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	c.show(late)
	return c.state, nil
}

// obey reads what the campaign is told to do, now and then. Junk is replaced by
// what was there before.
func (c *Coordinator) obey(ctx context.Context) error {
	if time.Since(c.read) < readEvery {
		return nil
	}
	c.read = time.Now()
	control, err := c.Control(ctx)
	if err == nil {
		c.told = control
		return nil
	}
	if !isBad(err) {
		return err
	}
	c.junkFound("the control is junk: %v", err)
	if c.told.Mode == "" {
		c.told = c.Told
	}
	if c.told.Mode == "" {
		return nil
	}
	return c.SetControl(ctx, func(now *Control) error {
		*now = c.told
		return nil
	})
}

// ended is the error for one that came while ctx may be done.
func (c *Coordinator) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// recall reads the newest state.
func (c *Coordinator) recall(ctx context.Context) error {
	values, err := c.all(ctx, c.Store.control, summaryKey)
	if err == nil {
		if s, err := parseSummary(values[summaryKey]); err == nil {
			c.history, c.junk = s.History, s.Junk
		}
	}
	poisons, err := c.Poisons(ctx)
	if err != nil {
		return err
	}
	for _, p := range poisons {
		c.poisons[p.Range] = p
	}
	c.state, err = c.newestState(ctx, true)
	if err != nil {
		return err
	}
	c.done, c.queued = map[uint64]outcome{}, 0
	return c.freeze(ctx)
}

// newestState returns the newest state that an epoch starts from. mend deletes
// junk.
func (s *Store) newestState(ctx context.Context, mend bool) (*campaign.State, error) {
	subjects, err := s.subjects(ctx, s.state, s.subject("epoch", "*"))
	if err != nil {
		return nil, err
	}
	for {
		newest, found := uint64(0), ""
		for _, subject := range subjects {
			if e, ok := s.parseEpoch(subject); ok && (found == "" || e > newest) {
				newest, found = e, subject
			}
		}
		if found == "" {
			return campaign.NewState(&s.Spec.Settings), nil
		}
		body, seq, err := s.get(ctx, s.state, found, contentState)
		var state *campaign.State
		if err == nil {
			state, err = parseState(body, &s.Spec.Settings)
			if err == nil && state.Frozen().Epoch != newest {
				err = bad("epoch %d under %s", state.Frozen().Epoch, found)
			}
		}
		switch {
		case err == nil:
			return state, nil
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case !isBad(err):
			return nil, err
		case mend:
			if err := s.delete(ctx, s.state, seq); err != nil {
				return nil, err
			}
		}
		kept := subjects[:0]
		for _, subject := range subjects {
			if subject != found {
				kept = append(kept, subject)
			}
		}
		subjects = kept
	}
}

// subjects returns those of a stream's messages that a filter lets through.
func (s *Store) subjects(ctx context.Context, in jetstream.Stream, filter string) ([]string, error) {
	var out []string
	err := retry(ctx, func(ctx context.Context) error {
		info, err := in.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return err
		}
		out = out[:0]
		for subject := range info.State.Subjects {
			out = append(out, subject)
		}
		return nil
	})
	return out, err
}

// freeze writes what the open epoch starts from, and takes away what only older
// ones needed.
func (c *Coordinator) freeze(ctx context.Context) error {
	epoch := c.state.Frozen().Epoch
	body, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	for {
		err = c.put(ctx, c.epoch(epoch), contentState, body, epoch)
		if err == nil {
			break
		}
		if !errors.Is(err, errExists) {
			return err
		}
		has, seq, err := c.get(ctx, c.Store.state, c.epoch(epoch), contentState)
		switch {
		case err == nil && string(has) == string(body):
		case err == nil:
			return fmt.Errorf("epoch %d is there and starts from another state: two machines came to different results of one range", epoch)
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue
		case !isBad(err):
			return err
		default:
			c.junkFound("the state of epoch %d was junk: %v", epoch, err)
			if err := c.delete(ctx, c.Store.state, seq); err != nil {
				return err
			}
			continue
		}
		break
	}
	return c.sweep(ctx, epoch)
}

// sweep takes away what belongs to no epoch that anybody still works on.
func (c *Coordinator) sweep(ctx context.Context, epoch uint64) error {
	for _, place := range []struct {
		in    jetstream.Stream
		first string
		keep  uint64 // epochs behind the open one
	}{{c.results, "result", 0}, {c.blobs, "blob", 1}, {c.Store.state, "epoch", 1}} {
		subjects, err := c.subjects(ctx, place.in, c.subject(place.first, ">"))
		if err != nil {
			return err
		}
		gone := map[string]bool{}
		for _, subject := range subjects {
			words, _ := c.words(subject, place.first)
			e, ok := number(words[0])
			switch {
			case ok && e <= epoch && e+place.keep >= epoch:
			case ok && e > epoch && e <= epoch+1: // another coordinator may be ahead
			case len(words) > 1:
				gone[c.subject(place.first, words[0], ">")] = true
			default:
				gone[subject] = true
			}
		}
		for subject := range gone {
			if err := retry(ctx, func(ctx context.Context) error {
				return place.in.Purge(ctx, jetstream.WithPurgeSubject(subject))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// runEpoch works on the open epoch until it is over, or nothing more is to be done.
func (c *Coordinator) runEpoch(ctx context.Context) error {
	results, stop, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { stop() }()
	epoch := c.state.Frozen().Epoch
	c.moved, c.tended = time.Now(), time.Time{}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if err := c.queue(ctx); err != nil {
			return err
		}
		select {
		case m, ok := <-results:
			if !ok {
				stop()
				if results, stop, err = c.listen(ctx); err != nil {
					return err
				}
				continue
			}
			if err := c.take(ctx, m); err != nil {
				return err
			}
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if c.state.Frozen().Epoch != epoch {
			return c.freeze(ctx)
		}
		if err := c.obey(ctx); err != nil || c.told.Ended() {
			return err
		}
		if time.Since(c.tended) >= tendEvery {
			if err := c.tend(ctx); err != nil {
				return err
			}
		}
		if time.Since(c.shown) >= showEvery {
			c.show(ctx)
		}
		if done, err := c.finish(ctx); done || err != nil {
			return err
		}
		// A consumer that was lost with its server says nothing; and work can
		// get lost with junk in its place.
		if time.Since(c.moved) >= quietResume && c.state.Next < c.bound() {
			c.moved, c.queued = time.Now(), 0
			stop()
			if results, stop, err = c.listen(ctx); err != nil {
				return err
			}
			if ahead, err := c.ahead(ctx); err != nil || ahead {
				return err
			}
		}
	}
}

// ahead goes to a later epoch if another coordinator is there already.
func (c *Coordinator) ahead(ctx context.Context) (bool, error) {
	newest, err := c.newestState(ctx, true)
	if err != nil || newest.Frozen().Epoch <= c.state.Frozen().Epoch {
		return false, err
	}
	return true, c.recall(ctx)
}

// bound is the end of the ranges of the open epoch that are to be done.
func (c *Coordinator) bound() uint64 {
	_, end := campaign.EpochRanges(c.state.Frozen().Epoch)
	if c.told.Ranges > 0 {
		end = min(end, c.told.Ranges)
	}
	return end
}

// queue puts ranges into the queue.
func (c *Coordinator) queue(ctx context.Context) error {
	if c.told.Mode != Running {
		return nil
	}
	c.queued = max(c.queued, c.state.Next)
	for ; c.queued < c.bound(); c.queued++ {
		if _, ok := c.done[c.queued]; ok {
			continue
		}
		if err := c.queueRange(ctx, c.queued); err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) queueRange(ctx context.Context, r uint64) error {
	data, err := json.Marshal(rangeWork{c.id, r})
	if err != nil {
		return err
	}
	if err := c.publish(ctx, c.rangeWork(r), data); err != nil && !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// listen returns the results of the open epoch as they come, those that are there
// first. The channel is closed when it breaks; stop ends it.
func (c *Coordinator) listen(ctx context.Context) (<-chan jetstream.Msg, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	var messages jetstream.MessagesContext
	err := retry(ctx, func(callCtx context.Context) error {
		consumer, err := c.js.OrderedConsumer(callCtx, c.stream(resultStream), jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{c.subject("result", ">")}, DeliverPolicy: jetstream.DeliverAllPolicy,
		})
		if err != nil {
			return err
		}
		messages, err = consumer.Messages(jetstream.PullMaxMessages(64))
		return err
	})
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out := make(chan jetstream.Msg)
	go func() {
		defer close(out)
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, jetstream.ErrMsgIteratorClosed) {
					pause(ctx, tick)
				}
				return
			}
			select {
			case out <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, cancel, nil
}

// take takes a result.
func (c *Coordinator) take(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	first, end := campaign.EpochRanges(c.state.Frozen().Epoch)
	_, r, ok := c.parseResult(m.Subject())
	switch {
	case ok && r < first:
		return nil // swept with its epoch
	case ok && r >= end:
		if ahead, err := c.ahead(ctx); ahead || err != nil {
			return err
		}
	case ok && r < c.state.Next:
		return nil
	case ok:
		if _, has := c.done[r]; has {
			return nil
		}
	}
	res, err := c.parseOutcome(ctx, m.Subject(), m.Data())
	if err == nil && res.Range >= end {
		err = bad("range %d is not to be done yet", res.Range)
	}
	if isBad(err) {
		c.junkFound("%s: %v: it is done again", quote(m.Subject()), err)
		if err := c.delete(ctx, c.results, meta.Sequence.Stream); err != nil {
			return err
		}
		c.queued = min(c.queued, c.state.Next) // it may be one of ours
		return nil
	}
	if err != nil {
		return err
	}
	c.moved = time.Now()
	c.done[res.Range] = res
	return c.merge(ctx)
}

// junkFound counts what came from the network and was none of a campaign's.
func (c *Coordinator) junkFound(format string, args ...any) {
	if c.junk++; c.junk <= 20 {
		c.Log(format, args...)
	}
}

// merge merges what can be merged.
func (c *Coordinator) merge(ctx context.Context) error {
	epoch := c.state.Frozen().Epoch
	for next, ok := c.done[c.state.Next]; ok && c.state.Frozen().Epoch == epoch; next, ok = c.done[c.state.Next] {
		delete(c.done, c.state.Next)
		if next.poison != nil {
			if err := c.setAside(ctx, *next.poison); err != nil {
				return err
			}
		}
		before := c.covered()
		fresh, err := c.state.Merge(next.Result)
		if err != nil {
			return err
		}
		if c.covered() > before {
			c.newest = time.Now()
		}
		for _, f := range fresh {
			if err := c.tendFinding(ctx, f); err != nil {
				return err
			}
		}
	}
	c.tell()
	return nil
}

func (c *Coordinator) tell() {
	if c.Merged != nil {
		c.Merged(c.state, c.entries)
	}
}

// covered counts what the targets have shown.
func (c *Coordinator) covered() (n int) {
	for i := range c.cfg.Targets {
		entries, rules, edges := c.state.Coverage(i)
		n += entries + rules + edges
	}
	return n
}

// setAside keeps that a range was not done.
func (c *Coordinator) setAside(ctx context.Context, p Poison) error {
	if _, known := c.poisons[p.Range]; known {
		return nil
	}
	c.poisons[p.Range] = p
	c.Log("range %d is set aside: %d workers were given it and none was done with it%s", p.Range, p.Deliveries, because(p.Error))
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	err = c.swap(ctx, c.Store.control, poisonKeys+fmt.Sprint(p.Range), data, 0)
	if errors.Is(err, errExists) {
		return nil
	}
	return err
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + quote(reason)
}

// tendFinding sees to it that a finding is in its bucket as it was found first,
// and that somebody makes it smaller.
func (c *Coordinator) tendFinding(ctx context.Context, f *campaign.Finding) error {
	key := keyOf(f.Signature())
	if e := c.entries[key]; e != nil && e.Final {
		return nil
	}
	raw := &Entry{Finding: *f, Insns: len(f.Program)}
	raw.Finding.Count = 1
	if _, err := c.offer(ctx, raw); err != nil {
		c.Log("%v", err)
		return nil
	}
	if c.told.Mode != Running {
		return nil
	}
	data, err := json.Marshal(shrinkWork{c.id, f.Case})
	if err != nil {
		return err
	}
	if err := c.publish(ctx, c.shrinkWork(key), data); err != nil && !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// tend looks after findings, and after workers that are none of the campaign.
func (c *Coordinator) tend(ctx context.Context) error {
	c.tended = time.Now()
	values, err := c.all(ctx, c.findings, "")
	if err != nil {
		return err
	}
	for _, f := range c.state.Findings() {
		key := keyOf(f.Signature())
		sum := sha256.Sum256(values[key])
		if has, known := c.sums[key]; !known || has != sum {
			e, err := c.parseEntry(key, values[key])
			switch {
			case err != nil && values[key] != nil:
				c.junkFound("finding %s: %v", key, err)
				fallthrough
			case err != nil && c.entries[key] != nil:
				if e = c.entries[key]; e != nil {
					if _, err := c.offer(ctx, e); err != nil {
						return err
					}
				}
			case err == nil:
				if old := c.entries[key]; old == nil || e.better(old) {
					c.entries[key] = e
				}
				if e.Final {
					c.sums[key] = sum
				}
			}
		}
		if err := c.tendFinding(ctx, f); err != nil {
			return err
		}
	}
	_, others, err := c.Workers(ctx)
	if err != nil {
		return err
	}
	for id, err := range others {
		if !c.warned[id] && len(c.warned) < 100 {
			c.warned[id] = true
			c.Log("worker %s is refused: %v", quote(id), err)
		}
	}
	c.tell()
	return nil
}

// waiting returns how many findings nobody has made smaller yet.
func (c *Coordinator) waiting() (n int) {
	for _, f := range c.state.Findings() {
		if e := c.entries[keyOf(f.Signature())]; e == nil || !e.Final {
			n++
		}
	}
	return n
}

// finish ends the campaign when all its ranges are done.
func (c *Coordinator) finish(ctx context.Context) (bool, error) {
	if c.told.Mode != Running || c.told.Ranges == 0 || c.state.Next < c.told.Ranges {
		return false, nil
	}
	if c.waiting() > 0 {
		if time.Since(c.tended) >= tick {
			return false, c.tend(ctx)
		}
		return false, nil
	}
	err := c.SetControl(ctx, func(now *Control) error {
		if now.Mode == Running && now.Ranges == c.told.Ranges {
			now.Mode = Finished
		}
		c.told = *now
		return nil
	})
	return c.told.Ended(), err
}
