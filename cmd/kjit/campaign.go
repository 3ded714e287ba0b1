package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/cluster"
)

// campaignCmd is a campaign that many processes share.
type campaignCmd struct {
	Start    campaignStartCmd    `cmd:"" help:"Begin a campaign, or go on with it: hand out its work and collect what comes of it."`
	Work     campaignWorkCmd     `cmd:"" help:"Join a campaign as a worker, from any machine."`
	Status   campaignStatusCmd   `cmd:"" help:"Show how far a campaign is; on a terminal, again and again."`
	Findings campaignFindingsCmd `cmd:"" help:"List what a campaign has found."`
	Export   campaignExportCmd   `cmd:"" help:"Write the findings and a summary into a folder: files for kjit replay, JSON, JUnit XML."`
	Pause    campaignPauseCmd    `cmd:"" help:"Let the ranges that have begun end, and no others begin."`
	Resume   campaignResumeCmd   `cmd:"" help:"Go on with a campaign that was paused, or stopped if its kjit campaign start --stay waits for that."`
	Stop     campaignStopCmd     `cmd:"" help:"End a campaign's coordinators and workers; kjit campaign start goes on with it."`
}

func (c *campaignCmd) Help() string {
	return `A campaign is kjit fuzz on many machines: they share a NATS server with JetStream,
or a cluster of them, and come to the same findings and totals as one process does,
however many they are and whichever of them die.

Without --nats the server is inside kjit campaign start and keeps everything in the
state folder; it opens no port unless --listen says so. See docs/campaigns.md.`
}

