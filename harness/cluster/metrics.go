package cluster

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves what is known of a campaign to Prometheus.
func (s *Store) Metrics() http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{s})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 2 * callTimeout})
}

// collector asks the server whenever Prometheus asks us.
type collector struct{ *Store }

// The metrics. What only grows ends with _total.
var (
	campaignLabel = []string{"campaign"}
	jitLabels     = []string{"campaign", "jit"}
	workerLabels  = []string{"campaign", "worker"}

	metricUp       = metric("up", "1 while a coordinator has written a summary in the last minute.", campaignLabel)
	metricPrograms = metric("programs_total", "Programs of the ranges that are merged.", campaignLabel)
	metricPairs    = metric("pairs_total", "Comparisons of a JIT with the interpreter on one input.", campaignLabel)
	metricRanges   = metric("ranges_total", "Ranges that are merged.", campaignLabel)
	metricFindings = metric("findings", "Findings of different signatures.", campaignLabel)
	metricWaiting  = metric("findings_waiting", "Findings that are not as small as can be.", campaignLabel)
	metricPoisoned = metric("ranges_set_aside", "Ranges that no worker survived.", campaignLabel)
	metricJunk     = metric("junk_messages_total", "Messages that were none.", campaignLabel)
	metricCorpus   = metric("corpus_programs", "Programs of the working corpus.", campaignLabel)
	metricOpcodes  = metric("opcodes", "Opcodes and ancillary loads that some JIT has run.", campaignLabel)
	metricQueue    = metric("queue_messages", "Ranges and findings in the work queue.", campaignLabel)
	metricGiven    = metric("queue_given", "Of those, the ones that workers are busy with.", campaignLabel)
	metricRules    = metric("covered_rules", "Emission rules that were covered.", jitLabels)
	metricEdges    = metric("covered_edges", "Edges of native code that were covered.", jitLabels)
	metricDiverge  = metric("diverging_pairs_total", "Pairs that diverge.", jitLabels)
	metricAge      = metric("worker_age_seconds", "Time since a worker began.", workerLabels)
	metricSilent   = metric("worker_silent_seconds", "Time since a worker was last heard of.", workerLabels)
	metricRate     = metric("worker_programs_per_second", "Programs that a worker does lately.", workerLabels)
	metricSent     = metric("worker_messages_total", "Messages that a worker has sent.", workerLabels)
)

func metric(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("kjit_campaign_"+name, help, labels, nil)
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricUp, metricPrograms, metricPairs, metricRanges, metricFindings, metricWaiting, metricPoisoned, metricJunk, metricCorpus, metricOpcodes,
		metricQueue, metricGiven, metricRules, metricEdges, metricDiverge, metricAge, metricSilent, metricRate, metricSent,
	} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	st, err := c.Status(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(metricUp, err)
		return
	}
	st = st.Clean()
	s, now := &st.Summary, time.Now()
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{c.Campaign}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{c.Campaign}, labels...)...)
	}
	up := 0.0
	if now.Sub(s.Time) < time.Minute {
		up = 1
	}
	gauge(metricUp, up)
	count(metricPrograms, float64(s.Programs))
	count(metricPairs, float64(s.Pairs))
	count(metricRanges, float64(s.Ranges))
	gauge(metricFindings, float64(s.Findings))
	gauge(metricWaiting, float64(s.Waiting))
	gauge(metricPoisoned, float64(s.Poisoned))
	count(metricJunk, float64(s.Junk))
	gauge(metricCorpus, float64(s.Corpus))
	gauge(metricOpcodes, float64(s.Opcodes))
	gauge(metricQueue, float64(st.Queue))
	gauge(metricGiven, float64(st.Given))
	seen := map[string]bool{}
	for i := range s.Targets {
		t := &s.Targets[i]
		if seen[t.JIT] {
			continue
		}
		seen[t.JIT] = true
		gauge(metricRules, float64(t.Rules), t.JIT)
		gauge(metricEdges, float64(t.Edges), t.JIT)
		count(metricDiverge, float64(t.Diverge), t.JIT)
	}
	for i := range st.Workers {
		w := &st.Workers[i]
		gauge(metricAge, now.Sub(w.Began).Seconds(), w.ID)
		gauge(metricSilent, now.Sub(w.Seen).Seconds(), w.ID)
		gauge(metricRate, w.Rate, w.ID)
		count(metricSent, float64(w.Messages), w.ID)
	}
}
