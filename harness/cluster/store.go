package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DefaultAckWait is how long a worker that has a range may be silent before the
// range is given to another. Workers say that they live three times as often.
const DefaultAckWait = 30 * time.Second

// MaxDeliveries is how many workers may begin a range that was given to another
// before, until it is set aside: whoever does it seems to die of it.
const MaxDeliveries = 5

// workerTTL is how long a silent worker is shown.
const workerTTL = 30 * time.Second

// Options are those of a campaign's streams, for who begins it.
type Options struct {
	Replicas int           // of every stream; 0: 3 in a cluster, 1 elsewhere
	AckWait  time.Duration // 0: DefaultAckWait
}

// ErrNoCampaign is a server without the campaign.
var ErrNoCampaign = errors.New("there is no such campaign")

// errExists is a subject that has its message already.
var errExists = errors.New("it is there already")

// Store is a campaign's streams. It serves many goroutines.
type Store struct {
	Names
	Spec Spec
	id   string // of Spec

	js       jetstream.JetStream
	state    jetstream.Stream
	work     jetstream.Stream
	results  jetstream.Stream
	blobs    jetstream.Stream
	findings jetstream.KeyValue
	workers  jetstream.KeyValue
	control  jetstream.KeyValue

	messages, bytes atomic.Uint64 // that were sent, but for what the client sends by itself
}

// Create begins a campaign, or opens it if it is there. Errors: a
// *MismatchError for a spec of another version, a *campaign.SettingsError for
// other settings.
func Create(ctx context.Context, nc *nats.Conn, name string, spec Spec, o Options) (*Store, error) {
	s := &Store{Names: Names{name}, Spec: spec, id: spec.ID()}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout)); err != nil {
		return nil, err
	}
	// What is there already is not changed, were it only by a default.
	has, err := Open(ctx, nc, name)
	switch {
	case err == nil:
		if err := has.Spec.same(&spec); err != nil {
			return nil, err
		}
		return has, nil
	case !errors.Is(err, ErrNoCampaign):
		return nil, err
	}
	if err := s.createStreams(ctx, nc, o); err != nil {
		return nil, err
	}
	body, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	err = s.put(ctx, s.config(), contentSpec, body, 0)
	if errors.Is(err, errExists) { // another began it at the same time
		has, err := Open(ctx, nc, name)
		if err != nil {
			return nil, err
		}
		return has, has.Spec.same(&spec)
	}
	return s, err
}

// same returns an error that names what of an existing campaign is not as wanted.
func (s *Spec) same(want *Spec) error {
	if err := s.Fits(want.Settings.Version); err != nil {
		return err
	}
	if err := s.Settings.Differs(&want.Settings); err != nil {
		return err
	}
	return s.fitsProbe(want.Probe)
}

// Open opens a campaign that somebody has begun, or returns ErrNoCampaign.
func Open(ctx context.Context, nc *nats.Conn, name string) (*Store, error) {
	s := &Store{Names: Names{name}}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout)); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context) error { return s.open(ctx) })
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("campaign %s: %w on this server", name, ErrNoCampaign)
	}
	if err != nil {
		return nil, err
	}
	body, _, err := s.get(ctx, s.state, s.config(), contentSpec)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("campaign %s: %w on this server", name, ErrNoCampaign)
	}
	if err != nil {
		return nil, fmt.Errorf("campaign %s: %w", name, err)
	}
	if s.Spec, err = parseSpec(body); err != nil {
		return nil, fmt.Errorf("campaign %s: %w", name, err)
	}
	s.id = s.Spec.ID()
	return s, nil
}

// parseSpec reads a spec, be it of another kjit, to say which.
func parseSpec(body []byte) (spec Spec, err error) {
	if err := json.Unmarshal(body, &spec); err != nil {
		return spec, badMessage{err}
	}
	return spec, spec.Validate()
}

