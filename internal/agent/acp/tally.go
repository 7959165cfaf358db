package acp

import (
	"encoding/json"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
)

// bytesPerToken is used to estimate the usage of an agent that reports none.
const bytesPerToken = 4

// tally counts the tokens of a turn.
type tally struct {
	Counts  api.Usage `json:"counts"`            // as reported
	Counted bool      `json:"counted,omitempty"` // Counts are those of the whole turn, as far as the agent counts it
	Size    int64     `json:"size,omitempty"`    // of the context, in tokens
	Spoken  int64     `json:"spoken,omitempty"`  // bytes of texts, thoughts and tools' inputs
	CostUSD float64   `json:"cost,omitempty"`
}

// answered is the result for a prompt.
type answered struct {
	Stop  string  `json:"stopReason"`
	Usage *counts `json:"usage"`
	Meta  struct {
		Usage *counts `json:"usage"`
		Quota struct {
			Count *counts `json:"token_count"`
		} `json:"quota"`
	} `json:"_meta"`
}

// counts are tokens under the names that agents use.
type counts struct {
	Input      float64 `json:"inputTokens"`
	InputToo   float64 `json:"input_tokens"`
	Output     float64 `json:"outputTokens"`
	OutputToo  float64 `json:"output_tokens"`
	CacheRead  float64 `json:"cachedReadTokens"`
	CacheWrite float64 `json:"cachedWriteTokens"`
	CacheMade  float64 `json:"cacheCreationTokens"`
	Total      float64 `json:"totalTokens"`
}

// usage returns the counts without overlap. Cached tokens are part of the input if the total is input and output alone.
func (c *counts) usage() api.Usage {
	u := api.Usage{
		InputTokens: count(c.Input + c.InputToo), OutputTokens: count(c.Output + c.OutputToo),
		CacheReadTokens: count(c.CacheRead), CacheWriteTokens: count(c.CacheWrite + c.CacheMade),
	}
	if count(c.Total) == u.InputTokens+u.OutputTokens {
		u.InputTokens = max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	}
	return u
}

// count returns a number of tokens, limited to a plausible range.
func count(n float64) int64 {
	const most = 1 << 40
	return int64(max(0, min(n, most)))
}

// context stores the size of the context and the price so far.
func (t *tally) context(size, cost float64) {
	t.Size = count(size)
	t.CostUSD = max(t.CostUSD, max(0, min(cost, 1e9)))
}

// call adds the tokens of one call of the model.
func (t *tally) call(raw json.RawMessage) {
	var c counts
	if json.Unmarshal(raw, &c) == nil {
		t.Counts = t.Counts.Add(c.usage())
		t.Counted = true
	}
}

// answer reads the counts of the result. It reports whether there are any.
func (t *tally) answer(rule profile.Usage, a *answered) bool {
	var c *counts
	switch rule.From {
	case profile.FromAnswer:
		c = a.Usage
	case profile.FromQuota:
		c = a.Meta.Quota.Count
	case profile.FromMeta:
		c = a.Meta.Usage
	case profile.FromCalls:
		return t.Counted
	}
	if c == nil {
		return false
	}
	t.Counts, t.Counted = c.usage(), true
	return true
}

// total returns the usage so far. It is an estimate until the agent has answered.
func (t *tally) total(rule profile.Usage, prompt string, answered bool) api.Usage {
	if t.Counted {
		u := t.Counts
		u.Estimated = !rule.Exact || !answered
		return u
	}
	u := api.Usage{InputTokens: tokens(int64(len(prompt))), OutputTokens: tokens(t.Spoken), Estimated: true}
	if t.Size > u.OutputTokens {
		u.InputTokens = t.Size - u.OutputTokens
	}
	return u
}

// tokens estimates the number of tokens of a text.
func tokens(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }
