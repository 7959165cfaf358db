package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Snapshot holds numbers from the database about all servers.
type Snapshot struct {
	Sandboxes map[string]int64 // number by state, without deleted sandboxes
	Outbox    map[string]Lag   // undelivered messages by kind
}

// Lag describes the undelivered messages of one kind.
type Lag struct {
	Messages int64
	Oldest   time.Duration // waiting time of the oldest message
}

// Limits for reading a snapshot. If the database does not answer in time, the metrics are served without the snapshot.
const (
	watchEvery = 10 * time.Second // between two reads
	watchFor   = 2 * time.Second  // timeout of one read
)

// Watch adds gauges for the result of read. read is called when the metrics are requested, at most every 10 seconds.
func (m *Metrics) Watch(read func(ctx context.Context) (Snapshot, error)) {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("berth_"+name, help, labels, nil)
	}
	m.registry.MustRegister(&watcher{
		read: read, kinds: labelValues{most: 50}, states: labelValues{most: 50},
		sandboxes: gauge("sandboxes", "Sandboxes that are not deleted, of all servers.", "state"),
		messages:  gauge("outbox_messages", "Messages that are not delivered yet, of all servers.", "kind"),
		oldest:    gauge("outbox_oldest_seconds", "How long the oldest message of the outbox has waited.", "kind"),
		failed:    gauge("watch_failed", "1 if the database did not tell the numbers of sandboxes and of the outbox, which are missing then."),
	})
}

type watcher struct {
	read                                func(ctx context.Context) (Snapshot, error)
	kinds, states                       labelValues
	sandboxes, messages, oldest, failed *prometheus.Desc

	mu   sync.Mutex
	at   time.Time
	last Snapshot
	err  error
}

// Describe implements prometheus.Collector.
func (w *watcher) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.sandboxes, w.messages, w.oldest, w.failed} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watcher) Collect(to chan<- prometheus.Metric) {
	snapshot, err := w.snapshot()
	if err != nil {
		to <- prometheus.MustNewConstMetric(w.failed, prometheus.GaugeValue, 1)
		return
	}
	to <- prometheus.MustNewConstMetric(w.failed, prometheus.GaugeValue, 0)
	states := map[string]int64{}
	for state, n := range snapshot.Sandboxes {
		states[w.states.keep(state)] += n
	}
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(w.sandboxes, prometheus.GaugeValue, float64(n), state)
	}
	kinds := map[string]Lag{}
	for kind, lag := range snapshot.Outbox {
		all := kinds[w.kinds.keep(kind)]
		kinds[w.kinds.keep(kind)] = Lag{all.Messages + lag.Messages, max(all.Oldest, lag.Oldest)}
	}
	for kind, lag := range kinds {
		to <- prometheus.MustNewConstMetric(w.messages, prometheus.GaugeValue, float64(lag.Messages), kind)
		to <- prometheus.MustNewConstMetric(w.oldest, prometheus.GaugeValue, lag.Oldest.Seconds(), kind)
	}
}

func (w *watcher) snapshot() (Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() || time.Since(w.at) >= watchEvery {
		ctx, cancel := context.WithTimeout(context.Background(), watchFor)
		defer cancel()
		w.last, w.err = w.read(ctx)
		w.at = time.Now()
	}
	return w.last, w.err
}
