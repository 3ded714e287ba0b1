package cluster

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/kjit-project/kjit/harness/campaign"
)

// storeDir is what an embedded server has in a state folder.
const storeDir = "jetstream"

// Listen is how an embedded server is to be reached by other machines.
type Listen struct {
	Addr string // host:port; "": not at all

	// Credentials is a file of those who may connect, one a line: "user NAME
	// PASSWORD" or "nkey PUBLIC". "": everybody.
	Credentials string

	Cert, Key string // TLS: files in PEM
	ClientCA  string // whose certificates clients must have; "": none
}

// ListenError is an address that is not opened, as it would be open to others.
type ListenError struct{ Addr, Lacks string }

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, and %s: whoever connects can change the campaign. Give credentials and TLS, or listen on 127.0.0.1", e.Addr, e.Lacks)
}

// Server is a JetStream server inside this process, which keeps its streams in a
// state folder. It opens no port unless it is told to listen: other processes of
// this machine come through a Unix socket in the folder, which its permissions
// guard. The folder is its own while it runs, and its process may be killed at any
// moment.
type Server struct {
	server *server.Server
	folder *campaign.Folder
	listen bool
	door   *door
}

// StartServer starts the server of a state folder. s are the campaign's settings,
// which the folder keeps. Errors: a *campaign.SettingsError, a
// *campaign.LockedError, a *ListenError.
func StartServer(dir string, s *campaign.Settings, l Listen) (_ *Server, err error) {
	o := &server.Options{
		ServerName: "kjit", JetStream: true, StoreDir: filepath.Join(dir, storeDir), DontListen: true,
		NoSigs: true, NoLog: true, SyncAlways: true, DisableJetStreamBanner: true,
		MaxPayload: 1 << 20,
	}
	if err := l.apply(o); err != nil {
		return nil, err
	}
	if campaign.HasRanges(dir) {
		return nil, fmt.Errorf("%s is the folder of kjit fuzz: choose another", dir)
	}
	srv := &Server{listen: l.Addr != ""}
	if srv.folder, err = campaign.OpenFolder(dir, s); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			srv.Close()
		}
	}()
	// This process, and who comes through the door, have credentials of their own
	// where others need some.
	var inside doorKey
	if len(o.Users)+len(o.Nkeys) > 0 {
		inside = doorKey{User: "inside", Password: rand.Text()}
		o.Users = append(o.Users, &server.User{Username: inside.User, Password: inside.Password})
	}
	// What is in the streams decides about what is done: it is the user's alone.
	if err := errors.Join(os.MkdirAll(o.StoreDir, 0o700), os.Chmod(o.StoreDir, 0o700)); err != nil {
		return nil, err
	}
	if srv.server, err = server.NewServer(o); err != nil {
		return nil, fmt.Errorf("the embedded server: %w", err)
	}
	srv.server.Start()
	if !srv.server.ReadyForConnections(30 * time.Second) {
		return nil, errors.New("the embedded server does not start")
	}
	if !srv.server.JetStreamEnabled() {
		return nil, fmt.Errorf("%s: its streams cannot be opened", o.StoreDir)
	}
	srv.door, err = openDoor(dir, o.StoreDir, inside, srv.server.InProcessConn)
	return srv, err
}

// apply makes it options of a server, or refuses.
func (l *Listen) apply(o *server.Options) error {
	if l.Addr == "" {
		if l.Credentials != "" || l.Cert != "" || l.Key != "" || l.ClientCA != "" {
			return errors.New("credentials and TLS are for an address to listen on, and there is none")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return fmt.Errorf("%s is no address: %w", l.Addr, err)
	}
	if o.Port, err = strconv.Atoi(port); err != nil || o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("%s is no address: the port is a number up to 65535", l.Addr)
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.Host, o.DontListen = host, false
	if (l.Cert == "") != (l.Key == "") || l.ClientCA != "" && l.Cert == "" {
		return errors.New("TLS needs a certificate and its key")
	}
	if !isLoopback(host) {
		var lacks []string
		if l.Credentials == "" {
			lacks = append(lacks, "nobody has to show credentials")
		}
		if l.Cert == "" {
			lacks = append(lacks, "what is sent can be read and changed (no TLS)")
		}
		if len(lacks) > 0 {
			return &ListenError{l.Addr, strings.Join(lacks, ", and ")}
		}
	}
	if l.Credentials != "" {
		if err := readCredentials(l.Credentials, o); err != nil {
			return err
		}
	}
	if l.Cert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	o.TLS, o.TLSTimeout = true, 5
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if l.ClientCA != "" {
		pem, err := os.ReadFile(l.ClientCA)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate", l.ClientCA)
		}
		o.TLSVerify, o.TLSConfig.ClientCAs, o.TLSConfig.ClientAuth = true, pool, tls.RequireAndVerifyClientCert
	}
	return nil
}

// isLoopback reports whether only this machine can reach a host. A name is not
// looked up: what it stands for may change.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readCredentials reads those who may connect.
func readCredentials(file string, o *server.Options) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case words[0] == "user" && len(words) == 3 && len(words[2]) >= minSecret:
			o.Users = append(o.Users, &server.User{Username: words[1], Password: words[2]})
		case words[0] == "nkey" && len(words) == 2 && nkeys.IsValidPublicUserKey(words[1]):
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: words[1]})
		default:
			return fmt.Errorf("%s:%d: want \"user NAME PASSWORD\", with a password of at least %d letters, or \"nkey PUBLIC\"", file, n, minSecret)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(o.Users)+len(o.Nkeys) == 0 {
		return fmt.Errorf("%s has no credentials", file)
	}
	return nil
}

// minSecret is how short a password can be.
const minSecret = 16

// Connect returns a connection of this process.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(opts, nats.InProcessServer(s.server), nats.MaxReconnects(-1), s.door.key.option())...)
}

// Folder is the state folder.
func (s *Server) Folder() *campaign.Folder { return s.folder }

// URL is where the server listens; "": it does not.
func (s *Server) URL() string {
	if !s.listen {
		return ""
	}
	return s.server.ClientURL()
}

// Close ends the server.
func (s *Server) Close() error {
	var errs []error
	if s.door != nil {
		errs = append(errs, s.door.close())
	}
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
	if s.folder != nil {
		errs = append(errs, s.folder.Close())
	}
	return errors.Join(errs...)
}
