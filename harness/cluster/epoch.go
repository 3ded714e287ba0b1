package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// epochs returns the epochs whose state is there, in order.
func (s *Store) epochs(ctx context.Context) ([]uint64, error) {
	subjects, err := s.subjects(ctx, s.state, s.subject("epoch", "*"))
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, subject := range subjects {
		if e, ok := s.parseEpoch(subject); ok {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out, nil
}

// epochState returns the state that an epoch starts from, and the sequence of its
// message.
func (s *Store) epochState(ctx context.Context, epoch uint64) (*campaign.State, uint64, error) {
	body, seq, err := s.get(ctx, s.state, s.epoch(epoch), contentState)
	if err != nil {
		return nil, seq, err
	}
	state, err := parseState(body, &s.Spec.Settings)
	if err == nil && state.Frozen().Epoch != epoch {
		err = bad("epoch %d under %s", state.Frozen().Epoch, s.epoch(epoch))
	}
	return state, seq, err
}

// newestState returns the newest state that an epoch starts from. mend deletes
// junk.
func (s *Store) newestState(ctx context.Context, mend bool) (*campaign.State, error) {
	epochs, err := s.epochs(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(epochs) {
		state, seq, err := s.epochState(ctx, e)
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
	}
	return campaign.NewState(&s.Spec.Settings), nil
}

// Load returns the state of a campaign with all ranges that can be merged.
func (s *Store) Load(ctx context.Context) (*campaign.State, error) {
	for tries := 0; ; tries++ {
		state, err := s.newestState(ctx, false)
		if err != nil {
			return nil, err
		}
		epoch := state.Frozen().Epoch
		for state.Frozen().Epoch == epoch {
			subject := s.result(epoch, state.Next)
			m, err := s.last(ctx, s.results, subject)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			o, err := s.parseOutcome(ctx, subject, m.Data)
			if isBad(err) {
				break
			}
			if err != nil {
				return nil, err
			}
			if _, err := state.Merge(o.Result); err != nil {
				return nil, err
			}
		}
		// Results go when their epoch is over: it may have been over meanwhile.
		epochs, err := s.epochs(ctx)
		if err != nil {
			return nil, err
		}
		if tries > 3 || len(epochs) == 0 || epochs[len(epochs)-1] <= state.Frozen().Epoch {
			return state, nil
		}
	}
}

// frozen returns what an epoch starts from; nil: that is not known, as it is not
// open.
func (s *Store) frozen(ctx context.Context, epoch uint64) (*campaign.Frozen, error) {
	state, _, err := s.epochState(ctx, epoch)
	switch {
	case err == nil:
		return state.Frozen(), nil
	case errors.Is(err, jetstream.ErrMsgNotFound), isBad(err):
		return nil, nil
	}
	return nil, err
}

// subjects returns those of a stream's messages that a filter lets through.
func (s *Store) subjects(ctx context.Context, in jetstream.Stream, filter string) ([]string, error) {
	var out []string
	err := s.retry(ctx, func(ctx context.Context) error {
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
	if err := c.writeState(ctx); err != nil {
		return err
	}
	return c.sweep(ctx, c.state.Frozen().Epoch)
}

// writeState writes the state, in place of junk as well. Another there is an error.
func (c *Coordinator) writeState(ctx context.Context) error {
	epoch := c.state.Frozen().Epoch
	body, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	for {
		err := c.put(ctx, c.epoch(epoch), contentState, body, epoch)
		if !errors.Is(err, errExists) {
			return err
		}
		has, seq, err := c.get(ctx, c.Store.state, c.epoch(epoch), contentState)
		switch {
		case err == nil && bytes.Equal(has, body):
			return nil
		case err == nil:
			return fmt.Errorf("epoch %d is there and starts from another state: two machines came to different results of one range", epoch)
		case errors.Is(err, jetstream.ErrMsgNotFound): // gone meanwhile
		case !isBad(err):
			return err
		default:
			c.junkFound("the state of epoch %d was junk: %v", epoch, err)
			if err := c.delete(ctx, c.Store.state, seq); err != nil {
				return err
			}
		}
	}
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
			case ok && e+place.keep >= epoch && e <= epoch+1: // another coordinator may be ahead
			case len(words) > 1:
				gone[c.subject(place.first, words[0], ">")] = true
			default:
				gone[subject] = true
			}
		}
		for subject := range gone {
			if err := c.retry(ctx, func(ctx context.Context) error {
				return place.in.Purge(ctx, jetstream.WithPurgeSubject(subject))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