// clusterFlags say where a campaign is.
type clusterFlags struct {
	State string `default:"kjit-campaign" placeholder:"DIR" help:"Folder of a campaign whose server is kjit's own (default ${default})."`
	Name  string `name:"campaign" default:"main" placeholder:"NAME" help:"Which of a server's campaigns (default ${default})."`

	NATS    string `name:"nats" env:"KJIT_NATS" placeholder:"URL,..." help:"The server, or servers of a cluster, to use instead: nats://HOST:4222, tls://..., nats://USER:PASSWORD@... ($KJIT_NATS keeps passwords out of the list of processes)."`
	Creds   string `env:"KJIT_NATS_CREDS" placeholder:"FILE" help:"Credentials for --nats: a file with JWT and seed."`
	NKey    string `name:"nkey" env:"KJIT_NATS_NKEY" placeholder:"FILE" help:"Credentials for --nats: a file with the seed of an nkey."`
	TLSCA   string `name:"tls-ca" env:"KJIT_NATS_CA" placeholder:"FILE" help:"Certificates that the server's has to be signed by (with --nats), or clients' have to (with --listen)."`
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"Our certificate, for --nats or --listen."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"Its key."`
}

func (f *clusterFlags) check() error {
	if err := (cluster.Names{Campaign: f.Name}).Validate(); err != nil {
		return badInput(fmt.Errorf("--%w", err))
	}
	if f.NATS == "" && (f.Creds != "" || f.NKey != "") {
		return badInput(errors.New("--creds and --nkey are for --nats URL"))
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return badInput(errors.New("--tls-cert and --tls-key go together"))
	}
	return nil
}

// remote connects to an external server.
func (f *clusterFlags) remote(what string, wait bool) (*nats.Conn, error) {
	r := cluster.Remote{URLs: f.NATS, Creds: f.Creds, NKey: f.NKey, CA: f.TLSCA, Cert: f.TLSCert, Key: f.TLSKey, Name: "kjit campaign " + what, Wait: wait}
	nc, err := r.Connect()
	if err != nil {
		return nil, f.unreached(err)
	}
	return nc, nil
}

// unreached gives an error of remote its exit code, and says what mends it.
func (f *clusterFlags) unreached(err error) error {
	var (
		option  *cluster.OptionError
		not     *cluster.NotNATSError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		network net.Error
	)
	remedy := ""
	switch {
	case errors.As(err, &option):
		return f.explain(err)
	case errors.As(err, &not):
		remedy = "is the port right? A server's is 4222 unless it was given another"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		remedy = "it takes credentials: --creds, --nkey, or USER:PASSWORD@ in the URL"
	case errors.As(err, &unknown):
		remedy = "give the certificate of who signed the server's with --tls-ca"
	case errors.As(err, &name):
		remedy = "connect to a name that the server's certificate is for"
	case errors.Is(err, nats.ErrSecureConnWanted):
		remedy = "that server has no TLS: leave out --tls-ca and --tls-cert, and say nats://"
	case errors.Is(err, nats.ErrTLS):
		remedy = "--tls-ca says who may have signed the server's certificate, --tls-cert and --tls-key are ours if it wants one"
	case errors.Is(err, nats.ErrNoServers), errors.As(err, &network):
		remedy = "is it running, and can this machine reach it?"
	default:
		return environment(fmt.Errorf("--nats %w", err))
	}
	return environment(fmt.Errorf("--nats %w: %s", err, remedy))
}

// opened is a campaign that a command looks at.
type opened struct {
	*cluster.Store
	nc     *nats.Conn
	server *cluster.Server // that was started for the command alone

	flags *clusterFlags
	gone  bool            // the server is let go after the first status
	last  *cluster.Status // before that
}

func (o *opened) close() {
	if o.nc != nil {
		o.nc.Close()
	}
	if o.server != nil {
		o.server.Close()
	}
	o.nc, o.server = nil, nil
}

// Status asks the server. One that was started for kjit campaign status alone is
// let go after the first time, so that a coordinator can have the folder: until
// there is one, nothing changes.
func (o *opened) Status(ctx context.Context) (*cluster.Status, error) {
	if o.last != nil {
		nc, err := cluster.ConnectFolder(o.flags.State)
		if err != nil {
			return o.last, nil
		}
		store, err := cluster.OpenIn(ctx, nc, o.flags.State, o.flags.Name)
		if err != nil { // it is beginning
			nc.Close()
			return o.last, nil
		}
		o.nc, o.Store, o.last = nc, store, nil
	}
	if o.gone && o.flags.NATS == "" && !o.nc.IsConnected() { // whoever ran on the folder has ended
		again, err := o.flags.open(ctx, "status")
		if err != nil {
			return nil, err
		}
		o.close()
		*o = *again
	}
	st, err := o.Store.Status(ctx)
	if err == nil && o.server != nil && o.gone {
		o.last = st
		o.close()
	}
	return st, err
}

// open opens a campaign that is there: on an external server, in a process that
// runs, or in a folder that nobody uses now.
func (f *clusterFlags) open(ctx context.Context, what string) (_ *opened, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	o := &opened{flags: f, gone: what == "status"}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if f.NATS != "" {
		if o.nc, err = f.remote(what, false); err != nil {
			return nil, err
		}
		if o.Store, err = cluster.Open(ctx, o.nc, f.Name); err != nil {
			return nil, f.explain(err)
		}
		return o, nil
	}
	o.nc, err = cluster.ConnectFolder(f.State)
	if errors.Is(err, cluster.ErrNotRunning) {
		err = f.revive(o)
	}
	if err == nil {
		o.Store, err = cluster.OpenIn(ctx, o.nc, f.State, f.Name)
	}
	if err != nil {
		return nil, f.explain(err)
	}
	return o, nil
}

// revive starts the server of a folder.
func (f *clusterFlags) revive(o *opened) (err error) {
	if !cluster.HasCampaign(f.State) {
		return badInput(fmt.Errorf("--state %s: there is no campaign: kjit campaign start begins one", f.State))
	}
	if o.server, err = cluster.LookServer(f.State); err != nil {
		return err
	}
	o.nc, err = o.server.Connect()
	return err
}

// optionFlags are the flags of what cluster's options are called.
var optionFlags = map[string]string{
	"Addr": "--listen", "Credentials": "--listen-users", "URLs": "--nats", "Creds": "--creds", "NKey": "--nkey",
	"Cert": "--tls-cert", "Key": "--tls-key", "CA": "--tls-ca", "ClientCA": "--tls-ca",
}

// explain gives an error its exit code, and says what mends it.
func (f *clusterFlags) explain(err error) error {
	var (
		coded    *codedError
		settings *campaign.SettingsError
		other    *cluster.OtherError
		owner    *campaign.OwnerError
		damage   *cluster.DamageError
		door     *cluster.DoorError
		listen   *cluster.ListenError
		option   *cluster.OptionError
		network  *net.OpError
		path     *fs.PathError
	)
	another := "--state"
	if f.NATS != "" {
		another = "--campaign"
	}
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, cluster.ErrNoCampaign):
		return badInput(fmt.Errorf("%w: kjit campaign start begins one", err))
	case errors.As(err, &listen):
		return badInput(fmt.Errorf("--listen %w (--listen-users, --tls-cert, --tls-key)", err))
	case errors.As(err, &option):
		return badInput(fmt.Errorf("%s %w", optionFlags[option.Option], err))
	case errors.As(err, &settings):
		return badInput(fmt.Errorf("%w: leave that out to go on with it, or choose another %s", err, another))
	case errors.As(err, &other):
		return badInput(fmt.Errorf("--campaign %s: %w: say --campaign %s, or choose another --state", f.Name, err, other.Has))
	case errors.As(err, &owner), errors.As(err, &damage):
		return badInput(fmt.Errorf("--state %w", err))
	case errors.As(err, &door):
		return badInput(fmt.Errorf("--state %s: %w: remove it; a kjit campaign start that runs has to be begun again", f.State, err))
	case errors.As(err, &network) && network.Op == "listen":
		return environment(fmt.Errorf("--listen: %w: choose another port or address", err))
	case errors.As(err, &path):
		return badInput(err)
	}
	return environment(err)
}

// where names the campaign.
func (f *clusterFlags) where() string {
	if f.NATS != "" {
		return "campaign " + f.Name
	}
	return f.State
}

// pause waits for a time, or until ctx is done, and returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

// runsUntil returns a context that is done after a signal that asks to end, or
// after a time; 0: never.
func runsUntil(ctx context.Context, after time.Duration) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	if after == 0 {
		return ctx, stop
	}
	ctx, cancel := context.WithTimeout(ctx, after)
	return ctx, func() { cancel(); stop() }
}

// trusted returns an error unless all JITs that are commands were given on our own
// command line: whoever can write into the campaign could run anything otherwise.
func trusted(s *campaign.Settings, ours []string) error {
	if err := named(s, ours); err != nil {
		return err
	}
	if len(ours) > 0 && !slices.Equal(s.JITs, ours) {
		return environment(&cluster.MismatchError{What: "JITs", Campaign: strings.Join(s.JITs, ","), Ours: strings.Join(ours, ",")})
	}
	return nil
}

// named is that for a campaign whose settings we may change.
func named(s *campaign.Settings, ours []string) error {
	for _, name := range s.JITs {
		if usesPlugin(name) && !slices.Contains(ours, name) {
			return badInput(fmt.Errorf("the campaign wants %q run here: give it with --jit to allow that", name))
		}
	}
	return nil
}
