package client

import "encoding/json"

// Policy decides what happens when the agent asks for permission.
type Policy string

// The policies.
const (
	AllowAll   Policy = "all"   // everything is allowed
	AllowEdits Policy = "edits" // reading and changing files is allowed
	AllowNone  Policy = "none"  // everything is rejected
)

// allows reports whether the policy allows a tool of this kind.
func (p Policy) allows(kind string) bool {
	switch p {
	case AllowAll:
		return true
	case AllowEdits:
		return kind == "read" || kind == "edit" || kind == "search" || kind == "think"
	}
	return false
}

// permit returns the outcome of a request for permission. It never chooses an option that changes the agent's settings
// if there is another one.
func (c *client) permit(params json.RawMessage) map[string]any {
	var r struct {
		Tool struct {
			ID   string `json:"toolCallId"`
			Kind string `json:"kind"`
		} `json:"toolCall"`
		Options []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	_ = json.Unmarshal(params, &r)
	if !c.prompted {
		return map[string]any{"outcome": "cancelled"}
	}
	c.shaper.asked(params) // also of a turn that was cancelled: some agents report the tool in no other way
	if c.cancelled {
		return map[string]any{"outcome": "cancelled"}
	}
	kinds := []string{"reject_once", "reject_always"}
	if c.turn.Allow.allows(c.shaper.kindOf(r.Tool.ID, r.Tool.Kind)) {
		kinds = []string{"allow_once", "allow_always"}
	}
	for _, kind := range kinds {
		for _, o := range r.Options {
			if o.Kind == kind {
				return map[string]any{"outcome": "selected", "optionId": o.ID}
			}
		}
	}
	return map[string]any{"outcome": "cancelled"}
}