func (s *Store) open(ctx context.Context) (err error) {
	for _, stream := range []struct {
		to   *jetstream.Stream
		name string
	}{{&s.state, stateStream}, {&s.work, workStream}, {&s.results, resultStream}, {&s.blobs, blobStream}} {
		if *stream.to, err = s.js.Stream(ctx, s.stream(stream.name)); err != nil {
			return err
		}
	}
	for _, bucket := range []struct {
		to   *jetstream.KeyValue
		name string
	}{{&s.findings, findingBucket}, {&s.workers, workerBucket}, {&s.control, controlBucket}} {
		if *bucket.to, err = s.js.KeyValue(ctx, s.stream(bucket.name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) createStreams(ctx context.Context, nc *nats.Conn, o Options) error {
	if o.AckWait == 0 {
		o.AckWait = DefaultAckWait
	}
	if o.Replicas == 0 {
		o.Replicas = 1
		if nc.ConnectedClusterName() != "" {
			o.Replicas = 3
		}
	}
	for began := time.Now(); ; pause(ctx, 10*tick) {
		err := s.retry(ctx, func(ctx context.Context) error { return s.create(ctx, o) })
		if err == nil || ctx.Err() != nil {
			return err
		}
		api, _ := apiError(err)
		lonely := o.Replicas > 1 && api.ErrorCode == errNoPeers
		// What another begins at the same moment is taken before it is there.
		half := errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
		switch late := time.Since(began) > peersWait; {
		case lonely && late:
			return fmt.Errorf("%d replicas: %w: a cluster of fewer nodes takes --replicas 1", o.Replicas, err)
		case !lonely && !half, late:
			return err
		}
	}
}

// peersWait is how long the nodes of a cluster may take to know each other.
const peersWait = 20 * time.Second

// create makes what is not there. One message a subject, and no second one: that
// is what makes a result count once.
func (s *Store) create(ctx context.Context, o Options) error {
	streams := []jetstream.StreamConfig{
		{Name: s.stream(stateStream), Subjects: []string{s.config(), s.subject("epoch", "*")}, MaxMsgs: 10_000},
		{Name: s.stream(workStream), Subjects: []string{s.subject("work", ">")}, Retention: jetstream.WorkQueuePolicy, MaxMsgs: 100_000},
		{Name: s.stream(resultStream), Subjects: []string{s.subject("result", ">")}, MaxMsgs: 100_000},
		{Name: s.stream(blobStream), Subjects: []string{s.subject("blob", ">")}, MaxMsgs: 100_000},
	}
	for _, c := range streams {
		c.MaxMsgsPerSubject, c.Discard, c.DiscardNewPerSubject = 1, jetstream.DiscardNew, true
		c.MaxMsgSize, c.Replicas, c.Storage = maxMessage, o.Replicas, jetstream.FileStorage
		if _, err := s.js.CreateStream(ctx, c); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
	}
	buckets := []jetstream.KeyValueConfig{
		{Bucket: s.stream(findingBucket), MaxValueSize: maxMessage},
		{Bucket: s.stream(workerBucket), MaxValueSize: maxSmall, TTL: workerTTL},
		{Bucket: s.stream(controlBucket), MaxValueSize: maxSmall},
	}
	for _, c := range buckets {
		c.Replicas = o.Replicas
		if _, err := s.js.CreateKeyValue(ctx, c); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return err
		}
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	_, err := s.work.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: workConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.AckWait,
		MaxDeliver: -1, // workers count: see MaxDeliveries
	})
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	return err
}

// Delete takes the campaign off the server.
func (s *Store) Delete(ctx context.Context) error {
	var errs []error
	for _, name := range []string{stateStream, workStream, resultStream, blobStream} {
		errs = append(errs, s.js.DeleteStream(ctx, s.stream(name)))
	}
	for _, name := range []string{findingBucket, workerBucket, controlBucket} {
		errs = append(errs, s.js.DeleteKeyValue(ctx, s.stream(name)))
	}
	return errors.Join(errs...)
}

// Error codes of the server that the client has no names for.
const (
	errNoPeers      jetstream.ErrorCode = 10005 // no suitable peers for placement
	errNotLeader    jetstream.ErrorCode = 10009
	errNoSequence   jetstream.ErrorCode = 10043
	errDeleteFailed jetstream.ErrorCode = 10057 // the message is not there
	errStoreFailed  jetstream.ErrorCode = 10077 // among others: one message too many on a subject
)

// isTaken reports whether a subject has a message already.
func isTaken(err error) bool {
	api, _ := apiError(err)
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return true
	case errStoreFailed:
		return api.Description == "maximum messages per subject exceeded"
	}
	return false
}

