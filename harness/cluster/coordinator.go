package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

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

	// Stay lets Run go on when the campaign has ended: it may be resumed.
	Stay bool

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
// and returns the state that it came to. It waits for a server that is away.
func (c *Coordinator) Run(ctx context.Context) (*campaign.State, error) {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	ctx = patiently(ctx, c.Log)
	c.told = c.Told
	if err := c.recall(ctx); err != nil {
		return nil, unlessDone(ctx, err)
	}
	for ctx.Err() == nil {
		if err := c.obey(ctx); err != nil {
			return c.state, unlessDone(ctx, err)
		}
		if c.ended() {
			break
		}
		if err := c.runEpoch(ctx); err != nil {
			return c.state, unlessDone(ctx, err)
		}
	}
	// What it came to is still to be shown, and that it does not stay any more.
	c.Stay = false
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
		return nil
	}
	return c.SetControl(ctx, func(now *Control) error {
		*now = c.told
		return nil
	})
}

// ended reports whether there is nothing more to wait for.
func (c *Coordinator) ended() bool { return c.told.Ended() && !c.Stay }

// unlessDone is the error for one that came while ctx may be done.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// recall reads the newest state.
func (c *Coordinator) recall(ctx context.Context) error {
	if s, err := c.summary(ctx); err == nil {
		c.history, c.junk = s.History, s.Junk
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
		if err := c.obey(ctx); err != nil || c.ended() {
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
		if err := c.ask(ctx, c.rangeWork(c.queued), rangeWork{c.id, c.queued}); err != nil {
			return err
		}
	}
	return nil
}

// ask puts a message into the queue unless one of its subject is there.
func (c *Coordinator) ask(ctx context.Context, subject string, work any) error {
	data, err := json.Marshal(work)
	if err != nil {
		return err
	}
	if err := c.publish(ctx, subject, data); !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// junkFound counts what came from the network and was none of a campaign's.
func (c *Coordinator) junkFound(format string, args ...any) {
	if c.junk++; c.junk <= 20 {
		c.Log(format, args...)
	}
}

func (c *Coordinator) tell() {
	if c.Merged != nil {
		c.Merged(c.state, c.entries)
	}
}

// finish ends the campaign when all its ranges are done.
func (c *Coordinator) finish(ctx context.Context) (bool, error) {
	if c.told.Mode != Running || c.told.Ranges == 0 || c.state.Next < c.told.Ranges {
		return false, nil
	}
	if c.Waiting() > 0 {
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
	return c.ended(), err
}
