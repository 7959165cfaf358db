package claudecli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
)

// Limits in bytes of the content of one event.
const (
	maxText      = 1 << 20
	maxResult    = 256 << 10
	maxInput     = 256 << 10
	maxRaw       = 1 << 20
	maxName      = 200
	maxErrorText = 1 << 10 // of an error message
)

// state is stored in the cursor, so that a later reader continues from it.
type state struct {
	Begun  bool    `json:"begun,omitempty"`
	Model  string  `json:"model,omitempty"`
	Tokens tally   `json:"tokens"`
	Result *result `json:"result,omitempty"` // the last result; nil after a later init line
	// Answered reports whether the agent itself, not a sub-agent, wrote a text since the last result.
	Answered bool `json:"answered,omitempty"`
	// Failure is the kind of the last error that the CLI reported as a message.
	Failure string `json:"failure,omitempty"`
	// Refused reports whether the service refused the key more than once.
	Refused bool `json:"refused,omitempty"`
}

// result holds the parts of the CLI's result line, the last line of a turn.
type result struct {
	Status    string   `json:"status"`
	Code      api.Code `json:"code,omitempty"`
	Stop      string   `json:"stop,omitempty"`
	Message   string   `json:"message,omitempty"`
	NoSession bool     `json:"no_session,omitempty"`
}

// reader implements agent.Reader.
type reader struct {
	state   state // an earlier turn began the session
	resumed bool  // the session was begun by an earlier turn
}

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
		e.Parent, _ = agent.Clip(h.Parent, maxName)
		e.ID, _ = agent.Clip(e.ID, maxName)
		e.Name, _ = agent.Clip(e.Name, maxName)
	}
	if len(events) > 0 && len(line) <= maxRaw {
		events[0].Raw = bytes.Clone(line)
	}
	return events, true
}

func (r *reader) decode(h header, line []byte) ([]api.TurnEvent, error) {
	switch h.Type + "/" + h.Subtype {
	case "cost-state/":
		return decodeAs(line, r.readCosts)
	case "system/init":
		return decodeAs(line, r.begin)
	case "system/api_retry":
		return decodeAs(line, r.retry)
	case "assistant/":
		return decodeAs(line, func(l *messageLine) []api.TurnEvent { return r.assistant(h.Parent, l) })
	case "user/":
		return decodeAs(line, func(l *messageLine) []api.TurnEvent { return toolResults(l.Message.Content) })
	case "stream_event/":
		return decodeAs(line, func(l *streamLine) []api.TurnEvent { return r.stream(h.Parent, l) })
	}
	if h.Type == "result" {
		return decodeAs(line, r.result)
	}
	return nil, nil
}

func decodeAs[L any](line []byte, then func(*L) []api.TurnEvent) ([]api.TurnEvent, error) {
	var l L
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	return then(&l), nil
}

// readCosts stores the usage of the session before this process.
func (r *reader) readCosts(l *costLine) []api.TurnEvent {
	if !r.state.Begun {
		r.state.Tokens.Before = spent{l.PerModel.sum().Usage, dollars(l.CostUSD)}
	}
	return nil
}

func (r *reader) begin(l *initLine) []api.TurnEvent {
	r.state.Result = nil
	if r.state.Begun {
		return nil
	}
	r.state.Begun = true
	r.setModel(l.Model)
	session, _ := agent.Clip(l.Session, maxName)
	events := []api.TurnEvent{{Type: api.EventStatus, Status: agent.StatusSessionStarted, Session: session, Model: r.state.Model}}
	if !r.resumed && newerThanTested(l.Version) {
		version, _ := agent.Clip(clean(l.Version), maxName)
		events = append(events, api.TurnEvent{Type: api.EventStatus, Status: agent.StatusUntested,
			Message: fmt.Sprintf("Claude Code %s is newer than %d.%d.%d, the newest version that this Berth is tested with", version, testedVersion[0], testedVersion[1], testedVersion[2])})
	}
	return events
}

func (r *reader) setModel(name string) {
	if name != "" && name != synthetic {
		r.state.Model, _ = agent.Clip(clean(name), maxName)
	}
}

// Quit reports whether the CLI repeats a call that cannot succeed.
func (r *reader) Quit() bool { return r.state.Refused && r.state.Result == nil }

func (r *reader) retry(l *retryLine) []api.TurnEvent {
	if l.Status == statusKeyRefused && l.Attempt >= refusedTwice {
		r.state.Refused = true
	}
	why := "the model's service does not answer"
	if l.Status > 0 {
		why = fmt.Sprintf("the model's service answered %.0f", l.Status)
	}
	message := fmt.Sprintf("%s; try %.0f of %.0f in %.1f s", why, l.Attempt, l.Most, l.DelayMS/1000)
	message, _ = agent.Clip(message, maxErrorText)
	return []api.TurnEvent{{Type: api.EventStatus, Status: agent.StatusRetrying, Message: message}}
}

// assistant reads the blocks of an answer. Its usage counts only if the stream has given no better figure.
func (r *reader) assistant(parent string, l *messageLine) (events []api.TurnEvent) {
	m := &l.Message
	if m.Model == synthetic {
		r.state.Failure = key(l.Error)
		return nil
	}
	if parent == "" {
		r.setModel(m.Model)
	}
	if m.ID != "" {
		r.state.Tokens.begin(key(parent), key(m.ID), m.Usage)
	}
	for i := range m.Content {
		if e, ok := blockEvent(&m.Content[i]); ok {
			r.state.Answered = r.state.Answered || parent == "" && e.Type == api.EventText
			events = append(events, e)
		}
	}
	return events
}

