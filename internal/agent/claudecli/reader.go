package claudecli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
)

// What one event carries at most.
const (
	mostText   = 1 << 20
	mostResult = 256 << 10
	mostInput  = 256 << 10
	mostRaw    = 1 << 20
	mostName   = 200
	mostWords  = 1 << 10 // of an error
)

// state is what the lines so far have told.
type state struct {
	Begun  bool    `json:"begun,omitempty"`
	Model  string  `json:"model,omitempty"`
	Tokens tally   `json:"tokens"`
	Cost   float64 `json:"cost,omitempty"`
	Result *result `json:"result,omitempty"` // the last one, unless something came behind it
}

// result is what the CLI said of the turn's end.
type result struct {
	Status    string `json:"status"`
	Message   string `json:"message,omitempty"`
	NoSession bool   `json:"no_session,omitempty"`
}

// reader is an agent.Reader.
type reader struct{ state state }

func (r *reader) State() any { return r.state }

// Line reads one line.
func (r *reader) Line(line []byte) ([]api.TurnEvent, bool) {
	var h header
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &h) != nil || h.Type == "" {
		return nil, false
	}
	events, err := r.decode(h, line)
	if err != nil {
		return nil, false
	}
	for i := range events {
		e := &events[i]
		e.Parent, _ = agent.Clip(h.Parent, mostName)
		e.ID, _ = agent.Clip(e.ID, mostName)
		e.Name, _ = agent.Clip(e.Name, mostName)
	}
	if len(events) > 0 && len(line) <= mostRaw {
		events[0].Raw = bytes.Clone(line)
	}
	return events, true
}

func (r *reader) decode(h header, line []byte) ([]api.TurnEvent, error) {
	switch h.Type + "/" + h.Subtype {
	case "system/init":
		return into(line, r.begin)
	case "system/api_retry":
		return into(line, retry)
	case "assistant/":
		return into(line, func(l *messageLine) []api.TurnEvent { return r.assistant(h.Parent, &l.Message) })
	case "user/":
		return into(line, func(l *messageLine) []api.TurnEvent { return results(l.Message.Content) })
	case "stream_event/":
		return into(line, func(l *streamLine) []api.TurnEvent { return r.stream(h.Parent, l) })
	}
	if h.Type == "result" {
		return into(line, r.result)
	}
	return nil, nil
}

func into[L any](line []byte, then func(*L) []api.TurnEvent) ([]api.TurnEvent, error) {
	var l L
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	return then(&l), nil
}

func (r *reader) begin(l *initLine) []api.TurnEvent {
	r.state.Result = nil
	if r.state.Begun {
		return nil
	}
	r.state.Begun = true
	r.setModel(l.Model)
	session, _ := agent.Clip(l.Session, mostName)
	return []api.TurnEvent{{Type: api.EventStatus, Status: agent.StatusSessionStarted, Session: session, Model: r.state.Model}}
}

func (r *reader) setModel(name string) {
	if name != "" && name != synthetic {
		r.state.Model, _ = agent.Clip(clean(name), mostName)
	}
}

func retry(l *retryLine) []api.TurnEvent {
	why := "the model's service does not answer"
	if l.Status > 0 {
		why = fmt.Sprintf("the model's service answered %.0f", l.Status)
	}
	message := fmt.Sprintf("%s; try %.0f of %.0f in %.1f s", why, l.Attempt, l.Most, l.DelayMS/1000)
	message, _ = agent.Clip(message, mostWords)
	return []api.TurnEvent{{Type: api.EventStatus, Status: agent.StatusRetrying, Message: message}}
}

// assistant reads an answer's blocks. The usage beside them counts only where nothing better is told.
func (r *reader) assistant(parent string, m *message) (events []api.TurnEvent) {
	if m.Model == synthetic {
		return nil
	}
	if parent == "" {
		r.setModel(m.Model)
	}
	if m.ID != "" {
		r.state.Tokens.begin(key(parent), key(m.ID), m.Usage)
	}
	for i := range m.Content {
		if e, ok := said(&m.Content[i]); ok {
			events = append(events, e)
		}
	}
	return events
}

