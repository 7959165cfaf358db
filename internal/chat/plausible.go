package chat

import (
	"math"
	"time"

	"github.com/berthdev/berth/api"
)

// Limits of the usage of one turn. The figures come from the sandbox, where the agent and its commands can write any
// number. The limits are far above the usage of the fastest models and many parallel calls, so that honest figures are
// never cut.
const (
	callTokens      = 4_000_000 // input of a single call, allowed for any duration
	inTokensPerSec  = 4_000_000 // for each kind of input: new, read from the cache, written to the cache
	answerTokens    = 200_000
	outTokensPerSec = 10_000
	dollarsPerToken = 0.002 // several times the highest price
	dollarsPerTurn  = 10    // in addition to the tokens: for web searches, for example
)

// plausible limits the reported usage and cost to what a turn of this duration can use. It marks the usage if it cut a
// figure.
func plausible(u api.Usage, cost float64, took time.Duration) (api.Usage, float64) {
	seconds := int64(min(max(took, 0), 30*24*time.Hour)/time.Second) + 1
	cut := false
	bound := func(n *int64, most int64) {
		if *n < 0 || *n > most {
			*n, cut = min(max(*n, 0), most), true
		}
	}
	in := callTokens + inTokensPerSec*seconds
	bound(&u.InputTokens, in)
	bound(&u.CacheReadTokens, in)
	bound(&u.CacheWriteTokens, in)
	bound(&u.OutputTokens, answerTokens+outTokensPerSec*seconds)
	most := dollarsPerTurn + dollarsPerToken*float64(u.InputTokens+u.CacheReadTokens+u.CacheWriteTokens+u.OutputTokens)
	if math.IsNaN(cost) || cost < 0 {
		cost, cut = 0, true
	} else if cost > most {
		cost, cut = most, true
	}
	if cut {
		u.Bounded, u.Estimated = true, true
	}
	return u, cost
}

// bound limits the figures in the agent's events.
func (w *work) bound(events []api.TurnEvent) {
	for i := range events {
		if e := &events[i]; e.Usage != nil {
			used, cost := plausible(*e.Usage, e.CostUSD, w.runTime())
			e.Usage, e.CostUSD = &used, cost
		}
	}
}

// runTime returns the time since the turn started.
func (w *work) runTime() time.Duration {
	if w.turn.StartedAt.IsZero() {
		return 0
	}
	return time.Since(w.turn.StartedAt)
}
