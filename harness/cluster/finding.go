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

// entry returns a finding and its revision; nil: there is none, or with a
// revision junk.
func (s *Store) entry(ctx context.Context, key string) (*Entry, uint64, error) {
	e, err := s.value(ctx, s.findings, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	entry, err := s.parseEntry(key, e.Value())
	if err != nil {
		return nil, e.Revision(), nil
	}
	return entry, e.Revision(), nil
}

func (s *Store) parseEntry(key string, value []byte) (*Entry, error) {
	f, packed, err := parseFrame(value, contentFinding, s.id)
	if err != nil {
		return nil, err
	}
	body, err := f.body(packed)
	if err != nil {
		return nil, err
	}
	e := new(Entry)
	if err := decode(body, int(maxBody[contentFinding]), e); err != nil {
		return nil, err
	}
	if err := e.Validate(&s.Spec.Settings); err != nil {
		return nil, err
	}
	if keyOf(e.Finding.Signature()) != key {
		return nil, bad("%s under another key", e.Finding.Signature())
	}
	return e, nil
}

// offer puts an entry where its finding is, if it is better than what is there.
// It returns whether anything changed.
func (s *Store) offer(ctx context.Context, e *Entry) (bool, error) {
	key := keyOf(e.Finding.Signature())
	data, err := s.formatEntry(e)
	if err != nil {
		return false, err
	}
	for {
		has, rev, err := s.entry(ctx, key)
		if err != nil {
			return false, err
		}
		if has != nil && !e.better(has) {
			return false, nil
		}
		err = s.swap(ctx, s.findings, key, data, rev)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, errExists) {
			return false, err
		}
		pause(ctx, staleRead)
	}
}

// formatEntry makes the message of an entry. It goes in one message: what is too
// long for that leaves its file out.
func (s *Store) formatEntry(e *Entry) ([]byte, error) {
	for _, file := range []string{e.File, ""} {
		short := *e
		short.File, short.Finding.Count = file, 1
		body, err := json.Marshal(&short)
		if err != nil {
			return nil, err
		}
		f, packed := newFrame(contentFinding, s.id, body)
		message := f.message(packed)
		if len(message) <= maxMessage && f.Size <= maxBody[contentFinding] {
			return message, nil
		}
	}
	return nil, fmt.Errorf("%s: its program and input are too long for a message", e.Finding.Signature())
}

// Entries returns the findings by key, junk aside.
func (s *Store) Entries(ctx context.Context) (map[string]*Entry, error) {
	values, err := s.all(ctx, s.findings, "")
	if err != nil {
		return nil, err
	}
	out := map[string]*Entry{}
	for key, value := range values {
		if e, err := s.parseEntry(key, value); err == nil {
			out[key] = e
		}
	}
	return out, nil
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
	return c.ask(ctx, c.shrinkWork(key), shrinkWork{c.id, f.Case})
}

// tendEntry takes over what a finding's bucket has, nil for nothing. What was
// there before is put in the place of junk.
func (c *Coordinator) tendEntry(ctx context.Context, key string, value []byte) error {
	sum := sha256.Sum256(value)
	if has, known := c.sums[key]; known && has == sum {
		return nil
	}
	e, err := c.parseEntry(key, value)
	old := c.entries[key]
	if err == nil {
		if old == nil || e.better(old) {
			c.entries[key] = e
		}
		if e.Final {
			c.sums[key] = sum
		}
		return nil
	}
	if value != nil {
		c.junkFound("finding %s: %v", key, err)
	}
	if old == nil {
		return nil
	}
	_, err = c.offer(ctx, old)
	return err
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
		if err := c.tendEntry(ctx, key, values[key]); err != nil {
			return err
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

// Waiting returns how many findings nobody has made smaller yet.
func (c *Coordinator) Waiting() (n int) {
	for _, f := range c.state.Findings() {
		if e := c.entries[keyOf(f.Signature())]; e == nil || !e.Final {
			n++
		}
	}
	return n
}
