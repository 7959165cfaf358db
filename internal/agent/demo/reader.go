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

// maxResult limits the kept bytes of a tool's result. A program prints one byte more if the result is longer.
const maxResult = 64 << 10

// programLine is one line that a turn's program prints.
type programLine struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Hex   string          `json:"hex"` // replaces Text: its bytes in hexadecimal digits
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Code  int             `json:"code"`
}

// state is stored in the cursor, so that a later reader continues from it.
type state struct {
	Words int64 `json:"words,omitempty"` // words of the answer so far
	Calls int   `json:"calls,omitempty"`
	Done  bool  `json:"done,omitempty"`
}

// reader implements agent.Reader.
type reader struct {
	turn  agent.Turn
	state state
}

func (r *reader) State() any { return r.state }

// Line reads one line.
func (r *reader) Line(line []byte) ([]api.TurnEvent, bool) {
	var l programLine
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

func (r *reader) event(l *programLine) (e api.TurnEvent, ok bool) {
	text, cut := agent.Clip(l.Text, maxResult)
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

// usage returns the number of words, because the agent has no tokens.
func (r *reader) usage() api.Usage {
	return api.Usage{InputTokens: int64(len(strings.Fields(r.turn.Prompt))), OutputTokens: r.state.Words, Estimated: true}
}

// End reports that the turn completed once the program has printed "done".
func (r *reader) End() (agent.End, bool) {
	e := agent.End{Usage: r.usage(), Model: Name}
	if r.state.Done {
		e.Status = api.TurnCompleted
	}
	return e, r.state.Done
}
