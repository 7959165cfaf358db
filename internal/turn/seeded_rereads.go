//go:build seeded_rereads

package turn

import (
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/store"
)

// readOn has a bug on purpose, which tests must find: whoever takes a turn over reads the agent's output from its beginning.
func readOn(store.Turn, place) agent.Cursor { return agent.Cursor{} }
