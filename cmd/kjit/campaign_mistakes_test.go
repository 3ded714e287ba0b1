package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/cluster"
)

// kjit runs a command line and returns what its user sees.
func kjit(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, streams{strings.NewReader(""), &out, &err})
	return code, out.String(), err.String()
}

// answering returns the address of something that says a text to whoever comes, and
// then nothing.
func answering(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, text)
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

// keyPair writes a certificate for example.com and 127.0.0.1, and its key.
func keyPair(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	der, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// Mistakes on the command line, and what the machine does not let us do, are told
// apart, by the flag, before anything is made.
func TestCampaignMistakes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	taken, silent, web := answering(t, ""), answering(t, ""), answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n")
	for name, text := range map[string]string{"junk": "junk\n", "nobody": "# nobody\n", "short": "user a short\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := keyPair(t, dir)
	loopback := []string{"--listen", "127.0.0.1:0"}
	for _, test := range []struct {
		desc string
		args []string // of kjit campaign start --state made
		code int
		err  string
	}{
		{"a port that is in use", []string{"--listen", taken}, 3, "--listen: listen tcp " + taken + ": bind: address already in use: choose another"},
		{"a port for Prometheus that is in use", []string{"--metrics", taken}, 3, "--metrics: listen tcp " + taken + ": bind: address already in use: choose another"},
		{"no address for Prometheus", []string{"--metrics", "foo"}, 2, "--metrics foo is no address: want HOST:PORT"},
		{"no port for Prometheus", []string{"--metrics", "127.0.0.1:99999"}, 2, "--metrics 127.0.0.1:99999 is no address: the port"},
		{"no address", []string{"--listen", "foo"}, 2, "--listen foo is no address: want HOST:PORT"},
		{"no port", []string{"--listen", "127.0.0.1:99999"}, 2, "--listen 127.0.0.1:99999 is no address: the port"},
		{"users of nothing", []string{"--listen-users", "nobody"}, 2, "--listen-users is for --listen ADDR"},
		{"a certificate of nothing", []string{"--tls-cert", cert, "--tls-key", key}, 2, "are for --listen ADDR, or for --nats URL"},
		{"a short password", append(loopback, "--listen-users", "short"), 2, "--listen-users short:1: want \"user NAME PASSWORD\""},
		{"a file without users", append(loopback, "--listen-users", "nobody"), 2, "--listen-users nobody has no credentials"},
		{"a file of users that is not there", append(loopback, "--listen-users", "none"), 2, "--listen-users open none"},
		{"a certificate that is none", append(loopback, "--tls-cert", "junk", "--tls-key", key), 2, "--tls-cert junk with the key " + key},
		{"a key that is none", append(loopback, "--tls-cert", cert, "--tls-key", "junk"), 2, "--tls-cert " + cert + " with the key junk"},
		{"authorities that are none", append(loopback, "--tls-cert", cert, "--tls-key", key, "--tls-ca", "junk"), 2, "--tls-ca junk has no certificate"},
		{"no range", []string{"--range", "0"}, 2, "--range 0: want more than 0"},
		{"no inputs", []string{"--inputs", "0"}, 2, "--inputs 0: want more than 0"},
		{"no programs", []string{"--runs", "0"}, 2, "--runs 0: want more than 0"},

		{"no URL", []string{"--nats", "::::"}, 2, "--nats nats://:::: is no URL of a server"},
		{"a URL without a port that can be", []string{"--nats", "127.0.0.1:99999"}, 2, "--nats nats://127.0.0.1:99999 is no URL of a server"},
		{"a URL of something else", []string{"--nats", "http://127.0.0.1"}, 2, "--nats http://127.0.0.1 is no URL of a server"},
		{"one of several", []string{"--nats", "nats://127.0.0.1:1,nats://foo:x"}, 2, "--nats nats://foo:x is no URL of a server"},
		{"a password with a slash is not told", []string{"--nats", "nats://user:pa/ss@host:1"}, 2, "--nats nats://host:1 is no URL of a server"},
		{"a seed that is none", []string{"--nats", taken, "--nkey", "junk"}, 2, "--nkey junk: "},
		{"credentials that are none", []string{"--nats", taken, "--creds", "junk"}, 2, "--creds junk: no credentials file"},
		{"authorities of a server that are none", []string{"--nats", taken, "--tls-ca", "junk"}, 2, "--tls-ca junk has no certificate"},
		{"our certificate is none", []string{"--nats", taken, "--tls-cert", "junk", "--tls-key", "junk"}, 2, "--tls-cert junk with the key junk"},
		{"nobody is there", []string{"--nats", "nats://127.0.0.1:1"}, 3, "is it running, and can this machine reach it?"},
		{"what is there says nothing", []string{"--nats", silent}, 3, "what answers there is no NATS server"},
		{"what is there is a web server", []string{"--nats", web}, 3, "what answers there is no NATS server"},
	} {
		t.Run(test.desc, func(t *testing.T) {
			code, stdout, stderr := kjit(append([]string{"campaign", "start", "--state", "made"}, test.args...)...)
			if code != test.code || stdout != "" || !strings.Contains(stderr, test.err) || strings.Contains(stderr, "pa/ss") {
				t.Errorf("exit code %d, %q\nwant %d, %q", code, stderr, test.code, test.err)
			}
			if _, err := os.Stat("made"); err == nil {
				t.Error("a folder is left")
				os.RemoveAll("made")
			}
		})
	}
}

// smallCampaign makes a folder of a campaign of a few programs.
func smallCampaign(t *testing.T, dir string) *campaign.Config {
	t.Helper()
	build, err := sameBuild()
	if err != nil {
		t.Fatal(err)
	}
	s := campaign.Default()
	s.Version, s.Size, s.JITs = build, 16, []string{"linux-3.0-x86_64"}
	cfg, err := campaign.NewConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := cluster.StartServer(dir, cluster.Listen{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	create(t, srv, cfg)
	return cfg
}

// create opens a server's campaign, or begins it.
func create(t *testing.T, srv *cluster.Server, cfg *campaign.Config) *cluster.Store {
	t.Helper()
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	spec, err := cluster.NewSpec(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	store, err := cluster.Create(t.Context(), nc, cluster.DefaultName, spec, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A server with TLS, users, and an address that stands for all.
func TestCampaignTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := keyPair(t, dir)
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte("user worker 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv, err := cluster.StartServer(filepath.Join(dir, "c"), cluster.Listen{Addr: "0.0.0.0:0", Credentials: users, Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	u, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	port := u.Port()
	with := func(user, host string) string { return "tls://" + user + "@" + host + ":" + port }
	const worker = "worker:0123456789abcdef"
	for _, test := range []struct {
		desc string
		args []string
		err  string
	}{
		{"an authority that nobody knows", []string{"--nats", with(worker, "127.0.0.1")}, "give the certificate of who signed the server's with --tls-ca"},
		{"a name that the certificate is not for", []string{"--nats", with(worker, "localhost"), "--tls-ca", cert}, "connect to a name that the server's certificate is for"},
		{"a wrong password", []string{"--nats", with("worker:wrong", "127.0.0.1"), "--tls-ca", cert}, "it takes credentials"},
		{"all is well", []string{"--nats", with(worker, "127.0.0.1"), "--tls-ca", cert}, "there is no such campaign on this server"},
	} {
		_, _, stderr := kjit(append([]string{"campaign", "status"}, test.args...)...)
		if !strings.Contains(stderr, test.err) || strings.Contains(stderr, "0123456789abcdef") {
			t.Errorf("%s: %q\nwant %q", test.desc, stderr, test.err)
		}
	}
	// The name of this machine, or one that workers will not refuse.
	c := &campaignStartCmd{clusterFlags: clusterFlags{TLSCert: cert, TLSKey: key}}
	want := "tls://example.com:" + port + " (example.com is a guess"
	if got := c.joinURL(srv.URL()); !strings.HasPrefix(got, want) {
		t.Errorf("workers join with %s, want %s", got, want)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want = "nats://" + host + ":1 (" + host + " is a guess"
	if got := new(campaignStartCmd).joinURL("nats://[::]:1"); !strings.HasPrefix(got, want) {
		t.Errorf("workers join with %s, want %s", got, want)
	}
	if got := c.joinURL("tls://127.0.0.1:1"); got != "tls://127.0.0.1:1" {
		t.Errorf("workers join with %s", got)
	}
}

// Findings of a campaign on another server have no files here, and no empty lines in
// their place.
func TestFindingsWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	srv, err := cluster.StartServer(filepath.Join(dir, "c"), cluster.Listen{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	args := []string{"campaign", "start", "--nats", srv.URL(), "--range", "16", "--runs", "32", "--jit", "linux-3.0-x86_64", "--workers", "1"}
	for _, more := range [][]string{nil, {"--junit", filepath.Join(dir, "j.xml")}} {
		code, stdout, stderr := kjit(append(args, more...)...)
		if code != exitDiverged || !strings.Contains(stdout, ".value\n    ") {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		if strings.Contains(stdout, "    \n") || strings.Contains(stdout, ".txtar") {
			t.Errorf("%q:\n%s", more, stdout)
		}
	}
}

// kjit campaign status that stays gives the folder back after it has looked, and
// sees whoever takes it.
func TestStatusLetsGo(t *testing.T) {
	dir := t.TempDir()
	cfg := smallCampaign(t, dir)
	f := &clusterFlags{State: dir, Name: cluster.DefaultName}
	o, err := f.open(t.Context(), "status")
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	mode := func(want cluster.Mode) {
		t.Helper()
		st, err := o.Status(t.Context())
		if err != nil || st.Control.Mode != want {
			t.Fatalf("%+v, %v, want %s", st, err, want)
		}
	}
	mode(cluster.Stopped)
	mode(cluster.Stopped)
	srv, err := cluster.StartServer(dir, cluster.Listen{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	store := create(t, srv, cfg)
	if err := store.SetControl(t.Context(), func(c *cluster.Control) error { c.Mode = cluster.Running; return nil }); err != nil {
		t.Fatal(err)
	}
	mode(cluster.Running)
	mode(cluster.Running)
	// It ends, and the folder is there to be looked at again.
	if err := store.SetControl(t.Context(), func(c *cluster.Control) error { c.Mode = cluster.Paused; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	for o.nc.IsConnected() { // it is told soon
		time.Sleep(time.Millisecond)
	}
	mode(cluster.Paused)
	mode(cluster.Paused)
}

// An interrupt while the campaign is still being set up ends it as one, and not with
// an error of what it was about.
func TestInterruptedStart(t *testing.T) {
	for delay := time.Duration(0); delay < 600*time.Millisecond; delay += 60 * time.Millisecond {
		patient.Store(false)
		jits := settingsFlags{JIT: []string{"kjit-armv7"}, Range: 16}
		c := &campaignStartCmd{clusterFlags: clusterFlags{State: t.TempDir(), Name: cluster.DefaultName}, settingsFlags: jits}
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		err := c.Run(ctx, streams{strings.NewReader(""), io.Discard, io.Discard}, new(cli))
		cancel()
		// What is not patient is told as interrupted, whatever the error.
		if patient.Load() && err != nil && !errors.Is(err, errDiverged) {
			t.Errorf("after %v: %v", delay, err)
		}
	}
	patient.Store(false)
}
