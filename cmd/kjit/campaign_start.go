package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/cluster"
)

type campaignStartCmd struct {
	clusterFlags
	pluginFlags
	ciFlags
	Time    time.Duration `placeholder:"DURATION" help:"How long this command goes on, such as 10m (default: until an interrupt, or the campaign's end)."`
	Runs    uint64        `placeholder:"N" help:"How many programs the campaign shall have in all, rounded up to whole ranges (default: no bound, or what was said before)."`
	Workers *int          `short:"j" placeholder:"N" help:"How many ranges to do at once in this process (default: one for each processor, and none with --nats)."`

	Listen      string `placeholder:"ADDR" help:"Let workers of other machines reach the embedded server: HOST:PORT. Another HOST than a loopback one needs --listen-users, --tls-cert and --tls-key."`
	ListenUsers string `name:"listen-users" placeholder:"FILE" help:"Who may connect, one a line: \"user NAME PASSWORD\" or \"nkey PUBLIC\"."`
	Metrics     string `placeholder:"ADDR" help:"Serve http://ADDR/metrics for Prometheus."`
	Replicas    int    `placeholder:"N" help:"How many nodes of a cluster have each stream (default 3 in a cluster, 1 elsewhere)."`

	AckWait time.Duration `name:"ack-wait" placeholder:"DURATION" help:"How long a worker may be silent before its range is given to another (default 30s; 5s if all workers are in this process)."`

	settingsFlags
}

func (c *campaignStartCmd) Help() string {
	return `The same command goes on with a campaign that is there, after a crash as well:
nothing is lost or counted twice. An interrupt (Ctrl-C) ends it after the ranges
that have begun, a second one at once. Findings are written to DIR/findings, which
kjit replay runs again.

Exit codes: 0 nothing was found, 1 the campaign has findings, or set ranges aside.`
}

func (c *campaignStartCmd) check() error {
	if err := c.clusterFlags.check(); err != nil {
		return err
	}
	switch {
	case c.Workers != nil && *c.Workers < 0:
		return badInput(fmt.Errorf("--workers %d: want 0 or more", *c.Workers))
	case c.NATS != "" && (c.Listen != "" || c.ListenUsers != ""):
		return badInput(errors.New("--listen is for the embedded server: with --nats there is none"))
	case c.NATS == "" && c.Replicas > 1:
		return badInput(errors.New("--replicas is for a cluster: --nats URL"))
	case c.Replicas < 0 || c.Replicas > 5:
		return badInput(fmt.Errorf("--replicas %d: want 1 to 5", c.Replicas))
	case c.AckWait < 0 || c.AckWait > 0 && c.AckWait < time.Second:
		return badInput(fmt.Errorf("--ack-wait %v: want 1s or more", c.AckWait))
	case c.Time < 0:
		return badInput(fmt.Errorf("--time %v: want more than 0", c.Time))
	}
	if err := c.ciFlags.check(); err != nil {
		return err
	}
	if c.Workers == nil {
		n := processors
		if c.NATS != "" {
			n = 0
		}
		c.Workers = &n
	}
	if c.AckWait == 0 && c.NATS == "" && c.Listen == "" {
		c.AckWait = 5 * time.Second
	}
	spareThreads()
	return nil
}

// there returns the settings of the campaign that is there, or the default ones.
func (c *campaignStartCmd) there(ctx context.Context, nc *nats.Conn) (campaign.Settings, error) {
	if nc == nil {
		s, _, err := (&stateFlag{c.State}).settings()
		return s, err
	}
	store, err := cluster.Open(ctx, nc, c.Name)
	if errors.Is(err, cluster.ErrNoCampaign) {
		return campaign.Default(), nil
	}
	if err != nil {
		return campaign.Settings{}, c.explain(err)
	}
	if err := store.Spec.Fits(version()); err != nil {
		return campaign.Settings{}, c.explain(err)
	}
	return store.Spec.Settings, trusted(&store.Spec.Settings, c.JIT)
}

func (c *campaignStartCmd) Run(ctx context.Context, std streams, global *cli) error {
	if err := c.check(); err != nil {
		return err
	}
	log := func(format string, args ...any) { fmt.Fprintf(std.err, "kjit: "+format+"\n", args...) }
	var nc *nats.Conn
	if c.NATS != "" {
		var err error
		if nc, err = c.remote("start", false); err != nil {
			return err
		}
		defer nc.Close()
	}
	s, err := c.there(ctx, nc)
	if err != nil {
		return err
	}
	if err := c.choose(&s); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx) // an interrupt is not the end of ranges and plugins
	cfg, err := c.config(whole, s)
	if err != nil {
		return err
	}
	dir := ""
	if nc == nil {
		server, err := cluster.StartServer(c.State, &s, cluster.Listen{
			Addr: c.Listen, Credentials: c.ListenUsers, Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSCA})
		if err != nil {
			return c.explain(err)
		}
		defer server.Close()
		if nc, err = server.Connect(); err != nil {
			return environment(err)
		}
		defer nc.Close()
		dir = server.Folder().Findings()
		if url := server.URL(); url != "" {
			log("workers join with: kjit campaign work --nats %s", url)
		}
	}
	spec, err := cluster.NewSpec(ctx, cfg)
	if err != nil {
		return environment(err)
	}
	store, err := cluster.Create(ctx, nc, c.Name, spec, cluster.Options{Replicas: c.Replicas, AckWait: c.AckWait})
	if err != nil {
		return c.explain(err)
	}
	var told cluster.Control
	if err := store.SetControl(ctx, c.begin(&s, &told)); err != nil {
		return c.explain(err)
	}
	if c.Metrics != "" {
		l, err := net.Listen("tcp", c.Metrics)
		if err != nil {
			return environment(fmt.Errorf("--metrics: %w", err))
		}
		mux := http.NewServeMux()
		mux.Handle("/metrics", store.Metrics())
		metrics := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		defer metrics.Close()
		go metrics.Serve(l)
		log("metrics at http://%s/metrics", l.Addr())
	}
	return c.coordinate(ctx, std, global, store, cfg, dir, told, log)
}

