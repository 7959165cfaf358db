package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// work holds the metrics of turns and syncs.
type work struct {
	turnsStarted  prometheus.Counter
	turnsFinished *prometheus.CounterVec // by status
	turnsRunning  prometheus.Gauge
	turnSeconds   *prometheus.HistogramVec // by status
	tokens        *prometheus.CounterVec   // by kind
	cost          prometheus.Counter
	syncs         *prometheus.CounterVec   // by op and outcome
	syncSeconds   *prometheus.HistogramVec // by op
	syncBytes     *prometheus.CounterVec   // by op
	statuses      labelValues
}

func (w *work) make(made maker) {
	w.statuses.most = 20
	w.turnsStarted = made.counter("turns_started_total", "Prompts accepted by this server.")
	w.turnsFinished = made.counters("turns_finished_total", "Turns whose agent ended, by how.", "status")
	w.turnsRunning = made.gauge("turns_running", "Turns that this server is running.")
	w.turnSeconds = made.histograms("turn_duration_seconds", "Time from a prompt to the end of its agent.", "status")
	w.tokens = made.counters("tokens_total", "Tokens that turns used.", "kind")
	w.cost = made.counter("cost_usd_total", "What turns cost, in US dollars.")
	w.syncs = made.counters("sync_runs_total", "Workspaces pushed to the object store or pulled from it.", "op", "outcome")
	w.syncSeconds = made.histograms("sync_duration_seconds", "Time that pushes and pulls took.", "op")
	w.syncBytes = made.counters("sync_bytes_total", "Bytes that pushes and pulls transferred.", "op")
	for _, kind := range []string{"input", "output", "cache_read", "cache_write"} {
		w.tokens.WithLabelValues(kind)
	}
	for _, op := range []string{"push", "pull"} {
		w.syncs.WithLabelValues(op, "ok")
		w.syncs.WithLabelValues(op, "error")
		w.syncBytes.WithLabelValues(op)
	}
	for _, status := range []string{"completed", "failed", "cancelled", "interrupted"} {
		w.turnsFinished.WithLabelValues(w.statuses.keep(status))
	}
}

// TurnStarted records an accepted prompt.
func (m *Metrics) TurnStarted() { m.work.turnsStarted.Inc() }

// TurnRuns records a turn that this process runs. The turn ends when done is called.
func (m *Metrics) TurnRuns() (done func()) {
	m.work.turnsRunning.Inc()
	return m.work.turnsRunning.Dec
}

// Turn describes a turn after its agent ended.
type Turn struct {
	Status                               string
	Took                                 time.Duration
	Input, Output, CacheRead, CacheWrite int64
	CostUSD                              float64
}

// ObserveTurn records the end of a turn's agent. It must be called once per turn.
func (m *Metrics) ObserveTurn(t Turn) {
	status := m.work.statuses.keep(t.Status)
	m.work.turnsFinished.WithLabelValues(status).Inc()
	m.work.turnSeconds.WithLabelValues(status).Observe(t.Took.Seconds())
	for kind, n := range map[string]int64{"input": t.Input, "output": t.Output, "cache_read": t.CacheRead, "cache_write": t.CacheWrite} {
		m.work.tokens.WithLabelValues(kind).Add(float64(max(n, 0)))
	}
	m.work.cost.Add(max(t.CostUSD, 0))
}

// ObserveSync records one push or pull of a workspace.
func (m *Metrics) ObserveSync(op string, took time.Duration, bytes int64, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.work.syncs.WithLabelValues(op, outcome).Inc()
	m.work.syncSeconds.WithLabelValues(op).Observe(took.Seconds())
	m.work.syncBytes.WithLabelValues(op).Add(float64(max(bytes, 0)))
}

// ObserveHook records one run of a hook. outcome is "ok" or "error".
func (m *Metrics) ObserveHook(phase, outcome string, took time.Duration) {
	m.hooks.WithLabelValues(phase, outcome).Inc()
	m.hookSeconds.WithLabelValues(phase).Observe(took.Seconds())
}
