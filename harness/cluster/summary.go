package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Summary is how far a campaign is, as its coordinator last said.
type Summary struct {
	Time     time.Time       `json:"time"`
	Mode     Mode            `json:"mode"`
	Epoch    uint64          `json:"epoch"`
	Ranges   uint64          `json:"ranges"`           // merged
	Ahead    uint64          `json:"ahead"`            // done, and waiting for earlier ones
	Bound    uint64          `json:"bound,omitempty"`  // of Ranges; 0: none
	Programs uint64          `json:"programs"`         // these are of the merged ranges
	Pairs    uint64          `json:"pairs"`            //
	Insns    uint64          `json:"instructions"`     //
	Same     float64         `json:"same_value"`       // part of the runs that ended with the commonest value
	Rate     float64         `json:"per_second"`       // programs, lately
	Opcodes  int             `json:"opcodes"`          // and ancillary loads that were run
	All      int             `json:"all_opcodes"`      // that are made often
	Targets  []TargetSummary `json:"targets"`          //
	Corpus   int             `json:"corpus"`           // programs
	Findings int             `json:"findings"`         //
	Waiting  int             `json:"waiting"`          // findings that are not as small as can be
	More     uint64          `json:"more_findings"`    // of signatures beyond those that are kept
	Poisoned int             `json:"poisoned"`         // ranges that were set aside
	Junk     uint64          `json:"junk"`             // messages that were none
	Stays    bool            `json:"stays,omitempty"`  // the coordinator, when the campaign has ended
	Newest   time.Time       `json:"newest,omitzero"`  // when something new was last covered
	History  []Point         `json:"history,omitzero"` //
}

// TargetSummary is that of one JIT.
type TargetSummary struct {
	JIT       string `json:"jit"`
	Agree     uint64 `json:"agree"`
	Diverge   uint64 `json:"diverge"`
	Undefined uint64 `json:"undefined"`
	NotRun    uint64 `json:"not_run"`
	Rules     int    `json:"rules"`
	Edges     int    `json:"edges"`
}

// Point is one of the history.
type Point struct {
	Time     time.Time `json:"time"`
	Programs uint64    `json:"programs"`
	Covered  int       `json:"covered"` // rules and edges of all JITs
	Findings int       `json:"findings"`
}

// Validate returns what is wrong with a summary. One without a time is none.
func (s *Summary) Validate() error {
	if s.Time.IsZero() {
		return bad("no summary")
	}
	if len(s.Targets) > campaign.MaxTargets || len(s.History) > maxHistory {
		return bad("no summary")
	}
	for i := range s.Targets {
		if len(s.Targets[i].JIT) > maxName {
			return bad("no summary")
		}
	}
	return nil
}

func parseSummary(data []byte) (s Summary, err error) {
	if err := decode(data, maxSmall, &s); err != nil {
		return s, err
	}
	return s, s.Validate()
}

// summary returns what a coordinator wrote last. The error is a badMessage, and the
// summary the zero value, if there is none, or junk.
func (s *Store) summary(ctx context.Context) (Summary, error) {
	e, err := s.value(ctx, s.control, summaryKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Summary{}, badMessage{err}
	}
	if err != nil {
		return Summary{}, err
	}
	sum, err := parseSummary(e.Value())
	if err != nil {
		return Summary{}, err
	}
	names := make([]string, len(sum.Targets))
	for i := range sum.Targets {
		names[i] = sum.Targets[i].JIT
	}
	if !slices.Equal(names, s.Spec.Settings.JITs) {
		return Summary{}, bad("a summary of other JITs")
	}
	return sum, nil
}

// summarize makes a summary of a state.
func summarize(state *campaign.State, jits []string) Summary {
	s := Summary{
		Epoch: state.Frozen().Epoch, Ranges: state.Ranges, Programs: state.Programs, Pairs: state.Pairs, Insns: state.Insns, Same: state.Same(),
		Corpus: len(state.Corpus()), Findings: len(state.Findings()), More: state.More,
	}
	for i, jit := range jits {
		_, rules, edges := state.Coverage(i)
		n := state.Targets[i]
		s.Targets = append(s.Targets, TargetSummary{jit, n.Agree, n.Diverge, n.Undefined, n.NotRun, rules, edges})
	}
	return s
}

