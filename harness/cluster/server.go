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

// Listen is how an embedded server is to be reached by other machines.
type Listen struct {
	Addr string // host:port; "": not at all

	// Credentials is a file of those who may connect, one a line: "user NAME
	// PASSWORD" or "nkey PUBLIC". "": everybody.
	Credentials string

	Cert, Key string // TLS: files in PEM
	ClientCA  string // whose certificates clients must have; "": none
}

// OptionError is a value of a Listen or a Remote that cannot be right.
type OptionError struct {
	Option string // the name of its field
	Err    error
}

func (e *OptionError) Error() string { return e.Err.Error() }

func (e *OptionError) Unwrap() error { return e.Err }

// ListenError is an address that is not opened, as it would be open to others.
type ListenError struct{ Addr, Lacks string }

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, and %s: whoever connects can change the campaign. Give credentials and TLS, or listen on 127.0.0.1", e.Addr, e.Lacks)
}

// DamageError is a state folder whose campaign is not in its streams any more.
type DamageError struct{ Dir, Why string }

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: the campaign's streams are missing or damaged: %s: put a whole copy of %s back, or begin again with another folder; what was found is still in %s",
		e.Dir, e.Why, filepath.Join(e.Dir, campaign.StreamsDir), filepath.Join(e.Dir, "findings"))
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
	inside doorKey // who this process is, and who comes through the door
	door   *door   // nil: there is none
}

// HasCampaign reports whether a state folder has a campaign, or had one.
func HasCampaign(dir string) bool { return hasStreams(dir) || campaign.Noted(dir) }

func hasStreams(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, campaign.StreamsDir))
	return err == nil
}

// StartServer starts the server of a state folder, and opens its door. Errors: a
// *campaign.LockedError, a *campaign.OwnerError, a *ListenError, an *OptionError,
// a *DamageError, a *net.OpError for an address that cannot be listened on.
func StartServer(dir string, l Listen) (*Server, error) {
	srv, err := startServer(dir, l)
	if err != nil {
		return nil, err
	}
	if srv.door, err = openDoor(dir, filepath.Join(dir, campaign.StreamsDir), srv.inside, srv.server.InProcessConn); err != nil {
		return nil, errors.Join(err, srv.Close())
	}
	return srv, nil
}

// LookServer starts the server of a state folder for this process alone, which
// has it for a moment.
func LookServer(dir string) (*Server, error) { return startServer(dir, Listen{}) }

func startServer(dir string, l Listen) (_ *Server, err error) {
	o := &server.Options{
		ServerName: "kjit", JetStream: true, StoreDir: filepath.Join(dir, campaign.StreamsDir), DontListen: true,
		NoSigs: true, NoLog: true, SyncAlways: true, DisableJetStreamBanner: true,
		MaxPayload: 1 << 20,
	}
	if err := l.apply(o); err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil { // nothing is left of a folder that is of no use
		if err := l.try(); err != nil {
			return nil, err
		}
	}
	srv := &Server{listen: l.Addr != ""}
	if srv.folder, err = takeFolder(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			srv.Close()
		}
	}()
	if err := l.try(); err != nil {
		return nil, err
	}
	if campaign.Noted(dir) && !hasStreams(dir) {
		return nil, &DamageError{dir, "there are none"}
	}
	// This process, and who comes through the door, have credentials of their own
	// where others need some.
	if len(o.Users)+len(o.Nkeys) > 0 {
		srv.inside = doorKey{User: "inside", Password: rand.Text()}
		o.Users = append(o.Users, &server.User{Username: srv.inside.User, Password: srv.inside.Password})
	}
	// What is in the streams decides about what is done: it is the user's alone.
	if err := errors.Join(os.MkdirAll(o.StoreDir, 0o700), os.Chmod(o.StoreDir, 0o700)); err != nil {
		return nil, err
	}
	if srv.server, err = server.NewServer(o); err != nil {
		return nil, fmt.Errorf("the embedded server: %w", err)
	}
	fatal := make(fatalLog, 1)
	srv.server.SetLogger(fatal, false, false)
	srv.server.Start()
	for began := time.Now(); !srv.server.ReadyForConnections(tick); {
		select {
		case why := <-fatal:
			return nil, fmt.Errorf("%s: the embedded server does not start: %s", dir, why)
		default:
		}
		if time.Since(began) > readyWait {
			return nil, fmt.Errorf("%s: the embedded server does not start in %v", dir, readyWait)
		}
	}
	select {
	case why := <-fatal: // of the streams
		return nil, &DamageError{dir, why}
	default:
		return srv, nil
	}
}

