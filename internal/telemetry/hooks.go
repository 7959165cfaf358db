package telemetry

import "time"

// ObserveHook records one run of a hook: its phase, and "ok" or "error".
func (m *Metrics) ObserveHook(phase, outcome string, took time.Duration) {
	m.hooks.WithLabelValues(phase, outcome).Inc()
	m.hookSeconds.WithLabelValues(phase).Observe(took.Seconds())
}
