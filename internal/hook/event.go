package hook

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
)

// mostBody is how large an event is at most: as large as receivers of webhooks are known to take, and less
// than what a pipe holds, so that a command gets all of it whether it reads or not.
const mostBody = 20_000

// event is what commands and webhooks are told.
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
	Truncated      bool         `json:"truncated,omitempty"` // the message was longer; it can be read over the API
}

// body is the event as one line of JSON of at most mostBody bytes. Of a message that is too long, the
// beginning of its text is left.
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
	for room := mostBody / 2; err == nil && len(text) > mostBody && e.Data.Message != nil; room /= 2 {
		e.Data.Truncated = true
		e.Data.Message.Error = cut(d.Message.Error, room/8)
		e.Data.Message.Content = []api.Block{{Type: api.BlockText, Text: cut(d.Message.Text(), room), Truncated: true}}
		text, err = json.Marshal(e)
	}
	return text, err
}

// cut is the beginning of a text, at most so many bytes and whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// tail keeps the last bytes of what is written to it.
type tail struct {
	most int
	text []byte
}

// mostTail is how much of a command's output its error tells.
const mostTail = 2000

func (t *tail) add(p []byte) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*t.most {
		t.text = append(t.text[:0], t.text[len(t.text)-t.most:]...)
	}
}

func (t *tail) bytes() []byte { return t.text[max(0, len(t.text)-t.most):] }

// lines are the last few lines, as they can be shown: whatever a sandbox wrote is somebody else's text.
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
