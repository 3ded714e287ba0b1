package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// outcome is what a result's subject has: one of the two.
type outcome struct {
	*campaign.Result
	poison *Poison
}

// parseOutcome reads the message of a result's subject.
func (s *Store) parseOutcome(ctx context.Context, subject string, message []byte) (outcome, error) {
	epoch, r, ok := s.parseResult(subject)
	if !ok || campaign.EpochOf(r) != epoch {
		return outcome{}, bad("there is no subject %s", quote(subject))
	}
	if body, err := s.body(ctx, subject, message, contentPoison); err == nil {
		p := new(Poison)
		if err := decode(body, maxSmall, p); err != nil {
			return outcome{}, err
		}
		if err := p.Validate(); err != nil {
			return outcome{}, err
		}
		if p.Range != r {
			return outcome{}, bad("range %d under %s", p.Range, subject)
		}
		return outcome{emptyResult(r, &s.Spec.Settings), p}, nil
	}
	body, err := s.body(ctx, subject, message, contentResult)
	if err != nil {
		return outcome{}, err
	}
	res, err := campaign.ParseResult(body, &s.Spec.Settings)
	if err != nil {
		return outcome{}, badMessage{err}
	}
	if res.Range != r {
		return outcome{}, bad("range %d under %s", res.Range, subject)
	}
	return outcome{res, nil}, nil
}

// putResult writes what came of a range, or returns errExists.
func (s *Store) putResult(ctx context.Context, r *campaign.Result) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	epoch := campaign.EpochOf(r.Range)
	return s.put(ctx, s.result(epoch, r.Range), contentResult, body, epoch)
}

// putPoison sets a range aside, unless there is a result.
func (s *Store) putPoison(ctx context.Context, p Poison) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return s.put(ctx, s.result(campaign.EpochOf(p.Range), p.Range), contentPoison, body, 0)
}

// listen returns the results of the open epoch as they come, those that are there
// first. The channel is closed when it breaks; stop ends it.
func (c *Coordinator) listen(ctx context.Context) (<-chan jetstream.Msg, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	var messages jetstream.MessagesContext
	err := c.retry(ctx, func(callCtx context.Context) error {
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
		before := c.state.Covered()
		fresh, err := c.state.Merge(next.Result)
		if err != nil {
			return err
		}
		if c.state.Covered() > before {
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
