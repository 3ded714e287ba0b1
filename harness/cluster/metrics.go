package cluster

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves what is known of a campaign to Prometheus.
func (s *Store) Metrics() http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(s))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 2 * callTimeout})
}

// metric is a number of a T.
type metric[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*T) float64
}

// newMetric names a metric. What only grows ends with _total.
func newMetric[T any](name, help string, of func(*T) float64, labels ...string) metric[T] {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return metric[T]{prometheus.NewDesc("kjit_campaign_"+name, help, append([]string{"campaign"}, labels...), nil), kind, of}
}

func (m *metric[T]) collect(to chan<- prometheus.Metric, t *T, labels ...string) {
	to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(t), labels...)
}

// collector asks the server whenever Prometheus asks us.
type collector struct {
	*Store
	whole   []metric[Status]
	jits    []metric[TargetSummary]
	workers []metric[Heartbeat]
}

// newCollector makes the metrics here and not in variables of the package: few
// commands need them.
func newCollector(s *Store) *collector {
	whole, jit, worker := newMetric[Status], newMetric[TargetSummary], newMetric[Heartbeat]
	return &collector{Store: s, whole: []metric[Status]{
		whole("up", "1 while a coordinator has written a summary in the last minute.", func(st *Status) float64 {
			if time.Since(st.Summary.Time) < time.Minute {
				return 1
			}
			return 0
		}),
		whole("programs_total", "Programs of the ranges that are merged.", func(st *Status) float64 { return float64(st.Summary.Programs) }),
		whole("pairs_total", "Comparisons of a JIT with the interpreter on one input.", func(st *Status) float64 { return float64(st.Summary.Pairs) }),
		whole("ranges_total", "Ranges that are merged.", func(st *Status) float64 { return float64(st.Summary.Ranges) }),
		whole("findings", "Findings of different signatures.", func(st *Status) float64 { return float64(st.Summary.Findings) }),
		whole("findings_waiting", "Findings that are not as small as can be.", func(st *Status) float64 { return float64(st.Summary.Waiting) }),
		whole("ranges_set_aside", "Ranges that no worker survived.", func(st *Status) float64 { return float64(st.Summary.Poisoned) }),
		whole("junk_messages_total", "Messages that were none.", func(st *Status) float64 { return float64(st.Summary.Junk) }),
		whole("corpus_programs", "Programs of the working corpus.", func(st *Status) float64 { return float64(st.Summary.Corpus) }),
		whole("opcodes", "Opcodes and ancillary loads that some JIT has run.", func(st *Status) float64 { return float64(st.Summary.Opcodes) }),
		whole("queue_messages", "Ranges and findings in the work queue.", func(st *Status) float64 { return float64(st.Queue) }),
		whole("queue_given", "Of those, the ones that workers are busy with.", func(st *Status) float64 { return float64(st.Given) }),
	}, jits: []metric[TargetSummary]{
		jit("covered_rules", "Emission rules that were covered.", func(t *TargetSummary) float64 { return float64(t.Rules) }, "jit"),
		jit("covered_edges", "Edges of native code that were covered.", func(t *TargetSummary) float64 { return float64(t.Edges) }, "jit"),
		jit("diverging_pairs_total", "Pairs that diverge.", func(t *TargetSummary) float64 { return float64(t.Diverge) }, "jit"),
	}, workers: []metric[Heartbeat]{
		worker("worker_age_seconds", "Time since a worker began.", func(w *Heartbeat) float64 { return time.Since(w.Began).Seconds() }, "worker"),
		worker("worker_silent_seconds", "Time since a worker was last heard of.", func(w *Heartbeat) float64 { return time.Since(w.Seen).Seconds() }, "worker"),
		worker("worker_programs_per_second", "Programs that a worker does lately.", func(w *Heartbeat) float64 { return w.Rate }, "worker"),
		worker("worker_messages_total", "Messages that a worker has sent.", func(w *Heartbeat) float64 { return float64(w.Messages) }, "worker"),
	}}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for i := range c.whole {
		to <- c.whole[i].desc
	}
	for i := range c.jits {
		to <- c.jits[i].desc
	}
	for i := range c.workers {
		to <- c.workers[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	st, err := c.Status(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.whole[0].desc, err)
		return
	}
	st = st.Clean()
	for i := range c.whole {
		c.whole[i].collect(to, st, c.Campaign)
	}
	seen := map[string]bool{}
	for i := range st.Summary.Targets {
		t := &st.Summary.Targets[i]
		if seen[t.JIT] {
			continue
		}
		seen[t.JIT] = true
		for i := range c.jits {
			c.jits[i].collect(to, t, c.Campaign, t.JIT)
		}
	}
	for i := range st.Workers {
		w := &st.Workers[i]
		for i := range c.workers {
			c.workers[i].collect(to, w, c.Campaign, w.ID)
		}
	}
}
