package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/cluster"
	"github.com/kjit-project/kjit/harness/repro"
)

type campaignStartCmd struct {
	clusterFlags
	pluginFlags
	ciFlags
	Time    time.Duration `placeholder:"DURATION" help:"How long this command goes on, such as 10m (default: until an interrupt, or the campaign's end)."`
	Runs    uint64        `placeholder:"N" help:"How many programs the campaign shall have in all, rounded up to whole ranges (default: no bound, or what was said before)."`
	Stay    bool          `help:"For deployments: leave a campaign that is paused, stopped or finished so, and stay until it is resumed; wait for a server that is not there yet; end with 0 whatever was found."`
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

With --stay it can be started again and again, by whatever looks after it, and does
what the campaign was told with kjit campaign pause, resume and stop: without, it
sets the campaign running. A campaign that was finished goes on if --runs is more
than before.

Exit codes: 0 nothing was found, 1 the campaign has findings, or set ranges aside;
with --stay always 0.`
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
	case c.NATS == "" && c.Listen == "" && c.ListenUsers != "":
		return badInput(errors.New("--listen-users is for --listen ADDR"))
	case c.NATS == "" && c.Listen == "" && c.TLSCA+c.TLSCert+c.TLSKey != "":
		return badInput(errors.New("--tls-ca, --tls-cert and --tls-key are for --listen ADDR, or for --nats URL"))
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
	if err := checkJobs("workers", *c.Workers); err != nil {
		return err
	}
	if c.AckWait == 0 && c.NATS == "" && c.Listen == "" {
		c.AckWait = 5 * time.Second
	}
	spareThreads()
	return nil
}

// AfterApply refuses a 0 that somebody wrote where it would mean the default.
func (c *campaignStartCmd) AfterApply(k *kong.Context) error {
	return refuseZero(k, "time", "runs", "inputs", "range", "replicas", "ack-wait")
}

// there returns the settings of the campaign that is there, or the default ones.
func (c *campaignStartCmd) there(ctx context.Context, nc *nats.Conn) (s campaign.Settings, found bool, err error) {
	if nc == nil {
		return campaign.Default(), false, nil
	}
	var store *cluster.Store
	if c.NATS != "" {
		store, err = cluster.Open(ctx, nc, c.Name)
	} else {
		store, err = cluster.OpenIn(ctx, nc, c.State, c.Name)
	}
	if errors.Is(err, cluster.ErrNoCampaign) {
		return campaign.Default(), false, nil
	}
	var build string
	if err == nil {
		build, err = sameBuild()
	}
	if err == nil {
		err = store.Spec.Fits(build)
	}
	if err != nil {
		return s, false, c.explain(err)
	}
	s = store.Spec.Settings
	if c.NATS != "" {
		return s, true, trusted(&s, c.JIT)
	}
	// Workers may have been let in and have written it: commands are what the
	// folder says, or ourselves.
	if len(c.JIT) > 0 {
		return s, true, nil // they are used in place of the others
	}
	noted, err := campaign.ReadSettings(c.State)
	if err != nil {
		return s, true, named(&s, nil)
	}
	return s, true, named(&s, noted.JITs)
}

// embedded starts the server of the folder, and connects to it.
func (c *campaignStartCmd) embedded() (*cluster.Server, *nats.Conn, error) {
	server, err := cluster.StartServer(c.State, cluster.Listen{
		Addr: c.Listen, Credentials: c.ListenUsers, Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSCA})
	if err != nil {
		return nil, nil, c.explain(err)
	}
	nc, err := server.Connect()
	if err != nil {
		return nil, nil, environment(errors.Join(err, server.Close()))
	}
	return server, nc, nil
}

func (c *campaignStartCmd) Run(ctx context.Context, std streams, global *cli) error {
	if err := c.check(); err != nil {
		return err
	}
	p := newPatience(std)
	if !c.Stay {
		return c.run(ctx, std, global, p)
	}
	stop, cancel := runsUntil(ctx, 0)
	defer cancel()
	err := c.run(p.With(stop), std, global, p)
	var silent *cluster.SilentError
	if stop.Err() != nil && (errors.Is(err, context.Canceled) || errors.As(err, &silent)) {
		return nil // it was told to end, and that is all that came of it
	}
	if errors.Is(err, errDiverged) {
		return nil
	}
	return err
}

func (c *campaignStartCmd) run(ctx context.Context, std streams, global *cli, p *patience) (err error) {
	log := p.Log
	// What cannot be is found before anything is made.
	metrics, err := c.listenMetrics()
	if err != nil {
		return err
	}
	if metrics != nil {
		defer metrics.Close()
	}
	var (
		server *cluster.Server
		nc     *nats.Conn
	)
	defer func() {
		if nc != nil {
			nc.Close()
		}
		if server != nil {
			server.Close()
		}
	}()
	switch {
	case c.NATS != "":
		nc, err = c.remote("start", c.Stay)
	case cluster.HasCampaign(c.State):
		server, nc, err = c.embedded()
	}
	if err != nil {
		return err
	}
	s, found, err := c.there(ctx, nc)
	if err != nil {
		return err
	}
	if err := c.choose(&s); err != nil {
		return err
	}
	if s.Version, err = sameBuild(); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx) // an interrupt is not the end of ranges and plugins
	cfg, err := c.config(whole, s)
	if err != nil {
		return err
	}
	if nc == nil {
		if server, nc, err = c.embedded(); err != nil {
			return err
		}
		// Somebody may have been faster.
		if _, found, err = c.there(ctx, nc); err != nil {
			return err
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
	dir := ""
	if server != nil {
		if err := c.note(server.Folder(), &s, found, log); err != nil {
			return c.explain(err)
		}
		dir = server.Folder().Findings()
		if url := server.URL(); url != "" {
			log("workers join with: kjit campaign work --nats %s", c.joinURL(url))
		}
	}
	begun, err := store.Told(ctx)
	if err != nil {
		return c.explain(err)
	}
	var told cluster.Control
	if err := store.SetControl(ctx, c.begin(&s, begun, &told)); err != nil {
		return c.explain(err)
	}
	if told.Mode != cluster.Running {
		log("campaign %s is %s: waiting until it is resumed", c.Name, told.Mode)
	}
	if metrics != nil {
		mux := http.NewServeMux()
		mux.Handle("/metrics", store.Metrics())
		go (&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}).Serve(metrics)
		log("metrics at http://%s/metrics", metrics.Addr())
	}
	return c.coordinate(ctx, std, global, store, cfg, dir, told, p)
}

// listenMetrics opens the port for Prometheus; nil: none is wanted.
func (c *campaignStartCmd) listenMetrics() (net.Listener, error) {
	if c.Metrics == "" {
		return nil, nil
	}
	if _, _, err := cluster.SplitAddr(c.Metrics); err != nil {
		return nil, badInput(fmt.Errorf("--metrics %w", err))
	}
	l, err := net.Listen("tcp", c.Metrics)
	if err != nil {
		return nil, environment(fmt.Errorf("--metrics: %w: choose another port or address", err))
	}
	return l, nil
}

// note writes down in the folder what the campaign is, if that does not stand
// there: the streams are what counts.
func (c *campaignStartCmd) note(folder *campaign.Folder, s *campaign.Settings, found bool, log func(string, ...any)) error {
	has, err := campaign.ReadSettings(c.State)
	if err == nil && has.Differs(s) == nil {
		return nil
	}
	if found {
		log("%s: campaign.json was not what the campaign's streams say, and is written again", c.State)
	}
	return folder.Note(s)
}

// joinURL is where workers of other machines find the server, as far as we know: a
// server that listens on all addresses has none of its own.
func (c *campaignStartCmd) joinURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	ip := net.ParseIP(u.Hostname())
	if ip == nil && u.Hostname() != "" || ip != nil && !ip.IsUnspecified() {
		return text
	}
	name, err := os.Hostname()
	if err != nil {
		name = "HOST"
	}
	// Workers refuse a name that the certificate is not for.
	if pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err == nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(name) != nil {
		switch {
		case len(pair.Leaf.DNSNames) > 0:
			name = pair.Leaf.DNSNames[0]
		case len(pair.Leaf.IPAddresses) > 0:
			name = pair.Leaf.IPAddresses[0].String()
		}
	}
	u.Host = net.JoinHostPort(name, u.Port())
	return fmt.Sprintf("%s (%s is a guess: any name of this machine that the certificate is for)", u, name)
}

// begin sets the campaign running. With --stay one that was begun stays as it is,
// unless it is finished and shall have more programs now.
func (c *campaignStartCmd) begin(s *campaign.Settings, begun bool, told *cluster.Control) func(*cluster.Control) error {
	return func(now *cluster.Control) error {
		more := now.Mode == cluster.Finished && s.Ranges(c.Runs) > now.Ranges
		if !c.Stay || !begun || more {
			now.Mode = cluster.Running
		}
		if c.Runs > 0 {
			now.Ranges = s.Ranges(c.Runs)
		}
		*told = *now
		return nil
	}
}

// coordinate does the campaign, and says what came of it.
func (c *campaignStartCmd) coordinate(ctx context.Context, std streams, global *cli, store *cluster.Store, cfg *campaign.Config, dir string, told cluster.Control, p *patience) error {
	began := time.Now()
	before, err := store.Load(ctx)
	if err != nil {
		return c.explain(err)
	}
	stop, cancel := runsUntil(ctx, c.Time)
	defer cancel()
	defer p.hint(stop)()
	whole, end := context.WithCancel(p.With(context.WithoutCancel(ctx)))
	defer end()
	coordinator, err := cluster.NewCoordinator(store, cfg)
	if err != nil {
		return c.explain(err)
	}
	coordinator.Log, coordinator.Told, coordinator.Stay = p.Log, told, c.Stay
	if dir != "" {
		c.compare(dir, before, p.Log)
	}
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
		w.Log, w.Stay = p.Log, c.Stay
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
	patient.Store(true) // from here on it ends by itself
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

// compare says so if a folder has more findings than the state that the streams
// have: ranges of it are lost, and are done again.
func (c *campaignStartCmd) compare(dir string, state *campaign.State, log func(string, ...any)) {
	files, _ := filepath.Glob(filepath.Join(dir, "*"+repro.Extension))
	known := map[string]bool{}
	for _, f := range state.Findings() {
		known[f.Signature().String()+repro.Extension] = true
	}
	lost := 0
	for _, file := range files {
		if !known[filepath.Base(file)] {
			lost++
		}
	}
	if lost > 0 {
		log("%s: the campaign goes on at range %d, and its streams do not know %s of %s: they have lost ranges, which are done again", c.State, state.Next, plural(lost, "finding"), dir)
	}
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
	// What it came to is to be seen soon, or not at all.
	ctx, cancel := context.WithTimeout((&cluster.Patience{Most: 10 * time.Second}).With(ctx), time.Minute)
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
				run.Results[i].File, run.Results[i].About.Again = "", "kjit campaign export writes the file that runs it again."
			}
		}
		for _, p := range f.Poisons {
			run.Add(ciformat.Result{
				Rule: "campaign.set-aside", Name: fmt.Sprint("range ", p.Range), Outcome: ciformat.Failed, Kind: "set-aside",
				Message: fmt.Sprintf("range %d is set aside: %d workers were given it and none was done with it", p.Range, p.Deliveries),
				About:   ciformat.About{Brief: "a range of a campaign makes workers fail", Full: "No worker came to the end of the range: something in it ends them, or takes longer than they have."},
			})
		}
		if err := c.ciFlags.write(run); err != nil {
			return err
		}
	}
	if !kept { // its files are not there for long
		for i := range r.Findings {
			r.Findings[i].File = ""
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
