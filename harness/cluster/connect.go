package cluster

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Remote is an external server or cluster, and how to be let in. Users, passwords
// and tokens may also stand in the URLs.
type Remote struct {
	URLs         string // with commas between them
	Creds        string // file of JWT and seed
	NKey         string // file of a seed
	CA           string // file of certificates that the server's is to be signed by
	Cert, Key    string // files of our certificate
	User, Secret string
	Name         string // shown by the server's tools
	Wait         bool   // for a server that is not there yet
}

// Connect connects to it. The connection lives through a server's restart, and
// through the loss of all but one.
func (r *Remote) Connect(more ...nats.Option) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name(r.Name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(5 * time.Second), nats.RetryOnFailedConnect(r.Wait),
	}
	if r.Creds != "" {
		opts = append(opts, nats.UserCredentials(r.Creds))
	}
	if r.NKey != "" {
		o, err := nats.NkeyOptionFromSeed(r.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey %s: %w", r.NKey, err)
		}
		opts = append(opts, o)
	}
	if r.User != "" {
		opts = append(opts, nats.UserInfo(r.User, r.Secret))
	}
	if r.CA != "" || r.Cert != "" {
		opts = append(opts, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if r.CA != "" {
		opts = append(opts, nats.RootCAs(r.CA))
	}
	if r.Cert != "" {
		opts = append(opts, nats.ClientCert(r.Cert, r.Key))
	}
	nc, err := nats.Connect(r.URLs, append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.shown(), err)
	}
	return nc, nil
}

// shown is the servers without their secrets.
func (r *Remote) shown() string {
	var out []string
	for _, u := range strings.Split(r.URLs, ",") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(u), "://")
		if !ok {
			scheme, rest = "nats", scheme
		}
		out = append(out, scheme+"://"+rest[strings.LastIndex(rest, "@")+1:])
	}
	return strings.Join(out, ",")
}