// rebuild makes a summary of what is in the streams, for want of a coordinator's.
// It has no time; and no number of opcodes that are made often, if a JIT would have
// to be started to know.
func (s *Store) rebuild(ctx context.Context) (Summary, error) {
	state, err := s.Load(ctx)
	if err != nil || state.Ranges == 0 {
		return Summary{}, err
	}
	sum := summarize(state, s.Spec.Settings.JITs)
	sum.Opcodes = len(state.Opcodes)
	if cfg, err := campaign.NewConfig(s.Spec.Settings); err == nil {
		sum.Opcodes, sum.All = cfg.Opcodes(&state.Totals)
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return Summary{}, err
	}
	for _, f := range state.Findings() {
		if e := entries[keyOf(f.Signature())]; e == nil || !e.Final {
			sum.Waiting++
		}
	}
	poisons, err := s.Poisons(ctx)
	sum.Poisoned = len(poisons)
	return sum, err
}

// meter tells a rate from numbers that grow in steps.
type meter struct {
	points []Point // of the last rateOver
}

const rateOver = 20 * time.Second

func (m *meter) rate(now time.Time, n uint64) float64 {
	m.points = append(m.points, Point{Time: now, Programs: n})
	for len(m.points) > 2 && now.Sub(m.points[0].Time) > rateOver {
		m.points = m.points[1:]
	}
	first := m.points[0]
	if s := now.Sub(first.Time).Seconds(); s > 0 && n > first.Programs {
		return float64(n-first.Programs) / s
	}
	return 0
}

// show writes the summary. That it cannot be written now does no harm.
func (c *Coordinator) show(ctx context.Context) {
	now := time.Now().UTC()
	c.shown = now
	s := summarize(c.state, c.cfg.JITs)
	s.Time, s.Mode, s.Ahead, s.Bound = now, c.told.Mode, uint64(len(c.done)), c.told.Ranges
	s.Rate, s.Waiting, s.Poisoned = c.rate.rate(now, c.state.Programs), c.Waiting(), len(c.poisons)
	s.Junk, s.Newest, s.Stays = c.junk, c.newest, c.Stay
	s.Opcodes, s.All = c.cfg.Opcodes(&c.state.Totals)
	p := Point{Time: now, Programs: s.Programs, Findings: s.Findings}
	for i := range s.Targets {
		p.Covered += s.Targets[i].Rules + s.Targets[i].Edges
	}
	c.history = addPoint(c.history, p)
	s.History = c.history
	err := c.write(ctx, c.Store.control, summaryKey, s)
	if err != nil && ctx.Err() == nil && !isTransient(err) {
		c.Log("the summary cannot be written: %v", err)
	}
}

// addPoint adds a point where something changed. When there are too many every
// second one goes.
func addPoint(history []Point, p Point) []Point {
	if n := len(history); n > 0 && history[n-1].Programs == p.Programs && history[n-1].Findings == p.Findings {
		return history
	}
	history = append(history, p)
	if len(history) <= maxHistory {
		return history
	}
	thin := history[:0]
	for i := range history {
		if i%2 == 0 || i == len(history)-1 {
			thin = append(thin, history[i])
		}
	}
	return thin
}

// Status is all there is to know of a campaign without its findings.
type Status struct {
	Control Control
	Summary Summary // without a time: no coordinator's is there
	Queue   uint64  // ranges, and findings to be made smaller, that are not done
	Given   int     // of those, what workers are busy with
	Workers []Heartbeat
	Refused map[string]error // workers that are of another campaign, or junk
}

// Status asks the server.
func (s *Store) Status(ctx context.Context) (*Status, error) {
	st := new(Status)
	var err error
	if st.Control, err = s.Control(ctx); err != nil && !isBad(err) {
		return nil, err
	}
	if st.Summary, err = s.summary(ctx); isBad(err) {
		st.Summary, err = s.rebuild(ctx)
		st.Summary.Mode, st.Summary.Bound = st.Control.Mode, st.Control.Ranges
	}
	if err != nil {
		return nil, err
	}
	if st.Workers, st.Refused, err = s.Workers(ctx); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		info, err := s.work.Info(ctx)
		if err != nil {
			return err
		}
		st.Queue = info.State.Msgs
		consumer, err := s.work.Consumer(ctx, workConsumer)
		if err != nil {
			return err
		}
		st.Given = consumer.CachedInfo().NumAckPending
		return nil
	})
	return st, err
}