// begin sets the campaign running.
func (c *campaignStartCmd) begin(s *campaign.Settings, told *cluster.Control) func(*cluster.Control) error {
	return func(now *cluster.Control) error {
		now.Mode = cluster.Running
		if c.Runs > 0 {
			now.Ranges = s.Ranges(c.Runs)
		}
		*told = *now
		return nil
	}
}

// coordinate does the campaign, and says what came of it.
func (c *campaignStartCmd) coordinate(ctx context.Context, std streams, global *cli, store *cluster.Store, cfg *campaign.Config, dir string, told cluster.Control, log func(string, ...any)) error {
	patient.Store(true)
	began := time.Now()
	before, err := store.Load(ctx)
	if err != nil {
		return c.explain(err)
	}
	stop, cancel := runsUntil(ctx, c.Time)
	defer cancel()
	whole, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	coordinator, err := cluster.NewCoordinator(store, cfg)
	if err != nil {
		return c.explain(err)
	}
	coordinator.Log, coordinator.Told = log, told
	progress := newFuzzProgress(std.err, cfg, ctx)
	var unwritten error // of this goroutine, as Merged is called by Run
	status := campaign.Status{Began: began, Before: before.Totals}
	shown := time.Time{}
	coordinator.Merged = func(state *campaign.State, entries map[string]*cluster.Entry) {
		if time.Since(shown) < 250*time.Millisecond {
			return // results may come in hundreds a second, and each write looks at all files
		}
		if dir != "" {
			if _, err := cluster.WriteFindings(dir, state, entries); err != nil {
				unwritten = err
				end()
			}
		}
		shown = time.Now()
		status.State, status.Waiting = state, coordinator.Waiting()
		progress.show(&status)
	}
	// Workers first, and then who takes what they have done.
	var (
		workers sync.WaitGroup
		failed  error
	)
	if *c.Workers > 0 {
		w, err := cluster.NewWorker(ctx, store, cfg, *c.Workers)
		if err != nil {
			return c.explain(err)
		}
		w.Log = log
		workers.Go(func() {
			if failed = w.Run(whole, stop); failed != nil {
				end()
			}
		})
	}
	go func() {
		select {
		case <-stop.Done():
		case <-whole.Done():
			return
		}
		workers.Wait()
		pause(whole, time.Second) // results on their way
		end()
	}()
	_, err = coordinator.Run(whole)
	end()
	workers.Wait()
	progress.close()
	if err := errors.Join(err, failed, unwritten); err != nil {
		return c.explain(err)
	}
	took := time.Since(began)
	c.linger(ctx, store)
	return c.report(context.WithoutCancel(ctx), std, global, store, cfg, dir, before, took)
}

// linger lets the workers of a campaign that has ended see it: the server goes
// with this process.
func (c *campaignStartCmd) linger(ctx context.Context, store *cluster.Store) {
	if c.NATS != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		control, err := store.Control(ctx)
		if err != nil || !control.Ended() {
			return
		}
		workers, _, err := store.Workers(ctx)
		if err != nil || len(workers) == 0 {
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// report writes the summary.
func (c *campaignStartCmd) report(ctx context.Context, std streams, global *cli, store *cluster.Store, cfg *campaign.Config, dir string, before *campaign.State, took time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	kept := dir != ""
	if !kept && c.ciFlags.wanted() { // what is in the files has to come from somewhere
		var err error
		if dir, err = os.MkdirTemp("", "kjit-"); err != nil {
			return environment(err)
		}
		defer os.RemoveAll(dir)
	}
	f, err := store.Export(ctx, dir)
	if err != nil {
		return c.explain(err)
	}
	r := newFuzzReport(c.where(), cfg, &campaign.Summary{State: f.State, Reports: f.Reports, Before: before.Totals, Took: took})
	if c.ciFlags.wanted() {
		run := r.ci()
		for i := range run.Results {
			if !kept { // its file is not there for long
				run.Results[i].File = ""
			}
		}
		if err := c.ciFlags.write(run); err != nil {
			return err
		}
	}
	err = r.write(std.out, global.JSON)
	for _, p := range f.Poisons {
		fmt.Fprintf(std.err, "kjit: range %d (cases %d to %d) is set aside: %d workers were given it and none was done with it\n",
			p.Range, p.Range*uint64(cfg.Size), (p.Range+1)*uint64(cfg.Size)-1, p.Deliveries)
	}
	if err == nil && len(f.Reports)+len(f.Poisons) > 0 {
		err = errDiverged
	}
	return err
}
