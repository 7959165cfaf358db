package app

import (
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/telemetry"
)

// traffic counts the bytes that sandboxes sent and received through the egress proxies of this server.
type traffic struct {
	boxes sync.Map // sandbox id → *egress.Traffic
}

// of returns the meter of one sandbox. It also adds to the metrics of all sandboxes.
func (t *traffic) of(id string, all *telemetry.Metrics) sandboxMeter {
	sum, _ := t.boxes.LoadOrStore(id, new(egress.Traffic))
	return sandboxMeter{sum.(*egress.Traffic), all}
}

// read returns the traffic of one sandbox, or nil if the sandbox has no proxy here.
func (t *traffic) read(id string) *api.Traffic {
	sum, ok := t.boxes.Load(id)
	if !ok {
		return nil
	}
	n := sum.(*egress.Traffic)
	return &api.Traffic{BytesIn: n.In.Load(), BytesOut: n.Out.Load()}
}

// sandboxMeter counts traffic for one sandbox and for the metrics of all sandboxes.
type sandboxMeter struct {
	sum *egress.Traffic
	all *telemetry.Metrics
}

func (m sandboxMeter) Count(in, out int64) {
	m.sum.Count(in, out)
	m.all.EgressIn.Add(float64(in))
	m.all.EgressOut.Add(float64(out))
}
