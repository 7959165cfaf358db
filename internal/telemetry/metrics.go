package telemetry

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds all metrics of Berth. Their names begin with berth_, including the metrics of the process and the Go
// runtime. Labels never contain ids.
type Metrics struct {
	SandboxCreates      prometheus.Counter
	SandboxResumes      prometheus.Counter
	SessionReplacements prometheus.Counter
	HealthRetries       prometheus.Counter
	PromptRetries       prometheus.Counter
	Unsaved             prometheus.Gauge   // sandboxes with changes that are not saved
	UnsavedSeconds      prometheus.Gauge   // age of the oldest unsaved change in seconds
	LostChanges         prometheus.Counter // instances lost with unsaved changes
	VersionsPruned      prometheus.Counter // versions removed by retention policies
	BytesPruned         prometheus.Counter // deleted bytes of pruned versions
	SavesPending        prometheus.Gauge   // pending saves of turns, on all servers
	SavesOldest         prometheus.Gauge   // age of the oldest pending save in seconds

	ReconcilePasses  prometheus.Counter
	ReconcileErrors  prometheus.Counter
	ReconcileClaims  prometheus.Counter // due sandboxes claimed by a pass
	LeasesHeld       prometheus.Gauge
	EgressIn         prometheus.Counter
	EgressOut        prometheus.Counter
	EgressRestarts   prometheus.Counter // of the process that serves the ways out
	LeaseLosses      prometheus.Counter
	StaleCommits     prometheus.Counter     // writes refused by the fence
	SweepFindings    *prometheus.CounterVec // by kind and action
	RequestsInFlight prometheus.Gauge
	DiskFree         prometheus.Gauge // free bytes in the data directory's file system

	work           work
	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	driverCalls    *prometheus.CounterVec
	driverSeconds  *prometheus.HistogramVec
	hooks          *prometheus.CounterVec
	hookSeconds    *prometheus.HistogramVec
	routes         labelValues
	kinds          labelValues
	ops            labelValues
	outcomes       labelValues
	registry       *prometheus.Registry
}

// NewMetrics returns metrics with a separate registry, so that several servers in one process, as in tests, do not
// share metrics.
func NewMetrics(version string) *Metrics {
	registry := prometheus.NewRegistry()
	in := prometheus.WrapRegistererWithPrefix("berth_", registry)
	in.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	made := maker{in}
	made.gauges("build_info", "Always 1; the labels name the running version.", "version", "go_version").
		WithLabelValues(version, runtime.Version()).Set(1)
	m := &Metrics{registry: registry, routes: labelValues{most: 500}, kinds: labelValues{most: 20}, ops: labelValues{most: 50}, outcomes: labelValues{most: 20}}
	m.makeSandbox(made)
	m.makeEngine(made)
	m.makeCalls(made)
	m.work.make(made)
	return m
}

func (m *Metrics) makeSandbox(made maker) {
	m.SandboxCreates = made.counter("sandbox_creates_total", "Instances created.")
	m.SandboxResumes = made.counter("sandbox_resumes_total", "Stopped sandboxes started again.")
	m.SessionReplacements = made.counter("session_replacements_total", "Agent sessions replaced because the old one was gone.")
	m.HealthRetries = made.counter("health_retries_total", "Health checks repeated after a failure.")
	m.Unsaved = made.gauge("unsaved_sandboxes", "Sandboxes with changes that are not saved.")
	m.UnsavedSeconds = made.gauge("unsaved_oldest_seconds", "Age of the oldest change that is not saved; 0 when there is none.")
	m.LostChanges = made.counter("lost_changes_total", "Instances that were lost with changes that were not saved.")
	m.VersionsPruned = made.counter("versions_pruned_total", "Versions removed by retention policies.")
	m.BytesPruned = made.counter("versions_pruned_bytes_total", "Bytes deleted from the object store because no version needed them any more.")
	m.PromptRetries = made.counter("prompt_retries_total", "Prompts sent again after a recoverable failure.")
	m.SavesPending = made.gauge("saves_pending", "Turns whose workspace is not in the object store yet, on all servers.")
	m.SavesOldest = made.gauge("saves_oldest_seconds", "Age of the oldest turn whose workspace is not in the object store yet.")
}

func (m *Metrics) makeEngine(made maker) {
	m.ReconcilePasses = made.counter("reconcile_passes_total", "Scans for due sandboxes.")
	m.ReconcileErrors = made.counter("reconcile_errors_total", "Scans that ended with an error.")
	m.ReconcileClaims = made.counter("reconcile_claims_total", "Due sandboxes taken up by scans.")
	m.LeasesHeld = made.gauge("leases_held", "Leases this process holds.")
	m.EgressIn = made.counter("egress_received_bytes_total", "Bytes that sandboxes received from the outside.")
	m.EgressOut = made.counter("egress_sent_bytes_total", "Bytes that sandboxes sent to the outside.")
	m.EgressRestarts = made.counter("egress_restarts_total", "Times that the egress process failed and was started again.")
	m.LeaseLosses = made.counter("lease_losses_total", "Leases that ran out or were taken while work was under way.")
	m.SweepFindings = made.counters("sweep_findings_total", "What sweeps found that did not fit.", "kind", "action")
	m.StaleCommits = made.counter("stale_commits_total", "Writes refused because a newer lease holder exists.")
}

func (m *Metrics) makeCalls(made maker) {
	m.DiskFree = made.gauge("disk_free_bytes", "Bytes that can still be written to the file system of the data directory.")
	m.RequestsInFlight = made.gauge("http_requests_in_flight", "Requests being served.")
	m.requests = made.counters("http_requests_total", "Requests served.", "route", "method", "status")
	m.requestSeconds = made.histograms("http_request_duration_seconds", "Time to the end of the answer.", "route", "method")
	m.driverCalls = made.counters("driver_calls_total", "Calls of drivers.", "driver", "op", "outcome")
	m.driverSeconds = made.histograms("driver_call_duration_seconds", "Time driver calls took.", "driver", "op")
	m.hooks = made.counters("hook_runs_total", "Hooks that ran.", "phase", "outcome")
	m.hookSeconds = made.histograms("hook_duration_seconds", "Time hooks took.", "phase")
}

// ObserveRequest records one served request. route is the pattern that matched, never the path. It is empty if no
// pattern matched.
func (m *Metrics) ObserveRequest(route, method string, status int, took time.Duration) {
	if route == "" {
		route = "unmatched"
	}
	route, method = m.routes.keep(route), methodLabel(method)
	m.requests.WithLabelValues(route, method, statusLabel(status)).Inc()
	m.requestSeconds.WithLabelValues(route, method).Observe(took.Seconds())
}

// ObserveDriver records one call of a driver. kind is the kind of driver ("local", "docker"), op the operation, and
// outcome a result of driver.Classify.
func (m *Metrics) ObserveDriver(kind, op, outcome string, took time.Duration) {
	kind, op = m.kinds.keep(kind), m.ops.keep(op)
	m.driverCalls.WithLabelValues(kind, op, m.outcomes.keep(outcome)).Inc()
	m.driverSeconds.WithLabelValues(kind, op).Observe(took.Seconds())
}

// Handler serves the metrics in the format that the client requests.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func statusLabel(status int) string {
	if status < 100 || status > 599 {
		return "other"
	}
	return strconv.Itoa(status/100) + "xx"
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
