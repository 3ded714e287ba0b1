package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/kjit-project/kjit/harness/campaign"
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

// NotNATSError is something that answers where a server should, and is none.
type NotNATSError struct{ URLs string }

func (e *NotNATSError) Error() string {
	return e.URLs + ": what answers there is no NATS server"
}

// Connect connects to it. The connection lives through a server's restart, and
// through the loss of all but one. Errors: an *OptionError, a *NotNATSError.
func (r *Remote) Connect(more ...nats.Option) (*nats.Conn, error) {
	opts, err := r.options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(r.URLs, append(opts, more...)...)
	if err == nil {
		return nc, nil
	}
	if r.impostor() {
		return nil, &NotNATSError{r.shown()}
	}
	return nil, fmt.Errorf("%s: %w", r.shown(), err)
}

// options reads all files, so that what is wrong with them is not taken for a
// server that is.
func (r *Remote) options() ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(r.Name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(5 * time.Second), nats.RetryOnFailedConnect(r.Wait),
	}
	if len(r.servers()) == 0 {
		return nil, &OptionError{"URLs", fmt.Errorf("%q has no URL", r.URLs)}
	}
	for _, s := range r.servers() {
		if !isServerURL(s) {
			return nil, &OptionError{"URLs", fmt.Errorf("%s is no URL of a server: want nats://HOST:PORT or tls://HOST:PORT, and in a password %%40 for @, %%2F for /, %%3A for a colon", withoutSecret(s))}
		}
	}
	if r.Creds != "" {
		if err := checkCreds(r.Creds); err != nil {
			return nil, &OptionError{"Creds", err}
		}
		opts = append(opts, nats.UserCredentials(r.Creds))
	}
	if r.NKey != "" {
		o, err := nats.NkeyOptionFromSeed(r.NKey)
		if err != nil {
			return nil, &OptionError{"NKey", fmt.Errorf("%s: %w", r.NKey, err)}
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
		if _, err := readAuthorities(r.CA); err != nil {
			return nil, &OptionError{"CA", err}
		}
		opts = append(opts, nats.RootCAs(r.CA))
	}
	if r.Cert != "" {
		if _, err := readKeyPair(r.Cert, r.Key); err != nil {
			return nil, err
		}
		opts = append(opts, nats.ClientCert(r.Cert, r.Key))
	}
	return opts, nil
}

// checkCreds returns an error unless a file has a JWT and a seed.
func checkCreds(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	token, err := nkeys.ParseDecoratedJWT(data)
	if err == nil && strings.Count(strings.TrimSpace(token), ".") != 2 {
		err = errors.New("there is no JWT")
	}
	if err == nil {
		_, err = nkeys.ParseDecoratedNKey(data)
	}
	if err != nil {
		return fmt.Errorf("%s: no credentials file of NATS: %w", file, err)
	}
	return nil
}

// servers are the URLs, each with a scheme.
func (r *Remote) servers() []string {
	var out []string
	for _, s := range strings.Split(r.URLs, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		out = append(out, s)
	}
	return out
}

// isServerURL reports whether a server can be meant.
func isServerURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
		return false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
	}
	return slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme)
}

// impostor reports whether something answers at one of the servers' addresses, and
// nothing as a server does: that says the first word.
func (r *Remote) impostor() bool {
	answers := false
	for _, s := range r.servers() {
		u, err := url.Parse(s)
		if err != nil || strings.HasPrefix(u.Scheme, "ws") {
			continue
		}
		port := u.Port()
		if port == "" {
			port = strconv.Itoa(nats.DefaultPort)
		}
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(u.Hostname(), port), time.Second)
		if err != nil {
			continue
		}
		answers = true
		word := make([]byte, len("INFO "))
		conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, err = io.ReadFull(conn, word)
		conn.Close()
		if err == nil && string(word) == "INFO " {
			return false
		}
	}
	return answers
}

// Campaigns returns the names of the campaigns that a server has streams for.
func Campaigns(ctx context.Context, nc *nats.Conn) ([]string, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	var names []string
	err = (&Store{js: js}).retry(ctx, func(ctx context.Context) error {
		names = nil
		list := js.StreamNames(ctx)
		for stream := range list.Name() {
			name := strings.TrimSuffix(strings.TrimPrefix(stream, "kjit_"), "_"+stateStream)
			if n := (Names{name}); n.Validate() == nil && n.stream(stateStream) == stream {
				names = append(names, name)
			}
		}
		return list.Err()
	})
	slices.Sort(names)
	return names, err
}

// OtherError is a state folder with a campaign of another name.
type OtherError struct{ Dir, Name, Has string }

func (e *OtherError) Error() string {
	return fmt.Sprintf("campaign %s is not in %s: it has campaign %s, and a folder has one", e.Name, e.Dir, e.Has)
}

// OpenIn opens the campaign in a state folder, to whose server nc leads. Errors: an
// *OtherError, a *DamageError, ErrNoCampaign.
func OpenIn(ctx context.Context, nc *nats.Conn, dir, name string) (*Store, error) {
	s, err := Open(ctx, nc, name)
	if !errors.Is(err, ErrNoCampaign) {
		return s, err
	}
	names, listErr := Campaigns(ctx, nc)
	switch {
	case listErr != nil:
		return nil, listErr
	case len(names) > 0 && !slices.Contains(names, name):
		return nil, &OtherError{dir, name, names[0]}
	case campaign.Noted(dir):
		return nil, &DamageError{dir, "what the campaign is does not stand there"}
	}
	return nil, err
}

// shown is the servers without their secrets.
func (r *Remote) shown() string {
	out := r.servers()
	for i := range out {
		out[i] = withoutSecret(out[i])
	}
	return strings.Join(out, ",")
}

func withoutSecret(server string) string {
	scheme, rest, _ := strings.Cut(server, "://")
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}