func said(b *block) (e api.TurnEvent, ok bool) {
	switch b.Type {
	case "text":
		return textEvent(api.EventText, b.Text), b.Text != ""
	case "thinking":
		return textEvent(api.EventThinking, b.Thinking), b.Thinking != ""
	case "tool_use", "server_tool_use", "mcp_tool_use":
		e = api.TurnEvent{Type: api.EventToolCall, ID: clean(b.ID), Name: clean(b.Name), Input: b.Input}
		if len(e.Input) > mostInput {
			e.Input, e.Cut = nil, true
		}
		return e, true
	}
	return resultOf(b)
}

func textEvent(kind, text string) api.TurnEvent {
	text, cut := agent.Clip(clean(text), mostText)
	return api.TurnEvent{Type: kind, Text: text, Cut: cut}
}

// clean takes out what databases do not store.
func clean(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

// results reads what tools answered. Other blocks of a user's message are the CLI's own notes.
func results(blocks content) (events []api.TurnEvent) {
	for i := range blocks {
		if e, ok := resultOf(&blocks[i]); ok {
			events = append(events, e)
		}
	}
	return events
}

func resultOf(b *block) (e api.TurnEvent, ok bool) {
	if !strings.HasSuffix(b.Type, "tool_result") {
		return e, false
	}
	text, cut := agent.Clip(clean(words(b.Content)), mostResult)
	return api.TurnEvent{Type: api.EventToolResult, ID: clean(b.ToolUseID), Text: text, Cut: cut, Error: b.IsError}, true
}

// stream reads the service's own events: deltas, and the count of each call.
func (r *reader) stream(parent string, l *streamLine) []api.TurnEvent {
	tokens := &r.state.Tokens
	parent = key(parent)
	switch e := &l.Event; e.Type {
	case "message_start":
		if parent == "" {
			r.setModel(e.Message.Model)
		}
		tokens.begin(parent, key(e.Message.ID), e.Message.Usage)
	case "message_delta":
		tokens.update(parent, e.Usage)
	case "message_stop":
		tokens.end(parent)
		return []api.TurnEvent{r.usage()}
	case "content_block_delta":
		switch d := &e.Delta; {
		case d.Type == "text_delta" && d.Text != "":
			return []api.TurnEvent{textEvent(api.EventTextDelta, d.Text)}
		case d.Type == "thinking_delta" && d.Thinking != "":
			return []api.TurnEvent{textEvent(api.EventThinkingDelta, d.Thinking)}
		}
	}
	return nil
}

// key is an id that is remembered.
func key(id string) string {
	id, _ = agent.Clip(id, mostName)
	return id
}

func (r *reader) usage() api.TurnEvent {
	total := r.state.Tokens.total()
	return api.TurnEvent{Type: api.EventUsage, Usage: &total, Model: r.state.Model, CostUSD: r.state.Cost}
}

// result reads the last line of a turn. Its subtype is "success" for turns that failed, too.
func (r *reader) result(l *resultLine) []api.TurnEvent {
	r.state.Tokens.result(l)
	if l.CostUSD >= 0 && !math.IsInf(l.CostUSD, 0) {
		r.state.Cost = l.CostUSD
	}
	res := &result{Status: api.TurnCompleted}
	switch {
	case strings.HasPrefix(l.Reason, "aborted"):
		res.Status = api.TurnCancelled
	case l.IsError:
		res.Status = api.TurnFailed
		res.Message, _ = agent.Clip(clean(why(l)), mostWords)
		res.NoSession = strings.Contains(strings.Join(l.Errors, "\n"), "No conversation found")
	}
	r.state.Result = res
	return []api.TurnEvent{r.usage()}
}

// why is a failed turn's reason in the CLI's words.
func why(l *resultLine) string {
	switch {
	case len(l.Errors) > 0 && l.Result == "":
		return strings.Join(l.Errors, "; ")
	case l.Result != "":
		return l.Result
	}
	return l.Subtype
}

// End is what the result line said.
func (r *reader) End() (agent.End, bool) {
	e := agent.End{Usage: r.state.Tokens.total(), Model: r.state.Model, CostUSD: r.state.Cost}
	res := r.state.Result
	if res == nil {
		return e, false
	}
	e.Status, e.Message, e.NoSession = res.Status, res.Message, res.NoSession
	if res.Status == api.TurnFailed {
		e.Code = api.CodeAgentFailed
	}
	return e, true
}
