package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/client"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/acp/relay"
	"github.com/berthdev/berth/internal/agent"
)

// Limits in bytes of the content of one event.
const (
	maxText  = 1 << 20
	maxTool  = 256 << 10
	maxName  = 200
	maxError = 1 << 10
)

// state is stored in the cursor, so that a later reader continues from it.
type state struct {
	Begun     bool   `json:"begun,omitempty"`
	Prompted  bool   `json:"prompted,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"` // the agent was asked to cancel the turn
	Broken    bool   `json:"broken,omitempty"`    // the agent reported that its thread failed
	Said      bool   `json:"said,omitempty"`      // there was a text or a tool's call
	Answered  bool   `json:"answered,omitempty"`  // there was a text behind the last tool's call
	Failure   string `json:"failure,omitempty"`   // the text by which the agent reported a failed call of the model
	Model     string `json:"model,omitempty"`
	Tally     tally  `json:"tally"`
	End       *end   `json:"end,omitempty"`
}

// end is the end of the turn as the agent reported it.
type end struct {
	Status  string   `json:"status"`
	Code    api.Code `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Stop    string   `json:"stop,omitempty"`
}

// reader implements agent.Reader for the lines of the client.
type reader struct {
	turn    agent.Turn
	profile profile.Profile
	state   state
}

func (r *reader) State() any { return r.state }

// Worked reports whether the agent may have used a tool that it has not reported. The client may have been killed before
// it read the report.
func (r *reader) Worked(killed bool) bool { return r.state.Prompted && (killed || r.profile.LateCalls) }

// Dated reports whether the client, or the relay in the place of the agent, is unknown to the helper. A program answers to
// an unknown command with its name.
func (r *reader) Dated(words string) bool {
	return !r.state.Begun && (strings.Contains(words, strconv.Quote(client.Name)) || strings.Contains(words, strconv.Quote(relay.Name)))
}

// Line reads one line of the client.
func (r *reader) Line(line []byte) ([]api.TurnEvent, bool) {
	var l client.Line
	if !bytes.HasPrefix(line, []byte(`{"acp":`)) || json.Unmarshal(line, &l) != nil {
		return nil, false
	}
	events := r.events(&l)
	for i := range events {
		events[i].Raw = bytes.Clone(line)
	}
	return events, true
}

func (r *reader) events(l *client.Line) []api.TurnEvent {
	switch l.Type {
	case client.LineBegin:
		return r.begin(l)
	case client.LinePrompt:
		r.state.Prompted = true
	case client.LineCancel:
		r.state.Cancelled = true
	case client.LineBroken:
		r.state.Broken = true
	case client.LineDelta:
		return r.text(api.EventTextDelta, l)
	case client.LineText:
		return r.text(api.EventText, l)
	case client.LineThinkingDelta:
		return r.text(api.EventThinkingDelta, l)
	case client.LineThinking:
		return r.text(api.EventThinking, l)
	case client.LineToolCall, client.LineToolResult:
		return []api.TurnEvent{r.tool(l)}
	case client.LineNotice:
		return status(agent.StatusNotice, l.Text)
	case client.LineRetry:
		return status(agent.StatusRetrying, l.Text)
	case client.LineContext:
		r.state.Tally.context(l.Used, l.CostUSD)
	case client.LineCall:
		r.state.Tally.call(l.Answer)
		return []api.TurnEvent{r.usage()}
	case client.LineFailure:
		r.state.Failure = clip(l.Text, maxError)
	case client.LineAnswer:
		return r.answer(l)
	case client.LineError:
		r.failed(l)
	}
	return nil
}

func (r *reader) begin(l *client.Line) []api.TurnEvent {
	if r.state.Begun {
		return nil
	}
	r.state.Begun = true
	r.state.Model = clip(l.Model, maxName)
	return []api.TurnEvent{{Type: api.EventStatus, Status: agent.StatusSessionStarted, Session: r.turn.Session.ID, Model: r.model()}}
}

func (r *reader) model() string { return cmp.Or(r.state.Model, r.turn.Model, r.profile.Name) }

func status(what, text string) []api.TurnEvent {
	return []api.TurnEvent{{Type: api.EventStatus, Status: what, Message: clip(text, maxError)}}
}

func (r *reader) text(kind string, l *client.Line) []api.TurnEvent {
	if l.Text == "" {
		return nil
	}
	text, cut := agent.Clip(clean(l.Text), maxText)
	switch kind {
	case api.EventTextDelta:
		r.state.Said, r.state.Answered = true, true
		r.state.Tally.Spoken += int64(len(text))
	case api.EventThinkingDelta:
		r.state.Tally.Spoken += int64(len(text))
	}
	return []api.TurnEvent{{Type: kind, Text: text, Cut: cut}}
}

func (r *reader) tool(l *client.Line) (e api.TurnEvent) {
	r.state.Said, r.state.Answered = true, false
	if l.Type == client.LineToolResult {
		e = api.TurnEvent{Type: api.EventToolResult, ID: clip(l.ID, maxName), Error: l.IsError}
		e.Text, e.Cut = agent.Clip(clean(l.Text), maxTool)
		e.Cut = e.Cut || l.Cut
		return e
	}
	r.state.Tally.Spoken += int64(len(l.Input))
	e = api.TurnEvent{Type: api.EventToolCall, ID: clip(l.ID, maxName), Name: clip(l.Name, maxName), Input: l.Input, Cut: l.Cut}
	if len(e.Input) > maxTool {
		e.Input, e.Cut = nil, true
	}
	return e
}

func (r *reader) usage() api.TurnEvent {
	used := r.used()
	return api.TurnEvent{Type: api.EventUsage, Usage: &used, Model: r.model(), CostUSD: r.state.Tally.CostUSD}
}

func (r *reader) used() api.Usage {
	return r.state.Tally.total(r.profile.Usage, r.turn.Text(), r.state.End != nil)
}

// End returns the end that the agent reported.
func (r *reader) End() (agent.End, bool) {
	e := agent.End{Usage: r.used(), Model: r.model(), CostUSD: r.state.Tally.CostUSD}
	if r.state.End == nil {
		return e, false
	}
	e.Status, e.Code, e.Message, e.StopReason = r.state.End.Status, r.state.End.Code, r.state.End.Message, r.state.End.Stop
	return e, true
}

// clean replaces NUL characters, which databases refuse.
func clean(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

func clip(text string, most int) string {
	text, _ = agent.Clip(clean(text), most)
	return text
}
