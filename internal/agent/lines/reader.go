package lines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
)

// Limits in bytes of the content of one event.
const (
	maxText  = 1 << 20
	maxTool  = 256 << 10
	maxName  = 200
	maxError = 1 << 10
	maxBlank = 100 // successive empty lines
)

// bytesPerToken is used to estimate the usage of a program that reports none.
const bytesPerToken = 4

// programLine is one line of JSON that a program prints.
type programLine struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	IsError bool            `json:"is_error"`
	Message string          `json:"message"`
	Code    api.Code        `json:"code"`
	Model   string          `json:"model"`
	Stop    string          `json:"stop_reason"`
	Cost    float64         `json:"cost_usd"`
	api.Usage
}

// state is stored in the cursor, so that a later reader continues from it.
type state struct {
	Begun  bool      `json:"begun,omitempty"`
	Model  string    `json:"model,omitempty"`
	Usage  api.Usage `json:"usage"`
	Cost   float64   `json:"cost,omitempty"`
	Exact  bool      `json:"exact,omitempty"`  // the program reported its usage
	Spoken int64     `json:"spoken,omitempty"` // bytes of the answer and of thoughts
	Open   bool      `json:"open,omitempty"`   // the next line continues the text before it
	Blank  int       `json:"blank,omitempty"`  // empty lines since the last line of text
	Stop   string    `json:"stop,omitempty"`
	Failed bool      `json:"failed,omitempty"`
	Code   api.Code  `json:"code,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// reader implements agent.Reader.
type reader struct {
	turn  agent.Turn
	state state
}

func (r *reader) State() any { return r.state }

// Line reads one line. A line that is no event is text of the answer, so every line is part of the protocol.
func (r *reader) Line(line []byte) ([]api.TurnEvent, bool) {
	var l programLine
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &l) != nil || !known(l.Type) {
		return r.plain(line), true
	}
	e, ok := r.event(&l)
	if ok && l.Type != "usage" {
		r.state.Open, r.state.Blank = l.Type == "delta", 0
	}
	if !ok {
		return nil, true
	}
	e.Raw = bytes.Clone(line)
	return []api.TurnEvent{e}, true
}

// plain reads a line of text. Line breaks are added before the next line, so that the answer does not end with one.
func (r *reader) plain(line []byte) []api.TurnEvent {
	if len(bytes.TrimSpace(line)) == 0 {
		r.state.Blank = min(r.state.Blank+1, maxBlank)
		return nil
	}
	breaks := 0
	if r.state.Open {
		breaks = 1 + r.state.Blank
	}
	e := r.text(api.EventTextDelta, strings.Repeat("\n", breaks)+string(line))
	r.state.Open, r.state.Blank = true, 0
	return []api.TurnEvent{e}
}

// known reports whether a line of JSON with this type is an event.
func known(kind string) bool {
	switch kind {
	case "begin", "delta", "text", "thinking_delta", "thinking", "tool_call", "tool_result", "usage", "error":
		return true
	}
	return false
}

func (r *reader) event(l *programLine) (e api.TurnEvent, ok bool) {
	switch l.Type {
	case "begin":
		ok, r.state.Begun = !r.state.Begun, true
		return api.TurnEvent{Type: api.EventStatus, Status: agent.StatusSessionStarted, Session: r.turn.Session.ID, Model: r.model()}, ok
	case "delta":
		return r.text(api.EventTextDelta, l.Text), l.Text != ""
	case "text":
		return r.text(api.EventText, l.Text), l.Text != ""
	case "thinking_delta":
		return r.text(api.EventThinkingDelta, l.Text), l.Text != ""
	case "thinking":
		return r.text(api.EventThinking, l.Text), l.Text != ""
	case "tool_call":
		e = api.TurnEvent{Type: api.EventToolCall, ID: clip(l.ID, maxName), Name: clip(l.Name, maxName), Input: l.Input}
		if len(e.Input) > maxTool {
			e.Input, e.Cut = nil, true
		}
		return e, true
	case "tool_result":
		e = api.TurnEvent{Type: api.EventToolResult, ID: clip(l.ID, maxName), Error: l.IsError}
		e.Text, e.Cut = agent.Clip(clean(l.Text), maxTool)
		return e, true
	case "usage":
		return r.usage(l), true
	case "error":
		r.state.Failed, r.state.Error, r.state.Code = true, clip(l.Message, maxError), failure(l.Code)
	}
	return e, false
}

func (r *reader) text(kind, text string) api.TurnEvent {
	text, cut := agent.Clip(clean(text), maxText)
	if kind == api.EventTextDelta || kind == api.EventThinkingDelta {
		r.state.Spoken += int64(len(text))
	}
	return api.TurnEvent{Type: kind, Text: text, Cut: cut}
}

// usage reads the turn's usage so far. A later line replaces it.
func (r *reader) usage(l *programLine) api.TurnEvent {
	r.state.Exact, r.state.Usage, r.state.Cost = true, l.Usage, l.Cost
	r.state.Model = cmp.Or(clip(l.Model, maxName), r.state.Model)
	r.state.Stop = clip(l.Stop, maxName)
	used := l.Usage
	return api.TurnEvent{Type: api.EventUsage, Usage: &used, Model: r.model(), CostUSD: l.Cost}
}

func (r *reader) model() string { return cmp.Or(r.state.Model, r.turn.Model, Name) }

// failure returns the code of a failed turn: the program's, if it is one of those for failed turns.
func failure(code api.Code) api.Code {
	switch code {
	case api.CodeModelRefusal, api.CodePromptTooLong, api.CodeModelNoCredit, api.CodeModelDenied, api.CodeModelKeyRefused,
		api.CodeModelRateLimited, api.CodeModelUnavailable, api.CodeAnswerTooLong:
		return code
	}
	return api.CodeAgentFailed
}

// End returns the failure that the program reported. A turn without one is complete when the program exits with 0.
func (r *reader) End() (agent.End, bool) {
	e := agent.End{Usage: r.state.Usage, Model: r.model(), CostUSD: r.state.Cost, StopReason: r.state.Stop}
	if !r.state.Exact {
		e.Usage = api.Usage{
			InputTokens: tokens(int64(len(r.turn.Text()))), OutputTokens: tokens(r.state.Spoken), Estimated: true,
		}
	}
	if r.state.Failed {
		e.Status, e.Code, e.Message = api.TurnFailed, r.state.Code, cmp.Or(r.state.Error, "the agent reported a failure and no reason")
	}
	return e, r.state.Failed
}

// tokens estimates the number of tokens of a text.
func tokens(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// clean replaces NUL characters, which databases refuse.
func clean(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

func clip(text string, most int) string {
	text, _ = agent.Clip(clean(text), most)
	return text
}
