package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Keys of the control bucket.
const (
	controlKey = "control"
	summaryKey = "summary"
	poisonKeys = "poison."
)

// staleRead is how long to wait for a bucket's replica that lost a race.
const staleRead = 20 * time.Millisecond

// pause waits for a time, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Control returns what the campaign is told to do.
func (s *Store) Control(ctx context.Context) (Control, error) {
	c, _, err := s.readControl(ctx)
	return c, err
}

// Told reports whether anybody has told the campaign what to do.
func (s *Store) Told(ctx context.Context) (bool, error) {
	_, err := s.value(ctx, s.control, controlKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// value returns the value of a key, or jetstream.ErrKeyNotFound.
func (s *Store) value(ctx context.Context, in jetstream.KeyValue, key string) (e jetstream.KeyValueEntry, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		s.messages.Add(1)
		e, err = in.Get(ctx, key)
		return err
	})
	return e, err
}

// readControl returns it with its revision; 0: there is none, or junk.
func (s *Store) readControl(ctx context.Context) (c Control, rev uint64, err error) {
	e, err := s.value(ctx, s.control, controlKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return Control{Mode: Stopped}, 0, nil
	case err != nil:
		return Control{}, 0, err
	}
	c, err = parseControl(e.Value())
	return c, e.Revision(), err
}

func parseControl(data []byte) (c Control, err error) {
	if err := decode(data, maxSmall, &c); err != nil {
		return Control{Mode: Stopped}, err
	}
	return c, c.Validate()
}

// SetControl changes what the campaign is told to do, from what it is told now.
// change returns an error to leave it. Junk counts as stopped.
func (s *Store) SetControl(ctx context.Context, change func(*Control) error) error {
	for {
		c, rev, err := s.readControl(ctx)
		if err != nil && !isBad(err) {
			return err
		}
		if isBad(err) {
			c = Control{Mode: Stopped}
		}
		if err := change(&c); err != nil {
			return err
		}
		data, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := s.swap(ctx, s.control, controlKey, data, rev); !errors.Is(err, errExists) {
			return err
		}
		pause(ctx, staleRead)
	}
}

// swap writes the value of a key whose revision is rev, or returns errExists.
func (s *Store) swap(ctx context.Context, in jetstream.KeyValue, key string, data []byte, rev uint64) error {
	err := s.retry(ctx, func(ctx context.Context) (err error) {
		s.messages.Add(1)
		s.bytes.Add(uint64(len(data)))
		if rev == 0 {
			_, err = in.Create(ctx, key, data)
		} else {
			_, err = in.Update(ctx, key, data, rev)
		}
		return err
	})
	if isTaken(err) || errors.Is(err, jetstream.ErrKeyExists) {
		return errExists
	}
	return err
}

// write writes the value of a key, whatever it was.
func (s *Store) write(ctx context.Context, in jetstream.KeyValue, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.messages.Add(1)
	s.bytes.Add(uint64(len(data)))
	_, err = in.Put(ctx, key, data)
	return err
}

// all returns the values of a bucket by key, of those with a prefix that ends with
// a dot, or of all.
func (s *Store) all(ctx context.Context, in jetstream.KeyValue, prefix string) (map[string][]byte, error) {
	var out map[string][]byte
	err := s.retry(ctx, func(ctx context.Context) error {
		out = map[string][]byte{}
		w, err := in.Watch(ctx, prefix+">", jetstream.IgnoreDeletes())
		if err != nil {
			return err
		}
		defer w.Stop()
		for {
			select {
			case e, ok := <-w.Updates():
				if !ok {
					return context.DeadlineExceeded
				}
				if e == nil {
					return nil
				}
				out[e.Key()] = e.Value()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return out, err
}

// Poisons returns what was set aside, in order.
func (s *Store) Poisons(ctx context.Context) ([]Poison, error) {
	values, err := s.all(ctx, s.control, poisonKeys)
	if err != nil {
		return nil, err
	}
	var out []Poison
	for key, value := range values {
		var p Poison
		if decode(value, maxSmall, &p) == nil && p.Validate() == nil && key == poisonKeys+fmt.Sprint(p.Range) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Poison) int { return cmp.Compare(a.Range, b.Range) })
	return out, nil
}

// Workers returns the workers that are alive, in order, and those that are none
// of this campaign with the reason.
func (s *Store) Workers(ctx context.Context) (ours []Heartbeat, others map[string]error, err error) {
	values, err := s.all(ctx, s.workers, "")
	if err != nil {
		return nil, nil, err
	}
	others = map[string]error{}
	for key, value := range values {
		h, err := parseHeartbeat(value)
		if err == nil && h.ID != key {
			err = bad("it says that it is %s", quote(h.ID))
		}
		if err == nil {
			err = h.Fits(&s.Spec)
		}
		if err != nil {
			if len(others) < 100 {
				others[cut(key, 80)] = err
			}
			continue
		}
		ours = append(ours, h)
	}
	slices.SortFunc(ours, func(a, b Heartbeat) int { return strings.Compare(a.ID, b.ID) })
	return ours, others, nil
}

func parseHeartbeat(data []byte) (h Heartbeat, err error) {
	if err := decode(data, maxSmall, &h); err != nil {
		return h, err
	}
	return h, h.Validate()
}
