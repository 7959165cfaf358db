package app

import (
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/telemetry"
)

// traffic counts the bytes that sandboxes exchanged with the outside through this server.
type traffic struct {
	metrics *telemetry.Metrics
	boxes   sync.Map // sandbox id → *egress.Traffic
}

// of is the meter of one sandbox.
func (t *traffic) of(id string) both {
	sum, _ := t.boxes.LoadOrStore(id, new(egress.Traffic))
	return both{sum.(*egress.Traffic), t.metrics}
}

// read is what one sandbox has exchanged, nil if nothing leads out of it.
func (t *traffic) read(id string) *api.Traffic {
	sum, ok := t.boxes.Load(id)
	if !ok {
		return nil
	}
	n := sum.(*egress.Traffic)
	return &api.Traffic{BytesIn: n.In.Load(), BytesOut: n.Out.Load()}
}

// both counts for the sandbox and for all of them.
type both struct {
	sum *egress.Traffic
	all *telemetry.Metrics
}

func (b both) Count(in, out int64) {
	b.sum.Count(in, out)
	b.all.EgressIn.Add(float64(in))
	b.all.EgressOut.Add(float64(out))
}
