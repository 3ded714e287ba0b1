package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// Keys of how often work was begun, in the control bucket.
func rangeKey(r uint64) string      { return fmt.Sprint("begun.range.", r) }
func shrinkKey(entry string) string { return "begun.shrink." + entry }

// begin counts that work is begun, and returns how often it was, with this time.
// The server's count of deliveries has in it what was fetched and given back. The
// first delivery, with which most work is done, is not written down and not counted.
func (s *Store) begin(ctx context.Context, key string, deliveries uint64) (uint64, error) {
	if deliveries <= 1 {
		return 1, nil
	}
	for {
		e, err := s.value(ctx, s.control, key)
		var n, rev uint64
		switch {
		case err == nil:
			rev = e.Revision()
			if n, err = strconv.ParseUint(string(e.Value()), 10, 64); err != nil || n > maxNumber {
				n = 0 // junk
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return 0, err
		}
		n++
		err = s.swap(ctx, s.control, key, fmt.Append(nil, n), rev)
		if !errors.Is(err, errExists) {
			return n, err
		}
		pause(ctx, staleRead)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}
