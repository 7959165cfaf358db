package claudecli

import "github.com/berthdev/berth/api"

// tally counts the tokens of a turn. A result line has exact figures for each model. Until it arrives, tally uses the
// counts that the model's service sends for each call, because message lines are repeated and report an output of 1.
//
// From CLI 2.1.278 on, the figures of a result include the earlier usage of a resumed session. Such a CLI notes that
// usage, and tally subtracts it. The figures of older CLIs are those of the process.
type tally struct {
	Final  bool            `json:"told,omitempty"`  // a result line was read
	Before spent           `json:"before,omitzero"` // usage of the session before this process
	Base   spent           `json:"base"`            // usage of this process up to the last result
	Sum    api.Usage       `json:"sum"`             // usage of the calls that ended after the last result
	Calls  map[string]call `json:"calls,omitempty"` // the last call of the agent (key "") and of each sub-agent
}

// spent is a sum of tokens and its price as the CLI reports it.
type spent struct {
	api.Usage
	CostUSD float64 `json:"cost_usd,omitempty"`
}

func (s spent) plus(o spent) spent {
	return spent{Usage: s.Usage.Add(o.Usage), CostUSD: s.CostUSD + o.CostUSD}
}

// minus subtracts o. It is not ok if a count of tokens becomes negative.
func (s spent) minus(o spent) (left spent, ok bool) {
	left = spent{
		Usage: api.Usage{
			InputTokens: s.InputTokens - o.InputTokens, OutputTokens: s.OutputTokens - o.OutputTokens,
			CacheReadTokens: s.CacheReadTokens - o.CacheReadTokens, CacheWriteTokens: s.CacheWriteTokens - o.CacheWriteTokens,
		},
		CostUSD: max(0, s.CostUSD-o.CostUSD),
	}
	return left, min(left.InputTokens, left.OutputTokens, left.CacheReadTokens, left.CacheWriteTokens) >= 0
}

// call is one call of a model.
type call struct {
	ID    string    `json:"id"`
	Usage api.Usage `json:"usage"`
	Added bool      `json:"added,omitempty"` // Usage is in tally.Sum
}

// maxCalls limits the number of agents whose calls are counted separately.
const maxCalls = 32

// begin records the start of a call. It does nothing if the call is known.
func (t *tally) begin(parent, id string, u *usage) {
	if c, ok := t.Calls[parent]; ok && c.ID == id {
		return
	}
	t.end(parent)
	if len(t.Calls) >= maxCalls {
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

// update records a newer count for the running call.
func (t *tally) update(parent string, u *usage) {
	if c, ok := t.Calls[parent]; ok && !c.Added {
		c.Usage = u.onto(c.Usage)
		t.Calls[parent] = c
	}
}

// end adds the usage of the running call to the sum.
func (t *tally) end(parent string) {
	if c, ok := t.Calls[parent]; ok && !c.Added {
		t.Sum = t.Sum.Add(c.Usage)
		c.Added = true
		t.Calls[parent] = c
	}
}

// result replaces all counts by the figures of a result line.
func (t *tally) result(l *resultLine) {
	*t = tally{Final: true, Before: t.Before, Base: t.usageUpTo(l)}
}

// usageUpTo returns the usage of the process up to a result.
func (t *tally) usageUpTo(l *resultLine) spent {
	if l.Since != nil {
		return t.Base.plus(l.Since.sum())
	}
	if l.PerModel == nil {
		return t.Base.plus(spent{l.Usage.onto(api.Usage{}), max(0, dollars(l.CostUSD)-t.Base.CostUSD)})
	}
	all := spent{l.PerModel.sum().Usage, dollars(l.CostUSD)}
	// The figures include Before only if the rest is at least the usage counted so far.
	if own, ok := all.minus(t.Before); ok {
		if _, ok := own.minus(spent{Usage: t.total()}); ok {
			return own
		}
	}
	return all
}

// sum returns the usage of all models. The line's field "usage" is not enough: it lacks sub-agents and interrupted
// streams.
func (p perModel) sum() (sum spent) {
	for _, m := range p {
		sum = sum.plus(spent{api.Usage{
			InputTokens: count(m.Input), OutputTokens: count(m.Output),
			CacheReadTokens: count(m.CacheRead), CacheWriteTokens: count(m.CacheWrite),
		}, dollars(m.CostUSD)})
	}
	return sum
}

// total returns the usage so far. It is an estimate until a result has come.
func (t *tally) total() api.Usage {
	sum := t.Base.Usage.Add(t.Sum)
	for _, c := range t.Calls {
		if !c.Added {
			sum = sum.Add(c.Usage)
		}
	}
	sum.Estimated = !t.Final || len(t.Calls) > 0
	return sum
}

// onto returns was with the fields that u has.
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

// count returns a number of tokens, limited to a plausible range.
func count(n float64) int64 {
	const most = 1 << 40
	return int64(max(0, min(n, most)))
}

// dollars returns a price, limited to a plausible range.
func dollars(n float64) float64 { return max(0, min(n, 1e9)) }
