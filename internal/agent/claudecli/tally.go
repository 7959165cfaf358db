package claudecli

import "github.com/berthdev/berth/api"

// tally counts tokens. The truth is what a result line says of each model, for the whole process; lines of
// messages repeat themselves, and tell an output of 1. Until a result comes, what the model's service said of
// each call is the best there is.
type tally struct {
	Told  bool            `json:"told,omitempty"`  // by a result
	Base  api.Usage       `json:"base"`            // of the last result
	Sum   api.Usage       `json:"sum"`             // of the calls that ended since
	Calls map[string]call `json:"calls,omitempty"` // the last call of the agent ("") and of each sub-agent
}

// call is one call of a model.
type call struct {
	ID    string    `json:"id"`
	Usage api.Usage `json:"usage"`
	Added bool      `json:"added,omitempty"` // to the sum
}

// mostCalls is how many sub-agents are told apart.
const mostCalls = 32

// begin is the start of a call, or the first that is heard of it.
func (t *tally) begin(parent, id string, u *usage) {
	if c, ok := t.Calls[parent]; ok && c.ID == id {
		return
	}
	t.end(parent)
	if len(t.Calls) >= mostCalls {
		for other := range t.Calls {
			t.end(other)
		}
		t.Calls = nil
	}
	if t.Calls == nil {
		t.Calls = map[string]call{}
	}
	t.Calls[parent] = call{ID: id, Usage: u.onto(api.Usage{})}
}

// update is a newer count of the call that runs.
func (t *tally) update(parent string, u *usage) {
	if c, ok := t.Calls[parent]; ok && !c.Added {
		c.Usage = u.onto(c.Usage)
		t.Calls[parent] = c
	}
}

// end is the end of the call that runs.
func (t *tally) end(parent string) {
	if c, ok := t.Calls[parent]; ok && !c.Added {
		t.Sum = t.Sum.Add(c.Usage)
		c.Added = true
		t.Calls[parent] = c
	}
}

// result is the truth so far.
func (t *tally) result(l *resultLine) {
	sum, ok := l.perModel()
	if !ok {
		sum = t.Base.Add(l.Usage.onto(api.Usage{}))
	}
	*t = tally{Told: true, Base: sum}
}

// perModel is what the whole process used of all models. The line's other figure leaves out sub-agents and
// streams that broke.
func (l *resultLine) perModel() (sum api.Usage, ok bool) {
	for _, m := range l.PerModel {
		sum = sum.Add(api.Usage{
			InputTokens: count(m.Input), OutputTokens: count(m.Output),
			CacheReadTokens: count(m.CacheRead), CacheWriteTokens: count(m.CacheWrite),
		})
	}
	return sum, l.PerModel != nil
}

// total is what was used so far.
func (t *tally) total() api.Usage {
	sum := t.Base.Add(t.Sum)
	for _, c := range t.Calls {
		if !c.Added {
			sum = sum.Add(c.Usage)
		}
	}
	sum.Estimated = !t.Told || len(t.Calls) > 0
	return sum
}

// onto puts what a count tells over an earlier one.
func (u *usage) onto(was api.Usage) api.Usage {
	if u == nil {
		return was
	}
	for _, f := range []struct {
		from *float64
		to   *int64
	}{{u.Input, &was.InputTokens}, {u.Output, &was.OutputTokens}, {u.CacheRead, &was.CacheReadTokens}, {u.CacheWrite, &was.CacheWriteTokens}} {
		if f.from != nil {
			*f.to = count(*f.from)
		}
	}
	return was
}

// count is a number of tokens that somebody claims.
func count(n float64) int64 {
	const most = 1 << 40
	return int64(max(0, min(n, most)))
}
