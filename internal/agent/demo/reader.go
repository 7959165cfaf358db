package demo

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
)

// mostResult is what of a tool's result is kept; a program gives one byte more, if there is more.
const mostResult = 64 << 10

// told is a line of a turn's program.
type told struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Hex   string          `json:"hex"` // in the place of Text
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Code  int             `json:"code"`
}

// state is what the lines so far have told.
type state struct {
	Words int64 `json:"words,omitempty"` // that were said
	Calls int   `json:"calls,omitempty"`
	Done  bool  `json:"done,omitempty"`
}

// reader is an agent.Reader.
type reader struct {
	turn  agent.Turn
	state state
}

func (r *reader) State() any { return r.state }

// Line reads one line.
func (r *reader) Line(line []byte) ([]api.TurnEvent, bool) {
	var l told
	if json.Unmarshal(line, &l) != nil {
		return nil, false
	}
	if l.Hex != "" {
		raw, err := hex.DecodeString(l.Hex)
		if err != nil {
			return nil, false
		}
		l.Text = string(bytes.ToValidUTF8(bytes.ReplaceAll(raw, []byte{0}, nil), []byte("\uFFFD")))
	}
	e, ok := r.event(&l)
	if !ok {
		return nil, l.Type != ""
	}
	e.Raw = bytes.Clone(line)
	return []api.TurnEvent{e}, true
}

func (r *reader) event(l *told) (e api.TurnEvent, ok bool) {
	text, cut := agent.Clip(l.Text, mostResult)
	switch l.Type {
	case "init":
		return api.TurnEvent{Type: api.EventStatus, Status: agent.StatusSessionStarted, Session: r.turn.Session.ID, Model: Name}, true
	case "delta":
		r.state.Words += int64(len(strings.Fields(text)))
		return api.TurnEvent{Type: api.EventTextDelta, Text: text}, true
	case "text":
		return api.TurnEvent{Type: api.EventText, Text: text, Cut: cut}, true
	case "call":
		r.state.Calls++
		return api.TurnEvent{Type: api.EventToolCall, ID: r.call(), Name: l.Name, Input: l.Input}, true
	case "result":
		if l.Code != 0 {
			text = strings.TrimRight(text, "\n") + fmt.Sprintf("\nexit code %d", l.Code)
		}
		return api.TurnEvent{Type: api.EventToolResult, ID: r.call(), Text: text, Error: l.Code != 0, Cut: cut}, true
	case "done":
		r.state.Done = true
		used := r.usage()
		return api.TurnEvent{Type: api.EventUsage, Usage: &used, Model: Name}, true
	}
	return e, false
}

func (r *reader) call() string { return fmt.Sprintf("demo_%d", r.state.Calls) }

// usage counts words, for want of tokens.
func (r *reader) usage() api.Usage {
	return api.Usage{InputTokens: int64(len(strings.Fields(r.turn.Prompt))), OutputTokens: r.state.Words, Estimated: true}
}

// End is completed once the program said so.
func (r *reader) End() (agent.End, bool) {
	e := agent.End{Usage: r.usage(), Model: Name}
	if r.state.Done {
		e.Status = api.TurnCompleted
	}
	return e, r.state.Done
}
