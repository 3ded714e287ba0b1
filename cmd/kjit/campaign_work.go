package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kjit-project/kjit/harness/cluster"
)

type campaignWorkCmd struct {
	clusterFlags
	pluginFlags
	Jobs int           `short:"j" placeholder:"N" help:"How many ranges to do at once (default: one for each processor)."`
	JIT  []string      `name:"jit" placeholder:"NAME" help:"JITs that the campaign has to be against. One that is a command (exec:COMMAND) is run only if it is named here."`
	Stay bool          `help:"Wait for a server and a campaign that are not there yet, and after the campaign's end for more work."`
	Time time.Duration `placeholder:"DURATION" help:"How long to work (default: until an interrupt, or the campaign's end)."`
}

func (c *campaignWorkCmd) Help() string {
	return `A worker has to be the kjit, of the same version and with the same JITs, that the
campaign was begun with, or it is refused. What the server says is not trusted: it
cannot make a worker run a command, or read files.

An interrupt (Ctrl-C), or SIGTERM, ends it after the ranges that have begun, a
second interrupt at once. What is lost with a worker that dies is done by another.`
}

func (c *campaignWorkCmd) Run(ctx context.Context, std streams, global *cli) error {
	if err := checkEffort(c.Time, &c.Jobs); err != nil {
		return err
	}
	if err := checkJobs("jobs", c.Jobs); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	p := newPatience(std)
	stop, cancel := runsUntil(ctx, c.Time)
	defer cancel()
	defer p.hint(stop)()
	nc, err := c.connect(stop, p.Log)
	if err != nil {
		return c.explain(err)
	}
	defer nc.Close()
	patient.Store(true)
	stop, lost := c.untilLost(stop, nc)
	for absent := false; ; {
		ended, err := c.work(ctx, stop, nc, p)
		if lost() {
			return environment(fmt.Errorf("the server has been away for %v (--stay waits for it)", awayMost))
		}
		if c.Stay && errors.Is(err, cluster.ErrNoCampaign) {
			if !absent {
				p.Log("%v: waiting for it", err)
			}
			absent, err = true, nil
		}
		if err != nil && stop.Err() == nil {
			return c.explain(err)
		}
		if ended || stop.Err() != nil || !c.Stay {
			return nil
		}
		if pause(stop, 2*time.Second) != nil {
			return nil
		}
	}
}

// awayMost is how long a worker waits for a server that was there.
const awayMost = 2 * time.Minute

// untilLost returns a context that is done also when the server has been away for
// long, and whether that is so.
func (c *campaignWorkCmd) untilLost(ctx context.Context, nc *nats.Conn) (context.Context, func() bool) {
	if c.Stay {
		return ctx, func() bool { return false }
	}
	errLost := errors.New("lost")
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for seen := time.Now(); ctx.Err() == nil; {
			if nc.IsConnected() {
				seen = time.Now()
			}
			if time.Since(seen) > awayMost {
				cancel(errLost)
			}
			pause(ctx, time.Second)
		}
	}()
	return ctx, func() bool { return errors.Is(context.Cause(ctx), errLost) }
}

// connect connects to the campaign's server.
func (c *campaignWorkCmd) connect(ctx context.Context, log func(string, ...any)) (*nats.Conn, error) {
	if c.NATS != "" {
		return c.remote("work", c.Stay)
	}
	for told := false; ; told = true {
		nc, err := cluster.ConnectFolder(c.State)
		if err == nil {
			return nc, nil
		}
		if !errors.Is(err, cluster.ErrNotRunning) {
			return nil, err
		}
		if !c.Stay {
			return nil, environment(fmt.Errorf("%w: start it there, or name a server with --nats URL", err))
		}
		if !told {
			log("%v: waiting for it", err)
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// work works until the campaign ends, or stop is done.
func (c *campaignWorkCmd) work(ctx, stop context.Context, nc *nats.Conn, p *patience) (ended bool, err error) {
	if c.Stay { // from the beginning
		stop = p.With(stop)
	}
	store, err := cluster.Open(stop, nc, c.Name)
	if err != nil {
		return false, err
	}
	control, err := store.Control(stop)
	if err == nil && control.Ended() {
		if !c.Stay {
			p.Log("campaign %s is %s: there is no work", c.Name, control.Mode)
		}
		return false, nil
	}
	build, err := sameBuild()
	if err != nil {
		return false, err
	}
	if err := store.Spec.Fits(build); err != nil {
		return false, err
	}
	s := store.Spec.Settings
	if err := trusted(&s, c.JIT); err != nil {
		return false, err
	}
	whole := p.With(context.WithoutCancel(ctx))
	cfg, err := c.config(whole, s)
	if err != nil {
		return false, err
	}
	w, err := cluster.NewWorker(stop, store, cfg, c.Jobs)
	if err != nil {
		return false, err
	}
	w.Log = p.Log
	p.Log("worker %s has joined campaign %s", w.ID(), c.Name)
	whole, cancel := context.WithCancel(whole)
	defer cancel()
	defer context.AfterFunc(stop, func() {
		if !nc.IsConnected() { // what is on its way cannot be sent
			cancel()
		}
	})()
	if err := w.Run(whole, stop); err != nil {
		return false, err
	}
	h := w.Stats()
	p.Log("worker %s did %s (%s programs, %s pairs) in %s",
		w.ID(), plural(int(h.Ranges), "range"), thousands(h.Programs), thousands(h.Pairs), time.Since(h.Began).Round(time.Second))
	return stop.Err() != nil, nil
}
