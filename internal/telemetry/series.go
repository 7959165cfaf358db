package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets cover latencies from a memory access to a slow start of a sandbox.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// maker creates metrics and registers them.
type maker struct{ in prometheus.Registerer }

func (m maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.in.MustRegister(c)
	return c
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.in.MustRegister(c)
	return c
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.in.MustRegister(g)
	return g
}

func (m maker) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.in.MustRegister(g)
	return g
}

func (m maker) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.in.MustRegister(h)
	return h
}

// labelValues limits the number of values of a label. If ids are passed as label values by mistake, the values above
// the limit become "other", so that they do not fill the memory of the server and of Prometheus.
type labelValues struct {
	most int
	mu   sync.RWMutex
	seen map[string]struct{}
}

func (w *labelValues) keep(word string) string {
	w.mu.RLock()
	_, ok := w.seen[word]
	w.mu.RUnlock()
	if ok {
		return word
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[word]; ok {
		return word
	}
	if len(w.seen) >= w.most {
		return "other"
	}
	if w.seen == nil {
		w.seen = map[string]struct{}{}
	}
	w.seen[word] = struct{}{}
	return word
}
