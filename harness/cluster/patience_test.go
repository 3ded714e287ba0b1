package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// lines keeps what people are told.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) log(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, fmt.Sprintf(format, args...))
}

func (l *lines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// A server without JetStream is named, to who has patience and who has none.
func TestWithoutJetStream(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Shutdown()
	nc, err := (&Remote{URLs: srv.ClientURL()}).Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const want = "this server has no JetStream: it has to be started with it (nats-server --jetstream)"
	short := (&Patience{Most: time.Second}).With(t.Context())
	var silent *SilentError
	if _, err := Open(short, nc, DefaultName); !errors.As(err, &silent) || silent.Why != want || silent.Away {
		t.Errorf("Open: %v", err)
	}
	if _, err := Create(short, nc, DefaultName, Spec{}, Options{}); !errors.As(err, &silent) || silent.Why != want {
		t.Errorf("Create: %v", err)
	}
	var said lines
	ctx, cancel := context.WithTimeout((&Patience{Log: said.log}).With(t.Context()), noticeAfter+3*time.Second)
	defer cancel()
	if _, err := Open(ctx, nc, DefaultName); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with patience: %v", err)
	}
	if said.count(want) != 1 || said.count("") != 1 {
		t.Errorf("with patience: %q", said.text)
	}
}

// The client has two types for the same error of a server.
func TestTransient(t *testing.T) {
	for _, test := range []struct {
		desc string
		err  error
		want bool
	}{
		{"no leader, from a stream", &jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}, true},
		{"no leader, from watching a bucket", &nats.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}, true},
		{"not the leader, wrapped", fmt.Errorf("x: %w", &nats.APIError{Code: 500, ErrorCode: 10009}), true},
		{"a call that took too long", context.DeadlineExceeded, true},
		{"a subject that is taken", &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages per subject exceeded"}, false},
		{"no JetStream, as the older client says", nats.ErrJetStreamNotEnabledForAccount, false},
		{"no stream", jetstream.ErrStreamNotFound, false},
		{"bad input", errors.New("x"), false},
	} {
		if got := isTransient(test.err); got != test.want {
			t.Errorf("%s: %v", test.desc, got)
		}
	}
}

// Several that begin one campaign at the same moment all have it.
func TestCreateTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of three servers: ten seconds")
	}
	cfg := small(t, 1)
	spec := specOf(t, cfg)
	c := startNodes(t)
	conns := []*nats.Conn{c.connect(), c.connect(), c.connect()}
	for i := range 4 {
		var all sync.WaitGroup
		for n, nc := range conns {
			all.Go(func() {
				s, err := Create(t.Context(), nc, fmt.Sprint("c", i), spec, Options{})
				if err == nil {
					_, err = s.Status(t.Context())
				}
				if err != nil {
					t.Errorf("campaign %d, process %d: %v", i, n, err)
				}
			})
		}
		all.Wait()
	}
}

// While a cluster has no quorum one look at a campaign says so, or shows what the
// node that is left knows, but a change says so; and those who do the campaign
// wait, say so once, and come to the same.
func TestNoQuorum(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of three servers, and kills two: half a minute")
	}
	cfg := small(t, seed(t, 1))
	expect := want(t, cfg, testRanges)
	c := startNodes(t)
	nc := c.connect()
	store := begin(t, nc, cfg, testRanges, 2*time.Second)
	c.kill(1)
	c.kill(2)
	short := (&Patience{Most: 3 * time.Second}).With(t.Context())
	for what, call := range map[string]func() error{
		"open":     func() error { _, err := Open(short, nc, DefaultName); return err },
		"status":   func() error { _, err := store.Status(short); return err },
		"findings": func() error { _, err := store.Load(short); return err },
		"stop":     func() error { return store.SetControl(short, func(*Control) error { return nil }) },
	} {
		began := time.Now()
		err := call()
		if err == nil && what != "stop" && time.Since(began) < 8*time.Second {
			continue // the node that is left may answer from what it has
		}
		var silent *SilentError
		if !errors.As(err, &silent) || !strings.Contains(silent.Why, "no quorum") && !silent.Away || time.Since(began) > 8*time.Second {
			t.Errorf("%s: after %v: %v", what, time.Since(began), err)
		}
	}
	var said lines
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	state := make(chan *campaign.State, 1)
	go func() {
		co, err := NewCoordinator(store, cfg)
		if err != nil {
			t.Error(err)
		}
		co.Log = said.log
		co.Told = Control{Running, testRanges}
		got, err := co.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		state <- got
	}()
	time.Sleep(10 * time.Second)
	c.start(1)
	c.start(2)
	wait := startWorker(t, (&Patience{}).With(ctx), nc, cfg, 1)
	got := <-state
	wait()
	if ctx.Err() != nil {
		t.Fatalf("it did not go on: %q", said.text)
	}
	if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
		t.Errorf("another answer (-one process +after the loss of quorum):\n%s", diff)
	}
	if away, back := said.count("since "), said.count("the server is back after "); away < 1 || away > 3 || back != away {
		t.Errorf("%q", said.text)
	}
}
