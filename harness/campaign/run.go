package campaign

import (
	"context"
	"sync"
	"time"
)

// Options say how much of a campaign [Run] does, and how.
type Options struct {
	Jobs     int     // goroutines that do ranges; at least 1
	Programs uint64  // do not start ranges when the campaign has so many; 0: no bound
	Folder   *Folder // nil: nothing is kept

	// Stop, when it is done, lets the ranges end that have begun, and no others
	// begin. nil: never. When Run's context is done they are given up.
	Stop context.Context

	// Progress, if not nil, is called again and again while the campaign runs,
	// from one goroutine.
	Progress func(*Status)
}

// Status is how far a campaign is. It is valid during the call that it is given
// to.
type Status struct {
	*State
	Began   time.Time
	Before  Totals    // when this run began
	Newest  time.Time // when something new was last covered; the zero time: not in this run
	Waiting int       // findings that are being made smaller
}

// Summary is what came of a campaign.
type Summary struct {
	*State
	Reports []*Report // in the order in which they came
	Before  Totals    // when this run began
	Took    time.Duration
}

// progressEvery is the time between two calls of Options.Progress.
const progressEvery = 250 * time.Millisecond

// Run does a campaign, or goes on with it. Whatever the number of jobs, and
// however often it was interrupted, the state that it comes to is the same for
// the same number of ranges.
func Run(ctx context.Context, cfg *Config, o Options) (*Summary, error) {
	began := time.Now()
	c := &coordinator{cfg: cfg, Options: o, done: map[uint64]*Result{}, running: map[uint64]bool{}, state: NewState(&cfg.Settings)}
	dir := ""
	if o.Folder != nil {
		var err error
		if c.state, c.done, err = o.Folder.Load(); err != nil {
			return nil, err
		}
		if err := o.Folder.keepRefused(cfg); err != nil {
			return nil, err
		}
		dir = o.Folder.Findings()
	}
	if c.Stop == nil {
		c.Stop = context.Background()
	}
	c.status = Status{State: c.state, Began: began, Before: c.state.Totals}
	c.backlog = newBacklog(cfg, dir)
	c.backlog.add(c.state.Findings()...)
	err := c.run(ctx)
	if closing := c.backlog.close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	s := &Summary{State: c.state, Before: c.status.Before, Took: time.Since(began)}
	for _, f := range c.state.order {
		s.Reports = append(s.Reports, c.backlog.report(f))
	}
	return s, nil
}

// coordinator hands out ranges and merges what comes back.
type coordinator struct {
	cfg *Config
	Options
	state   *State
	done    map[uint64]*Result // ranges that others have to come before
	running map[uint64]bool
	backlog *backlog
	status  Status
}

// job is a range to do.
type job struct {
	frozen *Frozen
	r      uint64
}

// answer is what came of it.
type answer struct {
	*Result
	err error
}

func (c *coordinator) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A range waits for each worker, and its answer need not be waited for: while
	// one is made safe on the disk and merged, workers go on.
	n := max(c.Jobs, 1)
	jobs, answers := make(chan job, n), make(chan answer, n)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() { c.work(ctx, jobs, answers) })
	}
	defer func() {
		cancel()
		close(jobs)
		workers.Wait()
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		if c.Stop.Err() != nil {
			c.takeBack(jobs)
		}
		next, more := c.next()
		if !more && len(c.running) == 0 {
			c.progress()
			return c.backlog.failed()
		}
		offer, stop := jobs, c.Stop.Done()
		if !more {
			offer = nil
		}
		if c.Stop.Err() != nil {
			stop = nil // next has seen it: what has begun is waited for
		}
		select {
		case offer <- next:
			c.running[next.r] = true
		case a := <-answers:
			if err := c.take(a); err != nil {
				return err
			}
		case <-tick.C:
			c.progress()
		case <-stop:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.backlog.failed(); err != nil {
			return err
		}
	}
}

// takeBack takes the ranges that no worker has begun.
func (c *coordinator) takeBack(jobs <-chan job) {
	for {
		select {
		case j := <-jobs:
			delete(c.running, j.r)
		default:
			return
		}
	}
}

// next returns the range to do next, if there is one now.
func (c *coordinator) next() (job, bool) {
	if c.Stop.Err() != nil {
		return job{}, false
	}
	frozen := c.state.Frozen()
	_, end := EpochRanges(frozen.Epoch)
	if c.Programs > 0 {
		end = min(end, c.cfg.Ranges(c.Programs))
	}
	for r := c.state.Next; r < end; r++ {
		if !c.running[r] && c.done[r] == nil {
			return job{frozen, r}, true
		}
	}
	return job{}, false
}

// work does ranges until there are no more.
func (c *coordinator) work(ctx context.Context, jobs <-chan job, answers chan<- answer) {
	send := func(a answer) {
		select {
		case answers <- a:
		case <-ctx.Done():
		}
	}
	var w *Worker
	defer func() {
		if w != nil {
			w.Close()
		}
	}()
	for j := range jobs {
		if w == nil { // only now: a small campaign needs few
			var err error
			if w, err = c.cfg.NewWorker(); err != nil {
				send(answer{err: err})
				continue
			}
		}
		r, err := w.RunRange(ctx, j.frozen, j.r)
		send(answer{r, err})
	}
}

// take takes a result: it is safe before it counts.
func (c *coordinator) take(a answer) error {
	if a.err != nil {
		return a.err
	}
	if c.Folder != nil {
		if err := c.Folder.add([]*Result{a.Result}); err != nil {
			return err
		}
	}
	delete(c.running, a.Range)
	c.done[a.Range] = a.Result
	epoch := c.state.frozen.Epoch
	for r := c.done[c.state.Next]; r != nil; r = c.done[c.state.Next] {
		delete(c.done, c.state.Next)
		before := c.state.Covered()
		fresh, err := c.state.Merge(r)
		if err != nil {
			return err
		}
		if c.state.Covered() > before {
			c.status.Newest = time.Now()
		}
		c.backlog.add(fresh...)
	}
	if c.Folder != nil && c.state.frozen.Epoch != epoch {
		return c.Folder.keep(c.state)
	}
	return nil
}

func (c *coordinator) progress() {
	if c.Options.Progress == nil {
		return
	}
	c.status.Waiting = c.backlog.waiting()
	c.Options.Progress(&c.status)
}