// readyWait is how long an embedded server may take to read its streams.
const readyWait = 30 * time.Second

// lookTime is how long a process that only looks at a campaign can have its folder.
const lookTime = 2 * time.Second

// takeFolder locks a state folder. Who looks at a campaign has no door, and is
// waited for.
func takeFolder(dir string) (*campaign.Folder, error) {
	for began := time.Now(); ; time.Sleep(tick) {
		if err := campaign.CheckNoRanges(dir); err != nil {
			return nil, err
		}
		f, err := campaign.LockFolder(dir)
		var locked *campaign.LockedError
		switch {
		case err == nil:
			if err := campaign.CheckNoRanges(dir); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		case !errors.As(err, &locked) || time.Since(began) > lookTime:
			return nil, err
		}
		if _, notRunning := findDoor(dir); notRunning == nil {
			return nil, err
		}
	}
}

// fatalLog is a server's log that keeps the first thing that ended it.
type fatalLog chan string

func (l fatalLog) Fatalf(format string, args ...any) {
	select {
	case l <- fmt.Sprintf(format, args...):
	default:
	}
}

func (l fatalLog) Noticef(string, ...any) {}
func (l fatalLog) Warnf(string, ...any)   {}
func (l fatalLog) Errorf(string, ...any)  {}
func (l fatalLog) Debugf(string, ...any)  {}
func (l fatalLog) Tracef(string, ...any)  {}

// SplitAddr returns the two parts of an address to listen on.
func SplitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%s is no address: want HOST:PORT", addr)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%s is no address: the port is a number up to 65535", addr)
	}
	return host, port, nil
}

// try finds out whether the address can be listened on: the server itself would
// not say why it cannot.
func (l *Listen) try() error {
	if l.Addr == "" {
		return nil
	}
	try, err := net.Listen("tcp", l.Addr)
	if err != nil {
		return err
	}
	return try.Close()
}

// apply makes it options of a server, or refuses.
func (l *Listen) apply(o *server.Options) (err error) {
	if l.Addr == "" {
		for option, value := range map[string]string{"Credentials": l.Credentials, "Cert": l.Cert, "Key": l.Key, "ClientCA": l.ClientCA} {
			if value != "" {
				return &OptionError{option, fmt.Errorf("%s is for an address to listen on, and there is none", value)}
			}
		}
		return nil
	}
	if o.Host, o.Port, err = SplitAddr(l.Addr); err != nil {
		return &OptionError{"Addr", err}
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.DontListen = false
	if (l.Cert == "") != (l.Key == "") || l.ClientCA != "" && l.Cert == "" {
		return &OptionError{"Cert", errors.New("TLS needs a certificate and its key")}
	}
	if !isLoopback(o.Host) {
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
			return &OptionError{"Credentials", err}
		}
	}
	if l.Cert == "" {
		return nil
	}
	cert, err := readKeyPair(l.Cert, l.Key)
	if err != nil {
		return err
	}
	o.TLS, o.TLSTimeout = true, 5
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if l.ClientCA != "" {
		pool, err := readAuthorities(l.ClientCA)
		if err != nil {
			return &OptionError{"ClientCA", err}
		}
		o.TLSVerify, o.TLSConfig.ClientCAs, o.TLSConfig.ClientAuth = true, pool, tls.RequireAndVerifyClientCert
	}
	return nil
}

// readKeyPair reads a certificate and its key.
func readKeyPair(cert, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return pair, &OptionError{"Cert", fmt.Errorf("%s with the key %s: %w", cert, key, err)}
	}
	return pair, nil
}

// readAuthorities reads the certificates of a file.
func readAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
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
	return nats.Connect("", append(opts, nats.InProcessServer(s.server), nats.MaxReconnects(-1), s.inside.option())...)
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
