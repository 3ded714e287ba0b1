package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/harness/campaign"
)

// startArgs are those of a process that does a campaign by itself.
type startArgs struct {
	Dir      string
	Ranges   uint64
	Settings campaign.Settings
}

func beStart(text string) error {
	var a startArgs
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	cfg, err := campaign.NewConfig(a.Settings)
	if err != nil {
		return err
	}
	ctx := context.Background()
	srv, err := StartServer(a.Dir, Listen{})
	if err != nil {
		return err
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		return err
	}
	spec, err := NewSpec(ctx, cfg)
	if err != nil {
		return err
	}
	s, err := Create(ctx, nc, DefaultName, spec, Options{AckWait: time.Second})
	if err != nil {
		return err
	}
	if err := s.SetControl(ctx, func(c *Control) error { *c = Control{Running, a.Ranges}; return nil }); err != nil {
		return err
	}
	w, err := NewWorker(ctx, s, cfg, 2)
	if err != nil {
		return err
	}
	c, err := NewCoordinator(s, cfg)
	if err != nil {
		return err
	}
	ready()
	go w.Run(ctx, ctx)
	_, err = c.Run(ctx)
	return err
}

// The process with the embedded server is killed at random moments, again and
// again: what it comes to is the same. KJIT_KILLS says how often (default 4).
func TestEmbeddedUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a process again and again: half a minute")
	}
	kills := 4
	if text := os.Getenv("KJIT_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("KJIT_KILLS: %v", err)
		}
	}
	s := seed(t, 2)
	cfg := small(t, s)
	ranges := uint64(20 + 4*kills)
	expect := want(t, cfg, ranges)
	a := startArgs{t.TempDir(), ranges, cfg.Settings}
	for i := range kills {
		cmd := child(t, startEnv, a)
		time.Sleep(rand.N(1500 * time.Millisecond))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		t.Logf("kill %d", i)
	}
	srv, nc := embedded(t, a.Dir, cfg)
	st, err := Open(t.Context(), nc, DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	before, err := st.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d ranges were done under kills", before.Next, ranges)
	tell(t, st, Control{Running, ranges})
	wait := startWorker(t, t.Context(), nc, cfg, 2)
	got := coordinate(t, t.Context(), st, cfg)
	wait()
	if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
		t.Errorf("another answer (-without kills +with):\n%s", diff)
	}
	if p, err := st.Poisons(t.Context()); err != nil || len(p) > 0 {
		t.Errorf("set aside: %v, %v", p, err)
	}
	reports, err := WriteFindings(srv.Folder().Findings(), got, nil)
	if err != nil || len(reports) != len(got.Findings()) {
		t.Errorf("%d files, %v", len(reports), err)
	}
}

// Other processes of the user come through the door, and no port is open.
func TestDoor(t *testing.T) {
	cfg := small(t, seed(t, 1))
	dir := t.TempDir()
	for range 8 {
		dir += "/a-folder-with-a-long-name" // longer than a socket's name can be
	}
	for _, dir := range []string{t.TempDir(), dir} {
		if _, err := ConnectFolder(dir); err == nil {
			t.Error("connected to nothing")
		}
		srv, nc := embedded(t, dir, cfg)
		if srv.URL() != "" || srv.server.Addr() != nil {
			t.Errorf("it listens at %s", srv.URL())
		}
		begin(t, nc, cfg, 1, 0)
		outside, err := ConnectFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), outside, DefaultName); err != nil {
			t.Error(err)
		}
		outside.Close()
		if info, err := os.Stat(dir + "/" + doorFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if _, err := StartServer(dir, Listen{}); err == nil {
			t.Error("two servers on one folder")
		}
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	users := dir + "/users"
	cert, key := selfSigned(t, dir)
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	write("users", "# who may connect\nuser worker 0123456789abcdef\n")
	for i, test := range []struct {
		desc string
		Listen
		err string // "": it starts
	}{
		{"loopback takes everybody", Listen{Addr: "127.0.0.1:0"}, ""},
		{"so does IPv6's", Listen{Addr: "[::1]:0"}, ""},
		{"loopback with credentials", Listen{Addr: "localhost:0", Credentials: users}, ""},
		{"all addresses need both", Listen{Addr: "0.0.0.0:0"}, "0.0.0.0:0 can be reached from other machines, and nobody has to show credentials, and what is sent can be read and changed (no TLS): whoever connects can change the campaign. Give credentials and TLS, or listen on 127.0.0.1"},
		{"an empty host is all addresses", Listen{Addr: ":0", Credentials: users}, ":0 can be reached from other machines, and what is sent can be read and changed (no TLS): whoever connects can change the campaign. Give credentials and TLS, or listen on 127.0.0.1"},
		{"TLS alone is not enough", Listen{Addr: "0.0.0.0:0", Cert: cert, Key: key}, "0.0.0.0:0 can be reached from other machines, and nobody has to show credentials: whoever connects can change the campaign. Give credentials and TLS, or listen on 127.0.0.1"},
		{"a name may stand for any address", Listen{Addr: "example.org:0"}, "example.org:0 can be reached from other machines, and nobody has to show credentials, and what is sent can be read and changed (no TLS): whoever connects can change the campaign. Give credentials and TLS, or listen on 127.0.0.1"},
		{"credentials and TLS", Listen{Addr: "127.0.0.1:0", Credentials: users, Cert: cert, Key: key}, ""},
		{"a password that can be guessed", Listen{Addr: "127.0.0.1:0", Credentials: write("short", "user a b\n")}, dir + "/short:1: want \"user NAME PASSWORD\", with a password of at least 16 letters, or \"nkey PUBLIC\""},
		{"a file of nobody", Listen{Addr: "127.0.0.1:0", Credentials: write("empty", "# nobody\n")}, dir + "/empty has no credentials"},
		{"no address", Listen{Addr: "4222"}, "4222 is no address: want HOST:PORT"},
		{"no port", Listen{Addr: "127.0.0.1:99999"}, "127.0.0.1:99999 is no address: the port is a number up to 65535"},
	} {
		t.Run(test.desc, func(t *testing.T) {
			srv, err := StartServer(fmt.Sprint(dir, "/state", i), test.Listen)
			if err == nil {
				defer srv.Close()
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.err, got); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if err != nil {
				return
			}
			// Ourselves and the door are let in; others with what they need.
			nc, err := srv.Connect()
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
			if nc, err = ConnectFolder(fmt.Sprint(dir, "/state", i)); err != nil {
				t.Fatal(err)
			}
			nc.Close()
			_, err = (&Remote{URLs: srv.URL()}).Connect()
			if open := err == nil; open != (test.Credentials == "" && test.Cert == "") {
				t.Errorf("without credentials: %v", err)
			}
			r := Remote{URLs: srv.URL(), User: "worker", Secret: "0123456789abcdef", CA: test.Cert}
			if test.Credentials != "" {
				if nc, err = r.Connect(); err != nil {
					t.Fatal(err)
				}
				nc.Close()
			}
		})
	}
}