func blockEvent(b *block) (e api.TurnEvent, ok bool) {
	switch b.Type {
	case "text":
		return textEvent(api.EventText, b.Text), b.Text != ""
	case "thinking":
		return textEvent(api.EventThinking, b.Thinking), b.Thinking != ""
	case "tool_use", "server_tool_use", "mcp_tool_use":
		e = api.TurnEvent{Type: api.EventToolCall, ID: clean(b.ID), Name: clean(b.Name), Input: b.Input}
		if len(e.Input) > maxInput {
			e.Input, e.Cut = nil, true
		}
		return e, true
	}
	return toolResultEvent(b)
}

func textEvent(kind, text string) api.TurnEvent {
	text, cut := agent.Clip(clean(text), maxText)
	return api.TurnEvent{Type: kind, Text: text, Cut: cut}
}

// clean replaces NUL characters, which databases refuse.
func clean(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

// toolResults reads the results of tools. Other blocks of a user's message are notes of the CLI and are ignored.
func toolResults(blocks content) (events []api.TurnEvent) {
	for i := range blocks {
		if e, ok := toolResultEvent(&blocks[i]); ok {
			events = append(events, e)
		}
	}
	return events
}

func toolResultEvent(b *block) (e api.TurnEvent, ok bool) {
	if !strings.HasSuffix(b.Type, "tool_result") {
		return e, false
	}
	text, cut := agent.Clip(clean(resultText(b.Content)), maxResult)
	return api.TurnEvent{Type: api.EventToolResult, ID: clean(b.ToolUseID), Text: text, Cut: cut, Error: b.IsError}, true
}

// stream reads the events of the model's service: deltas, and the usage of each call.
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

// key shortens an id before it is stored in the state.
func key(id string) string {
	id, _ = agent.Clip(id, maxName)
	return id
}

func (r *reader) usage() api.TurnEvent {
	total := r.state.Tokens.total()
	return api.TurnEvent{Type: api.EventUsage, Usage: &total, Model: r.state.Model, CostUSD: r.state.Tokens.Base.CostUSD}
}

// result reads a result line. Its subtype is "success" for failed turns too. Its text is new only for commands of the
// CLI, such as /cost; otherwise it repeats the answer.
func (r *reader) result(l *resultLine) (events []api.TurnEvent) {
	r.state.Tokens.result(l)
	res := &result{Status: api.TurnCompleted}
	res.Stop, _ = agent.Clip(clean(l.Stop), maxName)
	switch {
	case strings.HasPrefix(l.Reason, "aborted"):
		res.Status = api.TurnCancelled
	case l.IsError:
		res.Status, res.Code = api.TurnFailed, failureCode(l, r.state.Failure)
		res.Message, _ = agent.Clip(clean(failureReason(l)), maxErrorText)
		if res.Code == api.CodeModelKeyMissing {
			res.Message = noKey
		}
		res.NoSession = strings.Contains(strings.Join(l.Errors, "\n"), "No conversation found")
	}
	if res.Status == api.TurnCompleted && !r.state.Answered && l.Result != "" {
		events = append(events, textEvent(api.EventText, l.Result))
	}
	r.state.Result, r.state.Answered, r.state.Failure = res, false, ""
	r.state.Refused = r.state.Refused && res.Status == api.TurnCancelled
	return append(events, r.usage())
}

// noKey is the error of a CLI without a key, whose own text names a command that does not exist here.
const noKey = "Claude Code has no key; type: berth secret set ANTHROPIC_API_KEY"

// failureCode returns the error code of a failed turn.
func failureCode(l *resultLine, kind string) api.Code {
	switch {
	case l.Stop == "refusal":
		return api.CodeModelRefusal
	case l.Reason == "prompt_too_long", l.Status == 413:
		return api.CodePromptTooLong
	case kind == "billing_error", l.Status == 402:
		return api.CodeModelNoCredit
	case l.Status == 403:
		return api.CodeModelDenied
	case strings.Contains(l.Result, "Not logged in"):
		return api.CodeModelKeyMissing
	case l.Status == statusKeyRefused, kind == "authentication_failed":
		return api.CodeModelKeyRefused
	case l.Status == 429, kind == "rate_limit":
		return api.CodeModelRateLimited
	case l.Status >= 500, kind == "server_error":
		return api.CodeModelUnavailable
	case l.Stop == "max_tokens", kind == "max_output_tokens":
		return api.CodeAnswerTooLong
	}
	return api.CodeAgentFailed
}

// failureReason returns the CLI's own reason for a failed turn.
func failureReason(l *resultLine) string {
	switch {
	case len(l.Errors) > 0 && l.Result == "":
		return strings.Join(l.Errors, "; ")
	case l.Result != "":
		return l.Result
	}
	return l.Subtype
}

// End returns the end that the result line reports.
func (r *reader) End() (agent.End, bool) {
	e := agent.End{Usage: r.state.Tokens.total(), Model: r.state.Model, CostUSD: r.state.Tokens.Base.CostUSD}
	res := r.state.Result
	switch {
	case r.state.Refused && (res == nil || res.Status == api.TurnCancelled):
		e.Status, e.Code, e.Message = api.TurnFailed, api.CodeModelKeyRefused, "the model's service refuses the key (401)"
		return e, true
	case res == nil:
		return e, false
	}
	e.Status, e.Code, e.StopReason, e.Message, e.NoSession = res.Status, res.Code, res.Stop, res.Message, res.NoSession
	return e, true
}
