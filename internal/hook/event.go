package hook

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
)

// maxEventBytes is the largest size of an event. Receivers of webhooks accept this much. It is also smaller than the
// buffer of a pipe, so that writing an event does not wait for the command to read it.
const maxEventBytes = 20_000

// event is the input of commands and webhooks.
type event struct {
	Type      Phase     `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      eventData `json:"data"`
}

type eventData struct {
	ConversationID string       `json:"conversation_id,omitempty"`
	TurnID         string       `json:"turn_id,omitempty"`
	Message        *api.Message `json:"message,omitempty"`
	Usage          *api.Usage   `json:"usage,omitempty"`
	Status         string       `json:"status,omitempty"`
	Version        string       `json:"version,omitempty"`
	Sandbox        Info         `json:"sandbox"`
	Truncated      bool         `json:"truncated,omitempty"` // the message is cut; the API returns all of it
}

// body returns the event as one line of JSON of at most maxEventBytes bytes. A message that is too long is cut to
// the beginning of its text.
func (d *Data) body(now time.Time) ([]byte, error) {
	e := event{Type: d.Phase, Timestamp: now.UTC().Truncate(time.Millisecond), Data: eventData{
		ConversationID: d.ConversationID, TurnID: d.TurnID, Status: d.Status, Version: d.Version, Sandbox: d.Sandbox,
	}}
	if d.Message.ID != "" {
		m := d.Message
		e.Data.Message = &m
	}
	if d.Phase == OnStreamFinish {
		e.Data.Usage = &d.Usage
	}
	text, err := json.Marshal(e)
	for room := maxEventBytes / 2; err == nil && len(text) > maxEventBytes && e.Data.Message != nil; room /= 2 {
		e.Data.Truncated = true
		e.Data.Message.Error = cut(d.Message.Error, room/8)
		e.Data.Message.Content = []api.Block{{Type: api.BlockText, Text: cut(d.Message.Text(), room), Truncated: true}}
		text, err = json.Marshal(e)
	}
	return text, err
}

// cut shortens a text to at most the given number of bytes. It never cuts inside a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// tail keeps the last bytes of the output that is added to it.
type tail struct {
	limit int
	text  []byte
}

// maxTailBytes is the number of bytes of a command's output that are kept for its error.
const maxTailBytes = 2000

func (t *tail) add(p []byte) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*t.limit {
		t.text = append(t.text[:0], t.text[len(t.text)-t.limit:]...)
	}
}

func (t *tail) bytes() []byte { return t.text[max(0, len(t.text)-t.limit):] }

// lines returns the last 10 lines, without control characters: the text comes from the sandbox.
func (t *tail) lines() string {
	text := strings.ToValidUTF8(string(t.bytes()), "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
