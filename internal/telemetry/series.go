package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets reach from a memory hit to a sandbox that is slow to start.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// maker registers what it makes.
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

// words bounds the values of a label: a mistake that feeds it ids fills the set
// and then counts as "other", instead of filling memory here and in Prometheus.
type words struct {
	most int
	mu   sync.RWMutex
	seen map[string]struct{}
}

func (w *words) keep(word string) string {
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