// publish publishes a message on a subject that has none, or returns errExists.
func (s *Store) publish(ctx context.Context, subject string, data []byte) error {
	err := s.retry(ctx, func(ctx context.Context) error {
		s.messages.Add(1)
		s.bytes.Add(uint64(len(data)))
		_, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithRetryAttempts(0))
		return err
	})
	if isTaken(err) {
		return errExists
	}
	return err
}

// put writes a body under a subject that has none, or returns errExists. Its
// parts, if it is long, are written before, with the epoch that they go with.
func (s *Store) put(ctx context.Context, subject string, what content, body []byte, epoch uint64) error {
	message, parts, f := makeFrame(what, s.id, body)
	if len(parts) > maxParts {
		return fmt.Errorf("%s: %d bytes are too many", subject, len(body))
	}
	for i, part := range parts {
		if err := s.putPart(ctx, s.blob(epoch, f.Sum, i), part); err != nil {
			return err
		}
	}
	return s.publish(ctx, subject, message)
}

// putPart writes a part. One that is there is the same, or junk.
func (s *Store) putPart(ctx context.Context, subject string, part []byte) error {
	for {
		err := s.publish(ctx, subject, part)
		if !errors.Is(err, errExists) {
			return err
		}
		m, err := s.last(ctx, s.blobs, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue
		case err != nil:
			return err
		case slices.Equal(m.Data, part):
			return nil
		}
		if err := s.delete(ctx, s.blobs, m.Sequence); err != nil {
			return err
		}
	}
}

// last returns the message of a subject, or jetstream.ErrMsgNotFound.
func (s *Store) last(ctx context.Context, in jetstream.Stream, subject string) (m *jetstream.RawStreamMsg, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		s.messages.Add(1)
		m, err = in.GetLastMsgForSubject(ctx, subject)
		return err
	})
	return m, err
}

// delete deletes a message. One that is gone is as good.
func (s *Store) delete(ctx context.Context, in jetstream.Stream, seq uint64) error {
	err := s.retry(ctx, func(ctx context.Context) error { return in.DeleteMsg(ctx, seq) })
	if api, ok := apiError(err); ok && slices.Contains([]jetstream.ErrorCode{jetstream.JSErrCodeMessageNotFound, errDeleteFailed, errNoSequence}, api.ErrorCode) {
		return nil
	}
	return err
}

// get returns the body of a subject, and the sequence of its message.
func (s *Store) get(ctx context.Context, in jetstream.Stream, subject string, what content) ([]byte, uint64, error) {
	m, err := s.last(ctx, in, subject)
	if err != nil {
		return nil, 0, err
	}
	body, err := s.body(ctx, subject, m.Data, what)
	return body, m.Sequence, err
}

// body returns what is in a message, with its parts.
func (s *Store) body(ctx context.Context, subject string, message []byte, what content) ([]byte, error) {
	f, packed, err := parseFrame(message, what, s.id)
	if err != nil {
		return nil, err
	}
	if f.Parts > 0 {
		epoch, ok := s.parseEpoch(subject)
		if e, _, isResult := s.parseResult(subject); isResult {
			epoch, ok = e, true
		}
		if !ok {
			return nil, bad("%s cannot have parts", subject)
		}
		for i := range f.Parts {
			m, err := s.last(ctx, s.blobs, s.blob(epoch, f.Sum, i))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil, bad("part %d of %s is missing", i, subject)
			}
			if err != nil {
				return nil, err
			}
			packed = append(packed, m.Data...)
			if int64(len(packed)) > f.Size+f.Size/64+maxHead { // packing never adds more
				return nil, bad("%s is longer than it says", subject)
			}
		}
	}
	return f.body(packed)
}
