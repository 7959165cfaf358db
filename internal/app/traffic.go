package app

import (
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/telemetry"
)

// traffic has the bytes that sandboxes of this machine sent and received through their ways out.
type traffic struct {
	boxes sync.Map // sandbox id → *egress.Traffic
}

// of returns the meter of one sandbox.
func (t *traffic) of(id string) *egress.Traffic {
	sum, _ := t.boxes.LoadOrStore(id, new(egress.Traffic))
	return sum.(*egress.Traffic)
}

// read returns the traffic of one sandbox, or nil if the sandbox has no way out here.
func (t *traffic) read(id string) *api.Traffic {
	sum, ok := t.boxes.Load(id)
	if !ok {
		return nil
	}
	n := sum.(*egress.Traffic)
	return &api.Traffic{BytesIn: n.In.Load(), BytesOut: n.Out.Load()}
}

// totalMeter counts the traffic of all sandboxes for the metrics.
type totalMeter struct{ metrics *telemetry.Metrics }

// Count implements egress.Meter.
func (m totalMeter) Count(in, out int64) {
	m.metrics.EgressIn.Add(float64(in))
	m.metrics.EgressOut.Add(float64(out))
}

// meters counts with several meters.
type meters []egress.Meter

// Count implements egress.Meter.
func (m meters) Count(in, out int64) {
	for _, each := range m {
		each.Count(in, out)
	}
}
