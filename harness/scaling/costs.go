// Package scaling tells on paper what a campaign does on many machines: a
// simulation of its workers and its coordinator with costs that were measured
// on one.
package scaling

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/cluster"
)

// Costs are what the parts of a campaign cost one processor.
type Costs struct {
	Range       []time.Duration `json:"range_ns"`       // ranges, one after the other
	Merge       time.Duration   `json:"merge_ns"`       // of a result, at the coordinator
	Begin       []Begin         `json:"begin"`          // of epochs, from the second on
	ResultBytes int             `json:"result_bytes"`   // that a worker sends for a range, on average
	Programs    int             `json:"range_programs"` // in a range
	Messages    int             `json:"range_messages"` // that a worker and the server exchange for a range
	RoundTrip   time.Duration   `json:"round_trip_ns"`  // of a message
	Bandwidth   float64         `json:"bytes_a_second"` // of the coordinator's network
}

// Begin is what the beginning of an epoch costs. The state grows with what the
// campaign finds.
type Begin struct {
	Ranges uint64        `json:"ranges"`      // that came before
	Corpus int           `json:"corpus"`      // programs in the state, most of what it consists of
	Freeze time.Duration `json:"freeze_ns"`   // writing the state, at the coordinator
	Start  time.Duration `json:"start_ns"`    // of a worker on it
	Bytes  int           `json:"state_bytes"` // that the worker gets
}

// What a network does that cannot be measured on one machine: one of 1 Gbit/s in
// one building. A range is a message with the work, one that extends it now and
// then, the result, and acknowledgements.
const (
	roundTrip = 500 * time.Microsecond
	bandwidth = 125e6
	messages  = 6
)

// Measure runs the first epochs of a campaign, at least so many ranges, on one
// processor and takes its costs. What a range costs is processor time, so that
// other work on the machine counts little.
func Measure(ctx context.Context, s campaign.Settings, ranges int) (*Costs, error) {
	cfg, err := campaign.NewConfig(s)
	if err != nil {
		return nil, err
	}
	w, err := cfg.NewWorker()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	c := &Costs{Programs: s.Size, Messages: messages, RoundTrip: roundTrip, Bandwidth: bandwidth}
	state := campaign.NewState(&cfg.Settings)
	var sent []message
	for r := uint64(0); len(c.Range) < ranges || campaign.EpochOf(r) == campaign.EpochOf(r-1); r++ {
		began := processorTime()
		result, err := w.RunRange(ctx, state.Frozen(), r)
		if err != nil {
			return nil, fmt.Errorf("range %d: %w", r, err)
		}
		c.Range = append(c.Range, processorTime()-began)
		text, err := json.Marshal(result)
		if err != nil {
			return nil, err
		}
		packed := cluster.Pack(text)
		sent = append(sent, message{packed, int64(len(text))})
		c.ResultBytes += len(packed)
		if _, err := state.Merge(result); err != nil {
			return nil, err
		}
		if campaign.EpochOf(r+1) != campaign.EpochOf(r) {
			b, err := begin(cfg, state, r+1)
			if err != nil {
				return nil, err
			}
			c.Begin = append(c.Begin, b)
		}
	}
	c.ResultBytes /= len(sent)
	c.Merge, err = each(len(sent), func() error {
		state := campaign.NewState(&cfg.Settings)
		for _, m := range sent {
			text, err := cluster.Unpack(m.packed, m.size)
			if err != nil {
				return err
			}
			result, err := campaign.ParseResult(text, &cfg.Settings)
			if err != nil {
				return err
			}
			if _, err := state.Merge(result); err != nil {
				return err
			}
		}
		return nil
	})
	return c, err
}

// message is what is sent, and the size of its body.
type message struct {
	packed []byte
	size   int64
}

// begin measures the beginning of an epoch behind so many ranges.
func begin(cfg *campaign.Config, state *campaign.State, ranges uint64) (b Begin, err error) {
	var m message
	b.Ranges, b.Corpus = ranges, len(state.Frozen().Corpus)
	b.Freeze, err = each(1, func() error {
		text, err := json.Marshal(state)
		m = message{cluster.Pack(text), int64(len(text))}
		return err
	})
	if err != nil {
		return b, err
	}
	b.Bytes = len(m.packed)
	b.Start, err = each(1, func() error {
		text, err := cluster.Unpack(m.packed, m.size)
		if err != nil {
			return err
		}
		_, err = campaign.ParseState(text, &cfg.Settings)
		return err
	})
	return b, err
}

// each returns what one of the n things that do does takes. The processor time of
// a process is known to some milliseconds, and may be the garbage of what was
// before: so it repeats them for a while.
func each(n int, do func() error) (time.Duration, error) {
	runtime.GC()
	began, times := processorTime(), 0
	for processorTime()-began < longEnough {
		if err := do(); err != nil {
			return 0, err
		}
		times++
	}
	return (processorTime() - began) / time.Duration(times*n), nil
}

// longEnough is a hundred of Linux's ticks.
const longEnough = 400 * time.Millisecond

// processorTime is what this process has used.
func processorTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
