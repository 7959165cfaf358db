//go:build !seeded_rereads

package turn

import (
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/store"
)

// readOn is where a holder reads on: where the log stands.
func readOn(t store.Turn, p place) agent.Cursor {
	return agent.Cursor{Offset: t.ReadTo, State: p.State}
}
