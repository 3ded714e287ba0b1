package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// callTimeout bounds one request to the server.
const callTimeout = 5 * time.Second

// How long calls wait for a server that does not answer: most where nobody said
// otherwise, which a cluster takes to choose leaders, and until that is told.
const (
	answerWait  = 10 * time.Second
	noticeAfter = 2 * time.Second
)

// Patience is how long calls wait for a server that is away, or without what the
// campaign needs, and who is told. It serves many goroutines.
type Patience struct {
	Most time.Duration // 0: until it is there

	// Log, if not nil, is told once that the server is away, and once that it is
	// back.
	Log func(format string, args ...any)

	mu      sync.Mutex
	waiting int // calls, after noticeAfter
	since   time.Time
}

type patienceKey struct{}

// With returns a context for calls that have that patience. Those of another
// context wait ten seconds, but for [Coordinator.Run] and [Worker.Run], which wait
// until the server is there.
func (p *Patience) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// Waiting reports whether calls wait for a server now, of which Log was told.
func (p *Patience) Waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting > 0
}

// begin counts a call that waits.
func (p *Patience) begin(since time.Time, why *SilentError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting++; p.waiting > 1 {
		return
	}
	p.since = since
	at := since.Format(time.TimeOnly)
	if why.Away {
		p.Log("the server is away since %s: waiting for it", at)
	} else {
		p.Log("the server does not answer since %s: %s: waiting for it", at, why.Why)
	}
}

// end is the end of begin.
func (p *Patience) end(answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 && answered {
		p.Log("the server is back after %s", time.Since(p.since).Round(time.Second))
	}
}

// patiently returns a context whose calls wait until the server is there, unless
// it has its own patience.
func patiently(ctx context.Context, log func(string, ...any)) context.Context {
	if _, ok := ctx.Value(patienceKey{}).(*Patience); ok {
		return ctx
	}
	return (&Patience{Log: log}).With(ctx)
}

// SilentError is a server that gave no answer.
type SilentError struct {
	Why  string // what it lacks
	Away bool   // there is no connection
	Err  error  // of the last call
}

func (e *SilentError) Error() string { return fmt.Sprintf("%s (%v)", e.Why, e.Err) }

func (e *SilentError) Unwrap() error { return e.Err }

// silence finds out why a server does not answer.
func (s *Store) silence(ctx context.Context, err error) *SilentError {
	nc := s.js.Conn()
	e := &SilentError{Err: err}
	if e.Away = !nc.IsConnected(); e.Away {
		e.Why = "the server is away"
		return e
	}
	if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		e.Why, e.Err = "the server does not let this user do what a campaign needs", last
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, noticeAfter)
	defer cancel()
	_, asked := s.js.AccountInfo(ctx)
	alone := nc.ConnectedClusterName() == ""
	switch {
	case errors.Is(asked, jetstream.ErrJetStreamNotEnabledForAccount):
		e.Why = "this user's account has no JetStream"
	case errors.Is(asked, jetstream.ErrJetStreamNotEnabled):
		e.Why = "this server has no JetStream: it has to be started with it (nats-server --jetstream)"
	case alone && asked == nil:
		e.Why = "no answer from the campaign's streams"
	case alone:
		e.Why = "no answer from the server's JetStream"
	case asked == nil:
		e.Why = "no answer from the campaign's streams: too few of the nodes that have them are there (no quorum)"
	default:
		e.Why = "no answer from JetStream: too few nodes of the cluster are there (no quorum)"
	}
	return e
}

// retry calls a server that may be away or without a leader just now, as often as
// ctx's patience lets it. The error is a *SilentError if that was not enough.
func (s *Store) retry(ctx context.Context, call func(context.Context) error) (err error) {
	p, ok := ctx.Value(patienceKey{}).(*Patience)
	if !ok {
		p = &Patience{Most: answerWait}
	}
	began, told := time.Now(), false
	defer func() {
		var silent *SilentError
		if told {
			p.end(ctx.Err() == nil && !errors.As(err, &silent))
		}
	}()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		limit := callTimeout
		if p.Most > 0 {
			limit = min(limit, p.Most-time.Since(began))
		}
		callCtx, cancel := context.WithTimeout(ctx, limit)
		err := call(callCtx)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if isWithoutJetStream(err) {
			return s.silence(ctx, err)
		}
		if !isTransient(err) {
			return err
		}
		waited := time.Since(began)
		if p.Most > 0 && waited+wait >= p.Most {
			return s.silence(ctx, err)
		}
		if !told && waited >= noticeAfter && p.Log != nil {
			told = true
			p.begin(began, s.silence(ctx, err))
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// apiError returns what a server says is wrong. The client has two types for it,
// of which the older comes from watching buckets.
func apiError(err error) (api jetstream.APIError, ok bool) {
	var (
		now *jetstream.APIError
		old *nats.APIError
	)
	switch {
	case errors.As(err, &now) && now != nil:
		return *now, true
	case errors.As(err, &old) && old != nil:
		return jetstream.APIError{Code: old.Code, ErrorCode: jetstream.ErrorCode(old.ErrorCode), Description: old.Description}, true
	}
	return api, false
}

// isWithoutJetStream reports whether a server says that it has none for us.
func isWithoutJetStream(err error) bool {
	api, ok := apiError(err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabled || api.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount)
}

// isTransient reports whether the same call may go well later.
func isTransient(err error) bool {
	for _, e := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		jetstream.ErrNoStreamResponse, nats.ErrNoStreamResponse, nats.ErrNoServers,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	api, ok := apiError(err)
	if !ok || isTaken(err) || isWithoutJetStream(err) {
		return false
	}
	return api.ErrorCode == errNotLeader || api.Code == 503 || api.Code == 408
}
