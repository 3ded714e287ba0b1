package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
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

	JIT    []string `name:"jit" placeholder:"NAME" help:"JITs to compare with the interpreter, or mutant:FAULT, or exec:COMMAND for one of your own (default linux-3.10-x86_64,kjit-armv5,kjit-armv7)."`
	Kind   string   `placeholder:"KIND" help:"Only programs of this kind: socket or seccomp (default: what the JITs take)."`
	Seed   *uint64  `placeholder:"N" help:"Seed of the programs (default 1)."`
	Inputs int      `placeholder:"N" help:"Most inputs for a program (default 64)."`
	Range  int      `placeholder:"N" help:"Programs in a range, the unit of work (default 256)."`
	Kernel string   `name:"profile" placeholder:"NAME" help:"Kernel that JITs exec:COMMAND emit for (default: what they say, or linux-3.10-x86_64)."`
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
	}
	if c.Workers == nil {
		n := runtime.GOMAXPROCS(0)
		if c.NATS != "" {
			n = 0
		}
		c.Workers = &n
	}
	if c.AckWait == 0 && c.NATS == "" && c.Listen == "" {
		c.AckWait = 5 * time.Second
	}
	return nil
}

// settings puts the flags that are there into those of the campaign, if it is
// there, or into the default ones.
func (c *campaignStartCmd) settings(s campaign.Settings) (campaign.Settings, error) {
	flags := fuzzCmd{ciFlags: c.ciFlags, Time: c.Time, JIT: c.JIT, Kind: c.Kind, Seed: c.Seed, Inputs: c.Inputs, Range: c.Range, Kernel: c.Kernel}
	return s, flags.choose(&s)
}

// there returns the settings of the campaign that is there, or the default ones.
func (c *campaignStartCmd) there(ctx context.Context, nc *nats.Conn) (campaign.Settings, error) {
	if nc == nil {
		s, err := campaign.ReadSettings(c.State)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return campaign.Default(), nil
		case err != nil:
			return campaign.Settings{}, badInput(err)
		}
		return *s, nil
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
	if s, err = c.settings(s); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx) // an interrupt is not the end of ranges and plugins
	cfg, err := (&campaignFlags{pluginFlags: c.pluginFlags}).config(whole, s)
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
			now.Ranges = (c.Runs + uint64(s.Size) - 1) / uint64(s.Size)
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
	var written struct {
		sync.Mutex
		err error
	}
	status := campaign.Status{Began: began, Before: before.Totals}
	shown := time.Time{}
	coordinator.Merged = func(state *campaign.State, entries map[string]*cluster.Entry) {
		if dir != "" {
			if _, err := cluster.WriteFindings(dir, state, entries); err != nil {
				written.Lock()
				written.err = err
				written.Unlock()
				end()
			}
		}
		if time.Since(shown) < 250*time.Millisecond {
			return
		}
		shown = time.Now()
		status.State = state
		status.Waiting = 0
		for _, e := range entries {
			if !e.Final {
				status.Waiting++
			}
		}
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
		select {
		case <-time.After(time.Second): // results on their way
		case <-whole.Done():
		}
		end()
	}()
	_, err = coordinator.Run(whole)
	end()
	workers.Wait()
	progress.close()
	written.Lock()
	err = errors.Join(err, failed, written.err)
	written.Unlock()
	if err != nil {
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
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// report writes the summary.
func (c *campaignStartCmd) report(ctx context.Context, std streams, global *cli, store *cluster.Store, cfg *campaign.Config, dir string, before *campaign.State, took time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	f, err := store.Export(ctx, dir)
	if err != nil {
		return c.explain(err)
	}
	where := c.State
	if c.NATS != "" {
		where = "campaign " + c.Name
	}
	r := newFuzzReport(where, cfg, &campaign.Summary{State: f.State, Reports: f.Reports, Before: before.Totals, Took: took})
	if c.ciFlags.wanted() {
		kept := dir != ""
		if !kept { // what is in it has to come from somewhere
			if dir, err = os.MkdirTemp("", "kjit-"); err != nil {
				return environment(err)
			}
			defer os.RemoveAll(dir)
			if f, err = store.Export(ctx, dir); err != nil {
				return c.explain(err)
			}
			r = newFuzzReport(where, cfg, &campaign.Summary{State: f.State, Reports: f.Reports, Before: before.Totals, Took: took})
		}
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
	if global.JSON {
		err = r.writeJSON(std.out)
	} else {
		err = r.writeText(std.out)
	}
	for _, p := range f.Poisons {
		fmt.Fprintf(std.err, "kjit: range %d (cases %d to %d) is set aside: %d workers were given it and none was done with it\n",
			p.Range, p.Range*uint64(cfg.Size), (p.Range+1)*uint64(cfg.Size)-1, p.Deliveries)
	}
	if err == nil && len(f.Reports)+len(f.Poisons) > 0 {
		err = errDiverged
	}
	return err
}
